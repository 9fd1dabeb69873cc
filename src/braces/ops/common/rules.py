"""Shared rules of operators: dtypes, axes, and building blocks of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from braces.builder.append import describe_operands, emit
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import AxisError, normalize_axes, normalize_axis
from braces.define.completed_doc import DescribedRule, described
from braces.dtypes import BOOL, FLOAT32, INT64, DType, TensorType, is_float, is_stored
from braces.errors import DTypeError
from braces.ir.records import Op
from braces.lazy import jnp

# ---- dtypes ----------------------------------------------------------------------------------


def promote(*dtypes: DType) -> DType:
    """Return the promoted dtype: as in the array API; a float wins over integers.

    Raises:
        DTypeError: If signed and unsigned 64-bit integers are mixed, which have no common
            integer dtype, or a storage-only dtype is mixed with another one.
    """
    result = dtypes[0]
    for dtype in dtypes[1:]:
        if dtype != result:
            result = _promote_two(result, dtype)
    return result


def _promote_two(left: DType, right: DType) -> DType:
    if is_stored(left) or is_stored(right):
        raise DTypeError(
            f"no dtype promotion of {left} and {right}: a storage-only dtype is not promoted.",
            fix="Use br.cast on one of them.",
        )
    if is_float(left) != is_float(right):
        return left if is_float(left) else right
    if is_float(left):
        return _promote_floats(left, right)
    dtype = np.result_type(left, right)
    if dtype.kind == "f":
        raise DTypeError(
            f"no integer dtype holds both {left} and {right}.",
            fix="Use br.cast on one of them.",
        )
    return dtype


def _promote_floats(left: DType, right: DType) -> DType:
    if "V" in (left.kind, right.kind):  # NumPy gives bfloat16 the kind V
        other = right if left.kind == "V" else left
        return FLOAT32 if other.itemsize == 2 else other
    return np.result_type(left, right)


def float_dtype(dtype: DType) -> DType:
    """Return the dtype of real-valued functions: integers and bools give float32."""
    return dtype if is_float(dtype) else FLOAT32


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype of sums: small integers and bools give int64, as in the array API."""
    if is_float(dtype) or dtype == np.uint64:
        return dtype
    return np.dtype(np.uint64) if dtype.kind == "u" else INT64


def as_floating(x: Any) -> Any:
    """Cast an array to the dtype of real-valued functions (kernel helper)."""
    return jnp.asarray(x, float_dtype(np.dtype(x.dtype)))


def promote_arrays(*arrays: Any) -> tuple[Any, ...]:
    """Cast arrays to their promoted dtype (kernel helper)."""
    dtype = promote(*(np.dtype(x.dtype) for x in arrays))
    return tuple(x.astype(dtype) for x in arrays)


REFUSED = {
    "b": ("bool", "bools", "Use br.cast(x, 'int32'), or the logical operators."),
    "c": ("complex", "complex numbers", "Use its real and imaginary parts."),
}


def refuse(what: str, dtype: DType, kinds: str) -> None:
    """Raise a `DTypeError` if `dtype` is of one of these kinds (`b`ool, `c`omplex)."""
    if dtype.kind in kinds:
        _, name, fix = REFUSED[dtype.kind]
        raise DTypeError(f"{what} is not defined for {name}.", fix=fix)


def promotion_rule(
    refused: str = "", result: Callable[[DType], DType] | None = None, gives: str = ""
) -> DescribedRule:
    """Build a dtype rule: promote, refuse some kinds, then map to the dtype of the result.

    `gives` describes the result in documentation.
    """
    takes = "real" if "c" in refused else "number"
    names = " or ".join(REFUSED[kind][0] for kind in refused)

    @described(takes, gives, refuses=f"If the dtype is {names}." if refused else "")
    def rule(what: str, *dtypes: DType | None, **attrs: Any) -> DType:
        del attrs
        common_dtype = promote(*[dtype for dtype in dtypes if dtype is not None])
        refuse(what, common_dtype, refused)
        return result(common_dtype) if result else common_dtype

    return rule


def to_bool(dtype: DType) -> DType:
    """Return bool, for any dtype."""
    del dtype
    return BOOL


FLOATS, BOOLS = "float[*shape]; integers give float32.", "bool[*shape]."
common = promotion_rule()
numeric = promotion_rule(refused="b")
real = promotion_rule(refused="bc")
ordered = promotion_rule(refused="c")
real_valued = promotion_rule("", float_dtype, FLOATS)
real_function = promotion_rule("c", float_dtype, FLOATS)
truth = promotion_rule("", to_bool, BOOLS)
"""Dtype rules of elementwise operators; `ordered` refuses complex numbers, `real_valued` gives
floats, `truth` gives bools."""


