"""Padding, tiling and repetition of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from braces.builder.append import apply, emit
from braces.builder.scalar_promotion import cast_literal
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
    require_tuple,
)
from braces.define.axes.axis_rules import mix_along_axis
from braces.define.core.attribute_kinds import KINDS, LEADING_AXIS_RULES, Number
from braces.define.decorator import Axis, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, Size, product
from braces.dtypes import TensorType
from braces.errors import ShapeError, suggest
from braces.lazy import jnp
from braces.ops.array.concat_split import slice_pieces
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import Backward, axis_index, build_zeros

MODES = CONSTANT, *_ = ("constant", "edge", "reflect", "symmetric", "wrap")
"""Padding modes, with NumPy's names."""

Widths: TypeAlias = "tuple[tuple[Size, Size], ...]"


def _parse_widths(widths: Any) -> Widths:
    if not isinstance(widths, tuple | list):
        return ((KINDS["Size"](widths),) * 2,)
    rows = cast("Sequence[Any]", widths)
    if len(rows) == 2 and not any(isinstance(row, tuple | list) for row in rows):
        return (_parse_pair(rows),)
    return tuple(map(_parse_pair, rows))


def _parse_pair(pair: Any) -> tuple[Size, Size]:
    before, after = KINDS["Shape"](pair)
    return before, after


KINDS["Widths"] = _parse_widths
LEADING_AXIS_RULES["Widths"] = lambda widths, size, rank: ((0, 0), *for_each_axis(widths, rank))


def pad_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of pad: axes without padding are pointwise."""
    indices = numbered_indices(first_rank(types))
    widths = for_each_axis(require_tuple(attrs["widths"]), len(indices))
    mixed = [i for i, width in zip(indices, widths, strict=True) if width != (0, 0)]
    return make_axis_map(types, {"x": (indices,)}, {"out": (indices,)}, mixed)


@op(
    axes=pad_axis_map,
    operations=0,
    examples=(
        "x=f32[2,3] widths=((1,0),(0,2))",
        "x=f32[b,4] widths=((0,0),(1,1)) value=-1.5",
        "x=f64[b,2] widths=1",
        "x=f64[b] widths=((2,0),)",
        "x=f32[0,2] widths=((1,1),(0,0))",
        "x=i32[3] widths=(2,1) value=7",
        "x=f64[b,4] widths=((0,0),(2,3)) mode=reflect",
        "x=f32[2,t] widths=((1,0),(3,2)) mode=edge",
        "x=f64[2,h] widths=((2,1),(1,9)) mode=wrap",
        "x=i32[3] widths=(2,1) mode=symmetric",
    ),
)
def pad(x: Tensor, *, widths: Widths, mode: str = "constant", value: Number = 0.0) -> Tensor:
    """Pad an array with a constant, or with its own elements.

        out[i + before, …] = x[i, …]; the padding of 1 2 3 with two elements on both sides is

        constant    v v 1 2 3 v v    `value`
        edge        1 1 1 2 3 3 3    the element at the edge
        reflect     3 2 1 2 3 2 1    mirrored at the edge, without it
        symmetric   2 1 1 2 3 3 2    mirrored at the edge, with it
        wrap        2 3 1 2 3 1 2    from the other end

    Padding longer than the axis continues the pattern. An empty axis is padded with `value`.

    Inputs:
        x: any[*shape].

    Attributes:
        widths: A pair (before, after) for each axis; one pair or one number for all. They may
            be symbolic.
        mode: The padding mode, as above.
        value: The value of constant padding.

    Outputs:
        out: any; on each axis before + size + after.

    Raises:
        ShapeError: If a width is negative, the number of pairs differs from the rank, or the
            mode is unknown.
        DTypeError: If the dtype cannot represent `value`.
    """
    margins: Any = for_each_axis(widths, x.ndim)
    if mode == CONSTANT or not x.size:
        return jnp.pad(x, margins, constant_values=cast_literal(value, x.dtype))
    return jnp.pad(x, margins, mode=mode)


def for_each_axis(widths: Widths, rank: int) -> Widths:
    """Return a pair of widths for each axis."""
    return widths * rank if len(widths) == 1 else widths


@pad.infer
def infer_pad(
    context: InferenceContext, x: TensorType, *, widths: Widths, mode: str, value: Number
) -> TensorType:
    """Infer the type: the padded sizes; the dtype must be able to hold `value`."""
    cast_literal(value, x.dtype)
    if mode not in MODES:
        raise ShapeError(f"pad: unknown mode {mode!r}.", fix=suggest(mode, MODES))
    if len(widths) not in (1, x.rank):
        raise ShapeError(
            f"pad: `widths` has {len(widths)} pairs for an array of rank {x.rank}.",
            fix="Pass widths=((before, after), …), one pair for each axis, or one for all.",
        )
    resolve, sizes = context.unifier.resolve, list[Size]()
    for size, (before, after) in zip(x.shape, for_each_axis(widths, x.rank), strict=True):
        if any(isinstance(width, int) and width < 0 for width in (before, after)):
            raise ShapeError(
                f"pad: negative padding ({before}, {after}).",
                fix="Use slices to crop.",
            )
        sizes.append(resolve(size + before + after))
    return x.with_shape(tuple(sizes))


@pad.gradient
def pad_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent without the padding; that of repeated elements is added to its source."""
    x, grad = g["x"], g.out_grad
    if g.attrs["mode"] != CONSTANT:
        operands = {"x": (build_zeros(tensor_type(x)),), "out_grad": (grad,)}
        (grad,) = apply("pad.vjp", operands, g.attrs, wanted=("x_grad",))["x_grad"]
        return {"x": grad}
    for axis, (before, after) in enumerate(for_each_axis(g.attrs["widths"], x.ndim)):
        if before != 0 or after != 0:
            sizes = (before, x.shape[axis], after)
            _, piece, _ = slice_pieces(grad, sizes, axis, (False, True, False))
            assert piece is not None
            grad = piece
    return {"x": grad}


