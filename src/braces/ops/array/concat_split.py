"""Joining and splitting of arrays: concat, stack, unstack, split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from braces.builder.append import call, emit
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    normalize_axis,
    numbered_indices,
    shape_of,
)
from braces.define.axes.axis_rules import mix_along_axis, mixing_reduction
from braces.define.core.attribute_kinds import KINDS
from braces.define.decorator import Axis, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Dim, Shape, Size, divide_exactly
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp, lax
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import (
    Backward,
    axis_index,
    build_zeros,
    first_dtype,
    promote,
    promote_arrays,
    sum_to,
)

Sections: TypeAlias = "int | Shape"


def _parse_sections(value: Any) -> Sections:
    return KINDS["Shape"](value) if isinstance(value, tuple | list) else KINDS["int"](value)


KINDS["Sections"] = _parse_sections


# ---- joining ---------------------------------------------------------------------------------


@op(
    axes=mix_along_axis,
    joins="axis",
    operations=0,
    examples=(
        "xs=f32[2,3] xs=f32[1,3]",
        "xs=f32[b,4] xs=f32[t,4] xs=f32[1,4]",
        "xs=f64[b,2] xs=f64[b,3] axis=-1",
        "xs=f32[0,2] xs=f32[3,2]",
        "xs=i32[3] xs=f32[3]",
        "xs=f32[b]",
    ),
)
def concat(*xs: Tensor, axis: Axis = 0) -> Tensor:
    """Concatenate arrays along an axis.

        out = [xs[0], xs[1], …]

    Inputs:
        xs: any, of equal sizes except on the axis; at least one.

    Attributes:
        axis: The axis of concatenation; negative counts from the end.

    Outputs:
        out: The promoted dtype; on the axis, the sum of the sizes.

    Raises:
        ShapeError: If `xs` is empty, or sizes of other axes or the ranks differ.
    """
    return jnp.concatenate(promote_arrays(*xs), axis)


def check_same_rank(context: InferenceContext, xs: Sequence[TensorType]) -> None:
    """Check that there is at least one array and that all have the same rank.

    Raises:
        ShapeError: If `xs` is empty, or the ranks differ.
    """
    if not xs:
        raise ShapeError(f"{context.type}: expected at least one array.")
    ranks = sorted({x.rank for x in xs})
    if len(ranks) > 1:
        raise ShapeError(
            f"{context.type}: expected arrays of equal rank, got ranks "
            f"{', '.join(map(str, ranks))}.",
            fix="Add an axis with br.expand_dims or x[None].",
        )


def common_sizes(
    context: InferenceContext, xs: Sequence[TensorType], but: int | None
) -> list[Size]:
    """Unify the sizes of all arrays, except on the axis `but`, which keeps the first one's."""
    sizes = list(xs[0].shape)
    for axis in range(xs[0].rank):
        for x in xs[1:] if axis != but else ():
            pair = sizes[axis], x.shape[axis]
            problem = "{}: expected equal sizes on axis {}, got {} and {}."
            sizes[axis] = context.unify(*pair, problem.format(context.type, axis, *pair))
    return sizes


@concat.infer
def infer_concat(context: InferenceContext, *xs: TensorType, axis: int) -> TensorType:
    """Infer the type: the common sizes, and the sum of sizes on the axis."""
    check_same_rank(context, xs)
    if xs[0].rank == 0:
        raise ShapeError(
            "concat: expected arrays of rank 1 or more, got scalars.", fix="Use br.stack."
        )
    axis = axis_index(axis, xs[0].rank, context.type)
    sizes = common_sizes(context, xs, axis)
    sizes[axis] = sum((x.shape[axis] for x in xs), start=0)
    return TensorType(promote(*(x.dtype for x in xs)), tuple(sizes))


@concat.gradient
def concat_gradient(g: Backward) -> dict[str, tuple[Var | None, ...]]:
    """Each input receives its piece of the cotangent."""
    xs = g.inputs["xs"]
    axis = axis_index(int(g.attrs["axis"]), xs[0].ndim, "concat")
    sizes = tuple(x.shape[axis] for x in xs)
    wanted = tuple(x.name in g.wanted for x in xs)
    grads = slice_pieces(g.out_grad, sizes, axis, wanted)
    pairs = zip(xs, grads, strict=True)
    return {"xs": tuple(None if piece is None else sum_to(piece, x) for x, piece in pairs)}


