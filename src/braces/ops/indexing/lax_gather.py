"""Parts of an array at places that are values, with all that JAX and XLA can say of them.

`indices[*at, :]` is one place: a position for each axis in `start_index_map`. The part that
begins there has `slice_sizes`; of its axes those that are collapsed are dropped. What is read
of other programs is written with these; `br.take`, `br.gather_nd` and their likes say the
usual cases in fewer words.
"""

from __future__ import annotations

from typing import Any, cast

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    mapped,
    numbered,
    shape_of,
)
from braces.define.axes.flop_count import for_each
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Shape
from braces.errors import suggest
from braces.lazy import lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.nondifferentiable import unless
from braces.ops.indexing.gather_nd import putting
from braces.ops.indexing.take import of_slices

MODES = ("clip", "fill")
SCATTERED = {
    "set": "scatter", "add": "scatter_add", "min": "scatter_min", "max": "scatter_max",
    "mul": "scatter_mul",
}  # fmt: skip
"""What may become of a place, and the function of JAX."""


def _known(what: str, value: Any, known: Any) -> None:
    if value not in known:
        raise AxisError(f"has no {what} {value!r:.40}.", fix=suggest(str(value), known))


def _axes_of_x(types: Types, attrs: Attrs, at: tuple[str, ...]) -> list[str]:
    """The axes of the array, of which some are those of the indices."""
    axes = list(numbered(len(shape_of(types["x"][0]))))
    pairs = zip(
        _dims(attrs, "operand_batching_dims"), _dims(attrs, "start_indices_batching_dims"),
        strict=True,
    )  # fmt: skip
    for axis, place in pairs:
        axes[axis] = at[place]
    return axes


def _dims(attrs: Attrs, name: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", attrs[name])


def _arranged(windows: list[str], rest: list[str], places: tuple[int, ...]) -> tuple[str, ...]:
    """Axes of parts at these places, and the rest at the others, in order."""
    parts, others = iter(windows), iter(rest)
    return tuple(
        next(parts) if i in places else next(others) for i in range(len(windows) + len(rest))
    )


def _parts(
    x: list[str], whole: Shape, sizes: Shape, indexed: tuple[int, ...]
) -> tuple[list[str], dict[str, Any]]:
    """The axes of parts: whole ones are the array's own; and the sizes of the others."""
    names = numbered(len(whole), "part")
    kept = [i not in indexed and size == whole[i] for i, size in enumerate(sizes)]
    axes = [x[i] if kept[i] else names[i] for i in range(len(whole))]
    return axes, {names[i]: size for i, size in enumerate(sizes) if not kept[i]}


def gathered(types: Types, attrs: Attrs) -> AxisMap:
    """Axes that are whole are the same; along the others entries are chosen."""
    _known("mode", attrs["mode"], MODES)
    whole, sizes = shape_of(types["x"][0]), cast("Shape", attrs["slice_sizes"])
    if len(whole) != len(sizes):
        raise AxisError(f"needs a slice size for each of {len(whole)} axes.")
    at = numbered(len(shape_of(types["indices"][0])), "at")
    x = _axes_of_x(types, attrs, at)
    parts, fresh = _parts(x, whole, sizes, _dims(attrs, "start_index_map"))
    gone = {*_dims(attrs, "collapsed_slice_dims"), *_dims(attrs, "operand_batching_dims")}
    windows = [axis for i, axis in enumerate(parts) if i not in gone]
    out = _arranged(windows, list(at[:-1]), _dims(attrs, "offset_dims"))
    given = {axis: size for axis, size in fresh.items() if axis in out}
    mixed = [*(axis for axis in x if axis not in out), *given, *at[-1:]]
    return mapped(types, {"x": (tuple(x),), "indices": (at,)}, {"out": (out,)}, mixed,
                  sizes=given)  # fmt: skip


def scattered(types: Types, attrs: Attrs) -> AxisMap:
    """Axes that updates have whole are the same; along the others entries are chosen."""
    _known("mode", attrs["mode"], MODES)
    _known("reduction", attrs["reduction"], SCATTERED)
    whole, update = shape_of(types["x"][0]), shape_of(types["updates"][0])
    at = numbered(len(shape_of(types["indices"][0])), "at")
    x, windows = _axes_of_x(types, attrs, at), _dims(attrs, "update_window_dims")
    gone = {*_dims(attrs, "inserted_window_dims"), *_dims(attrs, "operand_batching_dims")}
    sizes, left = [1] * len(whole), iter(windows)
    for axis in (i for i in range(len(whole)) if i not in gone):
        sizes[axis] = cast("int", update[next(left)])
    parts, _ = _parts(x, whole, tuple(sizes), _dims(attrs, "scatter_dims_to_operand_dims"))
    kept = [axis for i, axis in enumerate(parts) if i not in gone]
    of_update = _arranged(kept, list(at[:-1]), windows)
    mixed = [axis for axis in (*x, *of_update, *at)
             if not (axis in x and axis in of_update)]  # fmt: skip
    inputs = {"x": (tuple(x),), "indices": (at,), "updates": (of_update,)}
    return mapped(types, inputs, {"out": (tuple(x),)}, mixed)


@op(
    axes=gathered,
    dtypes=of_slices,
    function=False,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[4,3] indices=i32[2,1] offset_dims=(1,) collapsed_slice_dims=(0,) "
        "start_index_map=(0,) slice_sizes=(1,3)",
        "x=f32[b,5] indices=i32[2,1] offset_dims=(0,) collapsed_slice_dims=(1,) "
        "start_index_map=(1,) slice_sizes=(b,1)",
        "x=f64[5,4] indices=i32[3,2] offset_dims=(1,2) collapsed_slice_dims=() "
        "start_index_map=(0,1) slice_sizes=(2,2) mode=fill",
        "x=f32[2,5] indices=i64[2,3,1] offset_dims=() collapsed_slice_dims=(1,) "
        "start_index_map=(1,) slice_sizes=(1,1) operand_batching_dims=(0,) "
        "start_indices_batching_dims=(0,)",
    ),
)
@in_float32  # so are the cotangents that its derivative adds up
def lax_gather(
    x: Tensor,
    indices: Indices,
    *,
    offset_dims: tuple[int, ...],
    collapsed_slice_dims: tuple[int, ...],
    start_index_map: tuple[int, ...],
    slice_sizes: Shape,
    operand_batching_dims: tuple[int, ...] = (),
    start_indices_batching_dims: tuple[int, ...] = (),
    mode: str = "clip",
) -> Tensor:
    """Parts of an array, one for each place, as `jax.lax.gather` takes them.

        out[*at, *k] = x[start(indices[*at]) + k], with the axes of parts at `offset_dims`

    Inputs:
        x: any[*shape].
        indices: int[*places, n]. The positions of each place.

    Attributes:
        offset_dims: Where the axes of parts are in the result.
        collapsed_slice_dims: The axes of `x` that parts do not have; their size in them is 1.
        start_index_map: The axes of `x` that each position of a place belongs to.
        slice_sizes: How large a part is along each axis of `x`; may be symbolic.
        operand_batching_dims: Axes of `x` of which each entry has places of its own.
        start_indices_batching_dims: The axes of `indices` that belong to those.
        mode: Of a part that reaches over an end: `"clip"` moves it, `"fill"` gives NaN, of
            integers the least number, or the greatest where they have no sign.

    Outputs:
        out: any, the axes of places and of parts.

    Raises:
        ShapeError: The attributes do not fit the shapes.
        DTypeError: The indices are no integers.
    """
    numbers = lax.GatherDimensionNumbers(
        offset_dims,
        collapsed_slice_dims,
        start_index_map,
        operand_batching_dims,
        start_indices_batching_dims,
    )
    return lax.gather(x, indices, numbers, slice_sizes, mode=mode)


