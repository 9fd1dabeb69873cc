"""Rules that many operators share: dtypes, broadcasting, and what gradients are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from braces.builder.var import Var, one, tensor_type
from braces.define.inference import Context
from braces.dims import Shape, Size
from braces.dtypes import FLOAT32, INT64, DType, TensorType, is_float
from braces.errors import DTypeError, ShapeError
from braces.ir.records import Op
from braces.lazy import jnp

# ---- dtypes ----------------------------------------------------------------------------------


def promote(*dtypes: DType) -> DType:
    """The dtype of a result that mixes these: as the array API; a float wins over integers.

    Raises:
        DTypeError: Signed and unsigned 64-bit integers, which no integer dtype can hold both.
    """
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = _promote_two(result, dtype)
    return result


def _promote_two(left: DType, right: DType) -> DType:
    if left == right:
        return left
    if is_float(left) != is_float(right):
        return left if is_float(left) else right
    if is_float(left):
        return _promote_floats(left, right)
    found = np.result_type(left, right)
    if found.kind == "f":
        raise DTypeError(
            f"No integer dtype holds both {left} and {right}.",
            fix="Use br.cast on one of them.",
        )
    return found


def _promote_floats(left: DType, right: DType) -> DType:
    if "V" in (left.kind, right.kind):  # bfloat16 is of kind V to NumPy
        other = right if left.kind == "V" else left
        return FLOAT32 if other.itemsize == 2 else other
    return np.result_type(left, right)


def float_dtype(dtype: DType) -> DType:
    """The dtype of real-valued functions: floats stay, integers and bools give float32."""
    return dtype if is_float(dtype) else FLOAT32


def sum_dtype(dtype: DType) -> DType:
    """The dtype of sums and products: small integers and bools give int64, as the array API."""
    if is_float(dtype) or dtype == np.uint64:
        return dtype
    return np.dtype(np.uint64) if dtype.kind == "u" else INT64


def floating(x: Any) -> Any:
    """For kernels: an array in the dtype of real-valued functions."""
    return jnp.asarray(x, float_dtype(np.dtype(x.dtype)))


def promoted(*arrays: Any) -> tuple[Any, ...]:
    """For kernels: arrays brought to one dtype."""
    dtype = promote(*(np.dtype(x.dtype) for x in arrays))
    return tuple(x.astype(dtype) for x in arrays)


# ---- shapes ----------------------------------------------------------------------------------


def broadcast_shapes(context: Context, *shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting.

    Raises:
        ShapeError: Two sizes on one axis differ and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        start = rank - len(shape)
        for axis, size in enumerate(shape, start):
            so_far, number = result[axis], type(size) is int
            if number and so_far == 1:
                result[axis] = size
            elif not number or size not in (1, so_far):
                result[axis] = _broadcast_axis(context, axis - rank, (so_far, size))
    return tuple(result)


def _broadcast_axis(context: Context, axis: int, sizes: Sequence[Size]) -> Size:
    result: Size = 1
    for size in sizes:
        if context.unifier.resolve(size) == 1:
            continue
        if result == 1:
            result = size
            continue
        problem = f"{context.type} cannot broadcast {result} with {size} on axis {axis}."
        result = context.unify(result, size, problem)
    return context.unifier.resolve(result)


def broadcast_types(context: Context, *types: TensorType) -> TensorType:
    """The type of an elementwise result: promoted dtype, broadcast shape."""
    first = types[0]
    for other in types:
        if other.dtype != first.dtype or other.shape != first.shape:
            break
    else:
        if not context.unifier.known:
            return first  # as most are, and no size can turn out to be another one
    shape = broadcast_shapes(context, *[t.shape for t in types])
    return TensorType(promote(*[t.dtype for t in types]), shape)


def broadcasting(context: Context, /, *types: TensorType, **attrs: Any) -> TensorType:
    """Inference: the inputs broadcast, their dtypes are promoted."""
    del attrs
    return broadcast_types(context, *types)


def same_type(
    context: Context, x: TensorType, /, *others: TensorType, **attrs: Any
) -> TensorType:
    """Inference: the type of the first input."""
    del context, others, attrs
    return x


def real_valued(context: Context, x: TensorType, /, **attrs: Any) -> TensorType:
    """Inference: the shape of the input; floats keep their dtype, the rest gives float32."""
    del context, attrs
    return x if is_float(x.dtype) else x.with_dtype(FLOAT32)


def axis_index(axis: int, rank: int, what: str) -> int:
    """A non-negative axis.

    Raises:
        ShapeError: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"{what} has no axis {axis} in {rank} axes.", fix="Axes count from 0.")
    return axis % rank


def axis_indices(axis: int | tuple[int, ...] | None, rank: int, what: str) -> tuple[int, ...]:
    """Axes as sorted non-negative numbers; `None` means all of them."""
    if axis is None:
        return tuple(range(rank))
    axes = (axis,) if isinstance(axis, int) else axis
    found = sorted(axis_index(a, rank, what) for a in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"{what} is given the same axis twice.", given=f"axis={axis}")
    return tuple(found)


# ---- gradients as programs -------------------------------------------------------------------


@dataclass(frozen=True)
class AddInto:
    """A cotangent that is cheaper to add into an accumulator than to make on its own.

    Attributes:
        into: From an accumulator of the input's type to the accumulator with this added.
    """

    into: Callable[[Var], Var]


Cotangent: TypeAlias = "Var | AddInto | None"


class Backward:
    """One operator, as its gradient rule sees it: variables by slot, and the cotangents."""

    def __init__(
        self,
        inputs: Mapping[str, tuple[Var, ...]],
        outputs: Mapping[str, tuple[Var, ...]],
        grads: Mapping[str, tuple[Var | None, ...]],
        attrs: Mapping[str, Any],
        wanted: frozenset[str],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.grads = grads
        self.attrs = attrs
        self.wanted = wanted

    def __getitem__(self, slot: str) -> Var:
        """The variable of an input or output slot that holds just one."""
        return (self.inputs.get(slot) or self.outputs[slot])[0]

    @property
    def out_grad(self) -> Var:
        """The cotangent of the only output."""
        (found,) = next(iter(self.grads.values()))
        assert found is not None
        return found

    def wants(self, slot: str) -> bool:
        """Whether the cotangent of any variable of this input slot is wanted."""
        return any(var.name in self.wanted for var in self.inputs.get(slot, ()))


def sum_to(grad: Var, like: Var) -> Var:
    """Undo broadcasting: sum a cotangent down to the type of `like`."""
    target, shape = tensor_type(like), grad.shape
    extra = len(shape) - target.rank
    if extra:
        grad = one("sum", grad, axis=tuple(range(extra)), keepdims=False)
    kept = zip(grad.shape, target.shape, strict=True)
    ones = tuple(i for i, (got, want) in enumerate(kept) if want == 1 and got != 1)
    if ones:
        grad = one("sum", grad, axis=ones, keepdims=True)
    return grad if grad.dtype == target.dtype else one("cast", grad, dtype=target.dtype)


def zeros_of(type_: TensorType) -> Var:
    """Zeros of a type; they need no value, so nothing is kept for their sake."""
    return one("full", shape=type_.shape, value=0.0, dtype=type_.dtype)


def gives_zeros(op: Op | None) -> bool:
    """Whether an operator gives zeros whatever is run, as those of `zeros_of` do."""
    return op is not None and op.type == "full" and op.attrs["value"] == 0