def slice_pieces(
    x: Var, sizes: Shape, axis: int, wanted: tuple[bool, ...]
) -> tuple[Var | None, ...]:
    """Slice an array into consecutive pieces along an axis; unwanted pieces are `None`."""
    cuts = [_static_slice(sizes, i) if wanted[i] else None for i in range(len(sizes))]
    if any(want and bounds is None for want, bounds in zip(wanted, cuts, strict=True)):
        parts = call("split", x, sections=sizes, axis=axis)
        return tuple(piece if want else None for want, piece in zip(wanted, parts, strict=True))
    leading = (":",) * axis
    return tuple(
        None if bounds is None else emit("getitem", x, index=(*leading, bounds))
        for bounds in cuts
    )


def _static_slice(sizes: Shape, i: int) -> tuple[int | None, int | None] | None:
    """Return the static bounds of a piece, counted from either end; `None` if symbolic."""
    before, after, stop = sum(sizes[:i], 0), sum(sizes[i + 1 :], 0), sum(sizes[: i + 1], 0)
    if isinstance(before, int) and isinstance(stop, int):
        return before, stop
    if isinstance(before, int) and isinstance(after, int):
        return before, (-after or None)
    start = after + sizes[i]
    if isinstance(after, int) and isinstance(start, int) and start:
        return -start, (-after or None)
    return None


def stack_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of stack: all axes are pointwise; the new axis is mixed."""
    indices = numbered_indices(first_rank(types))
    axis = int(str(attrs["axis"])) % (len(indices) + 1)
    out = (*indices[:axis], "new", *indices[axis:])
    return make_axis_map(types, {"xs": (indices,) * len(types["xs"])}, {"out": (out,)}, ["new"])


@op(
    axes=stack_axis_map,
    operations=0,
    examples=(
        "xs=f32[2,3] xs=f32[2,3]",
        "xs=f32[b] xs=f32[b] axis=1",
        "xs=f64[b,2] xs=f64[b,2] xs=f64[b,2] axis=-1",
        "xs=f32[] xs=f32[]",
        "xs=f32[0,2] axis=1",
        "xs=i32[3] xs=f32[3]",
    ),
)
def stack(*xs: Tensor, axis: Axis = 0) -> Tensor:
    """Stack arrays along a new axis.

        out[..., i, ...] = xs[i]

    Inputs:
        xs: any[*shape], at least one.

    Attributes:
        axis: The position of the new axis in the result; negative counts from its end.

    Outputs:
        out: The promoted dtype; the common sizes, and the number of arrays on the axis.

    Raises:
        ShapeError: If `xs` is empty, or the shapes differ.
    """
    return jnp.stack(promote_arrays(*xs), axis)


@stack.infer
def infer_stack(context: InferenceContext, *xs: TensorType, axis: int) -> TensorType:
    """Infer the type: the common sizes, and the number of arrays on the new axis."""
    check_same_rank(context, xs)
    axis = axis_index(axis, xs[0].rank + 1, context.type)
    sizes = common_sizes(context, xs, None)
    dtype = promote(*(x.dtype for x in xs))
    return TensorType(dtype, (*sizes[:axis], len(xs), *sizes[axis:]))


@stack.gradient
def stack_gradient(g: Backward) -> dict[str, tuple[Var | None, ...]]:
    """Each input receives its slice of the cotangent."""
    grad, xs = g.out_grad, g.inputs["xs"]
    leading = (":",) * axis_index(int(g.attrs["axis"]), grad.ndim, "stack")
    return {
        "xs": tuple(
            sum_to(emit("getitem", grad, index=(*leading, i)), x)
            if x.name in g.wanted
            else None
            for i, x in enumerate(xs)
        )
    }


# ---- splitting -------------------------------------------------------------------------------


MAX_OUTPUTS = 1 << 16
"""The maximum number of outputs of an operator."""


def unstack_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of unstack: one output per index of the axis, whose size must be static."""
    axis_map, shape = mixing_reduction(types, attrs), shape_of(types["x"][0])
    count = shape[normalize_axis(attrs["axis"], len(shape))]
    if isinstance(count, Dim):
        raise AxisError(
            f"the number of outputs, {count}, is not known before the run.",
            fix="Iterate over the axis with br.create_rnn or br.scan.",
        )
    if count > MAX_OUTPUTS:
        raise AxisError(
            f"{count} outputs exceed the limit of {MAX_OUTPUTS}.",
            fix="Iterate over the axis with br.create_rnn or br.scan.",
        )
    return replace(axis_map, outputs={"out": axis_map.outputs["out"] * count})