def tile_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of tile: axes with one copy are pointwise, new axes are repeated."""
    reps = require_tuple(attrs["reps"])
    indices = numbered_indices(first_rank(types))
    copies = (*(1,) * (len(indices) - len(reps)), *reps)[-len(indices) :] if indices else ()
    new = numbered_indices(max(len(reps) - len(indices), 0), "new")
    mixed = [i for i, count in zip(indices, copies, strict=True) if count != 1]
    return make_axis_map(types, {"x": (indices,)}, {"out": ((*new, *indices),)}, mixed)


@op(
    axes=tile_axis_map,
    operations=0,
    examples=(
        "x=f32[2,3] reps=(2,1)",
        "x=f32[b,2] reps=(1,3)",
        "x=f64[b] reps=(2,2)",
        "x=f64[2,3] reps=2",
        "x=f32[] reps=3",
        "x=f32[1,2] reps=(t,1)",
        "x=f32[0,2] reps=(2,2)",
        "x=f32[2] reps=0",
    ),
)
def tile(x: Tensor, *, reps: Shape) -> Tensor:
    """Repeat an array along its axes.

        out[i, …] = x[i mod size, …]

    Inputs:
        x: any[*shape].

    Attributes:
        reps: The number of copies along each axis, aligned at the last axis; may be symbolic.

    Outputs:
        out: any; on each axis the size times the number of copies.

    Raises:
        ShapeError: If a number of copies is negative.
    """
    return jnp.tile(x, reps)


@tile.infer
def infer_tile(context: InferenceContext, x: TensorType, *, reps: Shape) -> TensorType:
    """Infer the type: the sizes times the numbers of copies."""
    if any(isinstance(rep, int) and rep < 0 for rep in reps):
        raise ShapeError("tile: negative number of repetitions.", given=f"reps={reps}")
    reps, shape = align_ranks(reps, x.shape)
    resolve = context.unifier.resolve
    return x.with_shape(tuple(resolve(n * r) for n, r in zip(shape, reps, strict=True)))


def align_ranks(left: Shape, right: Shape) -> tuple[Shape, Shape]:
    """Prepend ones to the shorter of two shapes, so that both have the same rank."""
    rank = max(len(left), len(right))
    return (1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right


@tile.gradient
def tile_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent summed over the copies."""
    reps, shape = align_ranks(g.attrs["reps"], g["x"].shape)
    split_shape = tuple(size for pair in zip(reps, shape, strict=True) for size in pair)
    copies = emit("reshape", g.out_grad, shape=split_shape)
    total = emit("sum", copies, axis=tuple(range(0, len(split_shape), 2)), keepdims=False)
    return {"x": emit("reshape", total, shape=g["x"].shape)}


