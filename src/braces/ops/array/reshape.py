"""Changes of shape: reshape, flatten, expand_dims, squeeze, broadcast_to."""

from __future__ import annotations

import math
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    normalize_axes,
    numbered_indices,
    remove_axes,
    require_tuple,
    shape_of,
)
from braces.define.decorator import Axis, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, Size, divide_exactly, product
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import Backward, axis_indices, first_dtype, sum_to


def reshape_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of reshape: axes of equal size with equal leading products are pointwise."""
    del attrs
    before, after = (shape_of(types[slot][0]) for slot in ("x", "out"))
    x, new = numbered_indices(len(before)), numbered_indices(len(after), "new")
    axes_by_lead: dict[tuple[Size, Size], list[str]] = {}
    for i, index in enumerate(x):
        axes_by_lead.setdefault((product(before[:i]), before[i]), []).append(index)
    out: list[str | None] = []
    for j, size in enumerate(after):
        candidates = axes_by_lead.get((product(after[:j]), size))
        out.append(candidates.pop(0) if candidates else None if size == 1 else new[j])
    mixed = {*x, *new}.difference(i for i in out if i in x)
    return make_axis_map(types, {"x": (x,)}, {"out": (tuple(out),)}, mixed)


def expand_dims_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of expand_dims: all axes, and new ones of size 1."""
    x, axis = numbered_indices(first_rank(types, "x")), require_tuple(attrs["axis"])
    rank = len(x) + len(axis)
    new, remaining = normalize_axes(axis, rank), iter(x)
    out = tuple(None if i in new else next(remaining) for i in range(rank))
    return make_axis_map(types, {"x": (x,)}, {"out": (out,)})


def squeeze_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of squeeze: all axes but the removed ones of size 1."""
    x = numbered_indices(first_rank(types, "x"))
    removed = normalize_axes(attrs["axis"], len(x))
    return make_axis_map(
        types, {"x": (x,)}, {"out": (remove_axes(x, removed),)}, [x[i] for i in removed]
    )


@op(
    axes=reshape_axis_map,
    cheap=True,
    changes_only="shape",
    examples=(
        "x=f32[2,6] shape=(3,4)",
        "x=f32[b,8] shape=(b,2,4)",
        "x=f32[b,8] shape=(-1,4)",
        "x=f32[b,t,3] shape=(b,-1)",
        "x=f64[] shape=(1,1)",
        "x=f32[0,3] shape=(-1,3)",
        "x=i32[6] shape=(2,3)",
    ),
)
def reshape(x: Tensor, *, shape: Shape) -> Tensor:
    """The same elements in another shape, in row-major order.

        flat(out) = flat(x)

    Inputs:
        x: any[*shape_of_x].

    Attributes:
        shape: The new sizes, which may be symbolic. One may be -1: it is inferred.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: If the number of elements differs, or the size at -1 is not an integer for
            every value of the symbolic sizes.
    """
    return jnp.reshape(x, infer_missing_size(tuple(x.shape), shape))


def infer_missing_size(have: Shape, want: Shape) -> Shape:
    """Infer the size at -1 in a numeric shape, after cancelling equal sizes.

    Cancelling first infers the size even with a size of 0: (0, 4) in (0, -1) gives (0, 4).
    """
    if -1 not in want:
        return want
    left_over, others = _cancel_sizes(have, want)
    missing = math.prod(left_over) // math.prod(others) if math.prod(others) else 0
    return tuple(missing if size == -1 else size for size in want)


def _cancel_sizes(have: Shape, want: Shape) -> tuple[list[Any], list[Any]]:
    """Return the remaining sizes of two shapes after cancelling equal sizes and dropping -1."""
    left_over, others = list(have), list[Size]()
    for size in want:
        if size in left_over:
            left_over.remove(size)
        elif size != -1:
            others.append(size)
    return left_over, others


def resolved_shape(what: str, have: Shape, want: Shape) -> Shape:
    """Infer the size at -1 in a symbolic shape.

    Raises:
        ShapeError: If several sizes are -1, or the number of elements is not divisible.
    """
    if want.count(-1) > 1:
        raise ShapeError(f"{what}: only one size can be -1.", given=f"shape={want}")
    if any(isinstance(size, int) and size < -1 for size in want):
        raise ShapeError(f"{what}: negative size other than -1.", given=f"shape={want}")
    if -1 not in want:
        return want
    left_over, others = _cancel_sizes(have, want)
    total, divisor = product(tuple(left_over)), product(tuple(others))
    if divisor == 0:
        raise ShapeError(
            f"{what}: cannot infer -1 beside a size of 0.", fix="Pass the size in place of -1."
        )
    missing = divide_exactly(total, divisor)
    if missing is None:
        is_numeric = isinstance(total, int) and isinstance(divisor, int)
        raise ShapeError(
            f"{what}: {total} elements are not divisible by {divisor}."
            if is_numeric
            else f"{what}: {total} is not divisible by {divisor} for all values of the sizes.",
            fix=f"Choose sizes that divide {total}; -1 stands for {total} / {divisor}.",
        )
    return tuple(missing if size == -1 else size for size in want)


@reshape.infer
def infer_reshape(context: InferenceContext, x: TensorType, *, shape: Shape) -> TensorType:
    """Infer the type: the new sizes, with the same number of elements."""
    resolve = context.unifier.resolve
    have, want = tuple(map(resolve, x.shape)), tuple(map(resolve, shape))
    want = resolved_shape(context.type, have, want)
    if product(have) == product(want):
        return x.with_shape(want)
    left_over, others = _cancel_sizes(have, want)
    (left_number, left_symbols), (right, right_symbols) = (
        _split_product(left_over),
        _split_product(others),
    )
    problem = f"reshape: expected {product(want)} elements, got {product(have)}."
    if left_number == 0 or right == 0:
        context.unify(left_number, right, problem)
        return x.with_shape(want)
    common = math.gcd(left_number, right)
    context.unify(
        left_symbols * (left_number // common), right_symbols * (right // common), problem
    )
    return x.with_shape(tuple(map(resolve, want)))


def _split_product(sizes: list[Size]) -> tuple[int, Size]:
    """Return the product of the numeric sizes, and that of the symbolic ones."""
    numbers = [size for size in sizes if isinstance(size, int)]
    return math.prod(numbers), product(tuple(s for s in sizes if not isinstance(s, int)))


@reshape.gradient
def reshape_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent in the shape of `x`."""
    return {"x": emit("reshape", g.out_grad, shape=g["x"].shape)}