@op(
    axes=unstack_axis_map,
    dtypes=first_dtype,
    operations=0,
    examples=(
        "x=f32[2,3]",
        "x=f32[b,3] axis=1",
        "x=f64[2,b,t] axis=-3",
        "x=f32[1]",
        "x=f32[2,0]",
    ),
)
def unstack(x: Tensor, *, axis: Axis = 0) -> list[Tensor]:
    """The slices of an array along one axis.

        out[i] = x[..., i, ...]

    Inputs:
        x: any[*shape]; the size of the axis is a number.

    Attributes:
        axis: The axis that is removed; negative counts from the end.

    Outputs:
        out: any, one array for each index of the axis, without the axis.

    Raises:
        ShapeError: If the axis is out of range, or its size is symbolic.
    """
    return [lax.index_in_dim(x, i, axis % x.ndim, keepdims=False) for i in range(x.shape[axis])]


@unstack.gradient
def unstack_gradient(g: Backward) -> dict[str, Var]:
    """The cotangents stacked, with zeros for missing ones."""
    return {"x": emit("stack", *grads_or_zeros(g), axis=g.attrs["axis"])}


def grads_or_zeros(g: Backward) -> list[Var]:
    """Return the cotangents of a list of outputs, with zeros for missing ones."""
    pairs = zip(g.outputs["out"], g.grads["out"], strict=True)
    return [build_zeros(tensor_type(out)) if grad is None else grad for out, grad in pairs]


@op(
    axes=mix_along_axis,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[6,2] sections=3",
        "x=f32[b,6] sections=(1,2,3) axis=1",
        "x=f32[2*b,3] sections=2",
        "x=f64[b,5] sections=(0,5) axis=-1",
        "x=f32[0,2] sections=2",
    ),
)
def split(x: Tensor, *, sections: Sections, axis: Axis = 0) -> list[Tensor]:
    """Consecutive pieces of an array along one axis.

        concat(out) = x

    Inputs:
        x: any[*shape].

    Attributes:
        sections: The number of equal pieces, or the size of each piece; may be symbolic.
        axis: The axis that is split; negative counts from the end.

    Outputs:
        out: any, the pieces in their order.

    Raises:
        ShapeError: If the axis is out of range, or the sum of the sizes differs from its size.
    """
    axis %= x.ndim
    if isinstance(sections, int):
        sections = (x.shape[axis] // sections,) * sections
    parts, start = list[Tensor](), 0
    for size in cast("tuple[int, ...]", sections):
        parts.append(lax.slice_in_dim(x, start, start + size, axis=axis))
        start += size
    return parts


@split.infer
def infer_split(
    context: InferenceContext, x: TensorType, *, sections: Sections, axis: int
) -> list[TensorType]:
    """Infer the types: the sizes of the pieces on the axis."""
    axis = axis_index(axis, x.rank, context.type)
    have = context.unifier.resolve(x.shape[axis])
    if isinstance(sections, int):
        sections = (equal_part(have, sections),) * sections
    sections = tuple(map(context.unifier.resolve, sections))
    total = sum(sections, start=0)
    problem = f"split: sections {_format_sum(sections)} do not sum to the axis size {have}."
    context.unify(have, total, problem)
    return [x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sections]


def _format_sum(sections: Shape) -> str:
    return " + ".join(map(str, sections)) or "()"


def equal_part(size: Size, sections: int) -> Size:
    """Return the size of each of several equal pieces.

    Raises:
        ShapeError: If the size is not divisible for all values of its symbols.
    """
    if sections < 1:
        raise ShapeError(f"split: expected at least one section, got {sections}.")
    part = divide_exactly(size, sections)
    if part is None:
        raise ShapeError(
            f"split: axis size {size} is not divisible into {sections} equal sections.",
            fix="Pass the size of each section: sections=(…).",
        )
    return part


@split.gradient
def split_gradient(g: Backward) -> dict[str, Var]:
    """The cotangents concatenated, with zeros for missing ones."""
    return {"x": emit("concat", *grads_or_zeros(g), axis=g.attrs["axis"])}


register_linear(concat, stack, unstack, split)