@described("any")
def first_dtype(what: str, x: DType, /, *others: DType | None, **attrs: Any) -> DType:
    """Dtype rule: the dtype of the first input."""
    del what, others, attrs
    return x


def attribute_dtype(what: str, *others: DType, dtype: DType, **attrs: Any) -> DType:
    """Dtype rule: the attribute `dtype`."""
    del what, others, attrs
    return dtype


def real_numbers(what: str, *dtypes: DType | None, **attrs: Any) -> DType:
    """Dtype rule: the floating dtype of real inputs; absent inputs are `None`.

    Raises:
        DTypeError: If an input is complex.
    """
    dtype = real_valued(what, *dtypes, **attrs)
    if dtype.kind == "c":
        raise DTypeError(f"{what}: expected a real dtype, got {dtype}.")
    return dtype


# ---- axes ------------------------------------------------------------------------------------


def axis_index(axis: int, rank: int, what: str) -> int:
    """Return an axis as a non-negative number.

    Raises:
        ShapeError: If the axis is out of range.
    """
    try:
        return normalize_axis(axis, rank)
    except AxisError as error:
        raise error.of(what) from None


def axis_indices(axis: int | tuple[int, ...] | None, rank: int, what: str) -> tuple[int, ...]:
    """Return axes as sorted non-negative numbers; `None` means all axes."""
    try:
        return tuple(normalize_axes(axis, rank))
    except AxisError as error:
        raise error.of(what) from None


# ---- gradients as programs -------------------------------------------------------------------


@dataclass(frozen=True)
class AddInto:
    """A cotangent that is cheaper to add into an accumulator than to materialize.

    Attributes:
        grad: The values to add, of the dtype of the input.
        add: Takes an accumulator of the shape of the input and the values in its dtype; returns
            the accumulator with the values added.
    """

    grad: Var
    add: Callable[[Var, Var], Var]

    def into(self, total: Var) -> Var:
        """Add the values to an accumulator, in the dtype of the accumulator."""
        grad, type_ = self.grad, total.type
        if isinstance(type_, TensorType) and type_.dtype != grad.dtype:
            grad = emit("cast", grad, dtype=type_.dtype)
        return self.add(total, grad)


Cotangent: TypeAlias = "Var | AddInto | None"


class Backward:
    """Context of a gradient rule: the variables of one operator by slot, and its cotangents."""

    def __init__(
        self,
        inputs: Mapping[str, tuple[Var, ...]],
        outputs: Mapping[str, tuple[Var, ...]],
        grads: Mapping[str, tuple[Var | None, ...]],
        attrs: Mapping[str, Any],
        wanted: frozenset[str],
        zeros: Callable[[str], Var],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.grads = grads
        self.attrs = attrs
        self.wanted = wanted
        self._zeros = zeros

    def __str__(self) -> str:
        return describe_operands(self.inputs)

    def __getitem__(self, slot: str) -> Var:
        """Return the variable of an input or output slot that holds a single one."""
        return (self.inputs.get(slot) or self.outputs[slot])[0]

    @property
    def out_grad(self) -> Var:
        """The cotangent of the single output."""
        (grad,) = next(iter(self.grads.values()))
        assert grad is not None
        return grad

    def zeros(self, slot: str) -> Var:
        """Return the zero cotangent of an unused value; for a list only its length is saved."""
        return self._zeros(self[slot].name)

    def wants(self, slot: str) -> bool:
        """Return whether the cotangent of any variable of an input slot is needed."""
        return any(var.name in self.wanted for var in self.inputs.get(slot, ()))


def sum_to(grad: Var, like: Var) -> Var:
    """Reverse broadcasting: sum a cotangent down to the shape and dtype of `like`.

    The cotangent of a real operand of a complex function is the real part.
    """
    target = tensor_type(like)
    if grad.dtype.kind == "c" and target.dtype.kind != "c":
        grad = emit("real", grad)
    shape = grad.shape
    extra = len(shape) - target.rank
    if extra:
        grad = emit("sum", grad, axis=tuple(range(extra)), keepdims=False)
    sizes = zip(grad.shape, target.shape, strict=True)
    ones = tuple(i for i, (got, want) in enumerate(sizes) if want == 1 and got != 1)
    if ones:
        grad = emit("sum", grad, axis=ones, keepdims=True)
    return grad if grad.dtype == target.dtype else emit("cast", grad, dtype=target.dtype)


def build_zeros(type_: TensorType) -> Var:
    """Build zeros of a type; they depend on no value, so they need no residual."""
    return emit("full", shape=type_.shape, value=0.0, dtype=type_.dtype)


def is_zeros(op: Op | None) -> bool:
    """Return whether an operator always gives zeros, as those of `build_zeros` do."""
    return op is not None and op.type == "full" and op.attrs["value"] == 0