@reshape.resolved
def resolve_reshape(x: TensorType, *, shape: Shape) -> dict[str, Shape]:
    """Replace -1 at build time, so that symbolic sizes of 0 are unambiguous."""
    return {"shape": resolved_shape("reshape", x.shape, shape) if -1 in shape else shape}


@op(
    axes=reshape_axis_map,
    cheap=True,
    changes_only="shape",
    examples=(
        "x=f32[2,3,4]",
        "x=f32[b,2,t] axis=0",
        "x=f64[b,t,3] axis=2",
        "x=f32[b]",
        "x=f32[] axis=0",
        "x=f32[0,3,2]",
    ),
)
def flatten(x: Tensor, *, axis: Axis = 1) -> Tensor:
    """Merge all axes from a given one on into a single axis.

        out[..., k] = x[..., i, j], with k = i * size(j) + j

    Inputs:
        x: any[*kept, *rest].

    Attributes:
        axis: The number of leading axes that are kept; 1 keeps the batch axis.

    Outputs:
        out: any[*kept, product(rest)].

    Raises:
        ShapeError: If the rank of `x` is below `axis`.
    """
    return jnp.reshape(x, (*x.shape[:axis], math.prod(x.shape[axis:])))


@flatten.infer
def infer_flatten(context: InferenceContext, x: TensorType, *, axis: int) -> TensorType:
    """Infer the type: the kept sizes, and the product of the others."""
    if not 0 <= axis <= x.rank:
        raise ShapeError(
            f"{context.type}: axis {axis} is out of range for an array of rank {x.rank}.",
            fix=f"Pass the number of leading axes to keep, from 0 to {x.rank}.",
        )
    return x.with_shape((*x.shape[:axis], product(x.shape[axis:])))


flatten.gradient(reshape_gradient)


@op(
    axes=expand_dims_axis_map,
    dtypes=first_dtype,
    cheap=True,
    changes_only="shape",
    examples=(
        "x=f32[2,3] axis=0",
        "x=f32[b,4] axis=(0,-1)",
        "x=f64[b] axis=-1",
        "x=f32[] axis=0",
        "x=f32[0,2] axis=1",
    ),
)
def expand_dims(x: Tensor, *, axis: tuple[Axis, ...]) -> Tensor:
    """Insert new axes of size 1.

        out[..., 0, ...] = x[..., ...]

    Attributes:
        axis: The positions of the new axes in the result; negative ones count from its end.

    Outputs:
        out: any, with a 1 at each of `axis`.

    Raises:
        ShapeError: If an axis of the result is out of range or duplicate.
    """
    return jnp.expand_dims(x, axis)