@op(
    axes=scattered,
    dtypes=putting,
    function=False,
    operations=for_each("updates"),
    examples=(
        "x=f32[4,3] indices=i32[2,1] updates=f32[2,3] update_window_dims=(1,) "
        "inserted_window_dims=(0,) scatter_dims_to_operand_dims=(0,) reduction=add",
        "x=f32[b,5] indices=i32[2,1] updates=f32[b,2] update_window_dims=(0,) "
        "inserted_window_dims=(1,) scatter_dims_to_operand_dims=(1,) reduction=max",
        "x=f64[5,4] indices=i32[1,2] updates=f64[1,2,2] update_window_dims=(1,2) "
        "inserted_window_dims=() scatter_dims_to_operand_dims=(0,1) mode=fill",
        "x=f32[2,5] indices=i64[2,3,1] updates=f32[2,3] update_window_dims=() "
        "inserted_window_dims=(1,) scatter_dims_to_operand_dims=(1,) "
        "operand_batching_dims=(0,) start_indices_batching_dims=(0,) reduction=min",
    ),
)
def lax_scatter(
    x: Tensor,
    indices: Indices,
    updates: Tensor,
    *,
    update_window_dims: tuple[int, ...],
    inserted_window_dims: tuple[int, ...],
    scatter_dims_to_operand_dims: tuple[int, ...],
    operand_batching_dims: tuple[int, ...] = (),
    start_indices_batching_dims: tuple[int, ...] = (),
    reduction: str = "set",
    mode: str = "clip",
) -> Tensor:
    """An array with parts put to places, as `jax.lax.scatter` and its likes put them.

        out = x; then out[start(indices[*at]) + k] = updates[*at, *k], or what `reduction` says

    Inputs:
        x: any[*shape].
        indices: int[*places, n]. The positions of each place; of places that are set twice,
            either may win.
        updates: The dtype of `x`, the axes of places and of parts.

    Attributes:
        update_window_dims: Where the axes of parts are in `updates`.
        inserted_window_dims: The axes of `x` that parts do not have.
        scatter_dims_to_operand_dims: The axes of `x` that each position of a place belongs to.
        operand_batching_dims: Axes of `x` of which each entry has places of its own.
        start_indices_batching_dims: The axes of `indices` that belong to those.
        reduction: `"set"`, `"add"`, `"min"`, `"max"` or `"mul"`, which has no derivative.
        mode: Of a part that reaches over an end: `"clip"` moves it, `"fill"` leaves it out.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: The attributes do not fit the shapes.
        DTypeError: The indices are no integers, or the updates have another dtype.
        GradientError: A derivative of products is wanted.
    """
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims,
        inserted_window_dims,
        scatter_dims_to_operand_dims,
        operand_batching_dims,
        start_indices_batching_dims,
    )
    function = getattr(lax, SCATTERED[reduction])
    function = in_float32(function) if reduction == "add" else function
    return function(x, indices, updates, dimension_numbers=numbers, mode=mode)


def _multiplied(values: VarSlots, attrs: Attrs) -> str | None:
    del values
    said = "Say unique_indices=True in JAX where no place is there twice."
    return said if attrs["reduction"] == "mul" else None


unless(lax_scatter, _multiplied, "products")