def repeat_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of repeat: pointwise but on the repeated axis; all are mixed if flattened."""
    if attrs["axis"] is not None:
        return mix_along_axis(types, attrs)
    indices = numbered_indices(first_rank(types))
    return make_axis_map(types, {"x": (indices,)}, {"out": (("flat",),)}, [*indices, "flat"])


@op(
    axes=repeat_axis_map,
    operations=0,
    examples=(
        "x=f32[2,3] repeats=2 axis=0",
        "x=f32[b,2] repeats=3 axis=-1",
        "x=f64[b,t] repeats=2",
        "x=f64[b] repeats=t axis=0",
        "x=f32[] repeats=3",
        "x=f32[0,2] repeats=2 axis=0",
        "x=f32[2] repeats=0",
    ),
)
def repeat(x: Tensor, *, repeats: Size, axis: Axis | None = None) -> Tensor:
    """Repeat each element along one axis.

        out[..., i, ...] = x[..., floor(i / repeats), ...]

    Inputs:
        x: any[*shape].

    Attributes:
        repeats: The number of repetitions; may be symbolic.
        axis: The axis; by default the array is flattened.

    Outputs:
        out: any; on the axis the size times the repeats.

    Raises:
        ShapeError: If the axis is out of range, or `repeats` is negative.
    """
    count = cast("int", repeats)
    x, at = (jnp.ravel(x), 0) if axis is None else (x, axis % x.ndim)
    before, after = x.shape[: at + 1], x.shape[at + 1 :]
    wide = jnp.broadcast_to(jnp.expand_dims(x, at + 1), (*before, count, *after))
    return wide.reshape((*before[:-1], before[-1] * count, *after))


@repeat.infer
def infer_repeat(
    context: InferenceContext, x: TensorType, *, repeats: Size, axis: int | None
) -> TensorType:
    """Infer the type: the size of the axis times the repeats."""
    if isinstance(repeats, int) and repeats < 0:
        raise ShapeError("repeat: negative number of repetitions.", given=f"repeats={repeats}")
    shape, at = flatten_unless_axis(x.shape, axis, context.type)
    size = context.unifier.resolve(shape[at] * repeats)
    return x.with_shape((*shape[:at], size, *shape[at + 1 :]))


def flatten_unless_axis(shape: Shape, axis: int | None, what: str) -> tuple[Shape, int]:
    """Return the shape and the axis of an operator; flattened if `axis` is `None`."""
    if axis is None:
        return (product(shape),), 0
    return shape, axis_index(axis, len(shape), what)


@repeat.gradient
def repeat_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent summed over the repetitions."""
    shape, at = flatten_unless_axis(g["x"].shape, g.attrs["axis"], "repeat")
    split_shape = (*shape[: at + 1], g.attrs["repeats"], *shape[at + 1 :])
    total = emit(
        "sum", emit("reshape", g.out_grad, shape=split_shape), axis=at + 1, keepdims=False
    )
    return {"x": emit("reshape", total, shape=g["x"].shape)}


register_linear(tile, repeat)
register_linear(pad, value=0.0)