expand_dims.gradient(lambda g: {"x": emit("squeeze", g.out_grad, axis=g.attrs["axis"])})


@op(
    axes=squeeze_axis_map,
    cheap=True,
    changes_only="shape",
    examples=(
        "x=f32[1,3] axis=0",
        "x=f32[b,1,4,1] axis=(1,-1)",
        "x=f64[1,b] axis=0",
        "x=f32[1] axis=0",
        "x=f32[0,1] axis=1",
    ),
)
def squeeze(x: Tensor, *, axis: tuple[Axis, ...]) -> Tensor:
    """Remove axes of size 1.

        out[..., ...] = x[..., 0, ...]

    Inputs:
        x: any[*shape].

    Attributes:
        axis: The axes to remove; negative ones count from the end.

    Outputs:
        out: any, without `axis`.

    Raises:
        ShapeError: If an axis is out of range, or its size is not 1.
    """
    return jnp.squeeze(x, axis)


@squeeze.infer
def infer_squeeze(
    context: InferenceContext, x: TensorType, *, axis: tuple[Axis, ...]
) -> TensorType:
    """Infer the type: the sizes without the removed axes, which have size 1."""
    removed = axis_indices(axis, x.rank, context.type)
    for i in removed:
        context.unify(
            x.shape[i],
            1,
            f"squeeze: expected size 1 on axis {i}, got {x.shape[i]}.",
        )
    return x.with_shape(tuple(size for i, size in enumerate(x.shape) if i not in removed))


@squeeze.gradient
def squeeze_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent with the axes put back."""
    axis = axis_indices(g.attrs["axis"], tensor_type(g["x"]).rank, "squeeze")
    return {"x": emit("expand_dims", g.out_grad, axis=axis)}


def broadcast_to_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of broadcast_to: axes of size 1 and new axes are repeated."""
    shape, rank = shape_of(types["x"][0]), len(require_tuple(attrs["shape"]))
    x = tuple(None if n == 1 else f"axis{i}" for i, n in enumerate(shape))
    new = numbered_indices(rank, "new")
    out = tuple(a or b for a, b in zip((*(None,) * (rank - len(x)), *x), new, strict=True))
    return make_axis_map(types, {"x": (x,)}, {"out": (out,)})


@op(
    axes=broadcast_to_axis_map,
    cheap=True,
    changes_only="type",
    examples=(
        "x=f32[3] shape=(2,3)",
        "x=f32[1,4] shape=(b,4)",
        "x=f64[b,1] shape=(t,b,3)",
        "x=f32[] shape=(2,b)",
        "x=f32[1] shape=(0,)",
        "x=bool[b] shape=(b,)",
    ),
)
def broadcast_to(x: Tensor, *, shape: Shape) -> Tensor:
    """Broadcast to a shape: repeat along axes of size 1 and new leading axes.

        out[..., i, j] = x[i, j], with index 0 where an axis of x has size 1

    Inputs:
        x: any[*shape_of_x].

    Attributes:
        shape: The sizes of the result; may be symbolic.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: If `x` does not broadcast to the shape.
    """
    return jnp.broadcast_to(x, shape)


@broadcast_to.infer
def infer_broadcast_to(context: InferenceContext, x: TensorType, *, shape: Shape) -> TensorType:
    """Infer the type: the given sizes, which the sizes of `x` other than 1 must equal."""
    wanted = tuple(map(context.unifier.resolve, shape))
    shape_text = ", ".join(map(str, wanted))
    problem = f"broadcast_to: cannot broadcast {x} to the shape ({shape_text})."
    if x.rank > len(wanted):
        raise ShapeError(problem, fix=f"Pass a shape of rank {x.rank} or more.")
    if any(isinstance(size, int) and size < 0 for size in wanted):
        raise ShapeError(problem, fix="Pass sizes of 0 or more; -1 is not supported here.")
    for size, want in zip(reversed(x.shape), reversed(wanted), strict=False):
        if context.unifier.resolve(size) != 1:
            context.unify(size, want, problem)
    return x.with_shape(tuple(map(context.unifier.resolve, wanted)))


broadcast_to.gradient(lambda g: {"x": sum_to(g.out_grad, g["x"])})


register_linear(reshape, flatten, expand_dims, squeeze, broadcast_to)
