"""Gather and scatter in the general form of JAX and XLA.

`indices[*at, :]` is one start index: a position for each axis in `start_index_map`. The slice
at that position has `slice_sizes`; collapsed axes are dropped from it. Imported programs use
these operators. `br.take`, `br.gather_nd` and similar operators cover the usual cases.
"""

from __future__ import annotations

from typing import Any, cast

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Shape
from braces.errors import suggest
from braces.lazy import lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.nondifferentiable import refuse_derivative_if
from braces.ops.indexing.gather_nd import put_along_dtype
from braces.ops.indexing.take import take_dtype

MODES = ("clip", "fill")
SCATTERED = {
    "set": "scatter", "add": "scatter_add", "min": "scatter_min", "max": "scatter_max",
    "mul": "scatter_mul",
}  # fmt: skip
"""Reductions and the JAX functions that implement them."""


def _check_known(what: str, value: Any, known: Any) -> None:
    if value not in known:
        raise AxisError(f"unknown {what} {value!r:.40}.", fix=suggest(str(value), known))


def _axes_of_x(types: Types, attrs: Attrs, at: tuple[str, ...]) -> list[str]:
    """Return the axis names of the array; batching axes have the names of the indices."""
    axes = list(numbered_indices(len(shape_of(types["x"][0]))))
    pairs = zip(
        _dims(attrs, "operand_batching_dims"), _dims(attrs, "start_indices_batching_dims"),
        strict=True,
    )  # fmt: skip
    for axis, place in pairs:
        axes[axis] = at[place]
    return axes


def _dims(attrs: Attrs, name: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", attrs[name])


def _arrange_axes(
    windows: list[str], batch_axes: list[str], places: tuple[int, ...]
) -> tuple[str, ...]:
    """Place window axes at the given positions, and the other axes at the rest, in order."""
    parts, others = iter(windows), iter(batch_axes)
    return tuple(
        next(parts) if i in places else next(others)
        for i in range(len(windows) + len(batch_axes))
    )


def _slice_axes(
    x: list[str], whole: Shape, sizes: Shape, indexed: tuple[int, ...]
) -> tuple[list[str], dict[str, Any]]:
    """Return the axes of slices, the array's own if of full size, and the sizes of new ones."""
    names = numbered_indices(len(whole), "part")
    is_full = [i not in indexed and size == whole[i] for i, size in enumerate(sizes)]
    axes = [x[i] if is_full[i] else names[i] for i in range(len(whole))]
    return axes, {names[i]: size for i, size in enumerate(sizes) if not is_full[i]}


def lax_gather_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of gather: pointwise on axes of full size and on batching axes."""
    _check_known("mode", attrs["mode"], MODES)
    x_shape, sizes = shape_of(types["x"][0]), cast("Shape", attrs["slice_sizes"])
    if len(x_shape) != len(sizes):
        raise AxisError(f"expected {len(x_shape)} slice sizes, got {len(sizes)}.")
    at = numbered_indices(len(shape_of(types["indices"][0])), "at")
    x = _axes_of_x(types, attrs, at)
    parts, fresh = _slice_axes(x, x_shape, sizes, _dims(attrs, "start_index_map"))
    dropped = {*_dims(attrs, "collapsed_slice_dims"), *_dims(attrs, "operand_batching_dims")}
    windows = [axis for i, axis in enumerate(parts) if i not in dropped]
    out = _arrange_axes(windows, list(at[:-1]), _dims(attrs, "offset_dims"))
    new_sizes = {axis: size for axis, size in fresh.items() if axis in out}
    mixed = [*(axis for axis in x if axis not in out), *new_sizes, *at[-1:]]
    return make_axis_map(types, {"x": (tuple(x),), "indices": (at,)}, {"out": (out,)}, mixed,
                  sizes=new_sizes)  # fmt: skip


def lax_scatter_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of scatter: pointwise on axes of full size and on batching axes."""
    _check_known("mode", attrs["mode"], MODES)
    _check_known("reduction", attrs["reduction"], SCATTERED)
    x_shape, update = shape_of(types["x"][0]), shape_of(types["updates"][0])
    at = numbered_indices(len(shape_of(types["indices"][0])), "at")
    x, windows = _axes_of_x(types, attrs, at), _dims(attrs, "update_window_dims")
    dropped = {*_dims(attrs, "inserted_window_dims"), *_dims(attrs, "operand_batching_dims")}
    sizes, window_dims = [1] * len(x_shape), iter(windows)
    for axis in (i for i in range(len(x_shape)) if i not in dropped):
        sizes[axis] = cast("int", update[next(window_dims)])
    parts, _ = _slice_axes(
        x, x_shape, tuple(sizes), _dims(attrs, "scatter_dims_to_operand_dims")
    )
    window_axes = [axis for i, axis in enumerate(parts) if i not in dropped]
    of_update = _arrange_axes(window_axes, list(at[:-1]), windows)
    mixed = [axis for axis in (*x, *of_update, *at)
             if not (axis in x and axis in of_update)]  # fmt: skip
    inputs = {"x": (tuple(x),), "indices": (at,), "updates": (of_update,)}
    return make_axis_map(types, inputs, {"out": (tuple(x),)}, mixed)


@op(
    axes=lax_gather_axis_map,
    dtypes=take_dtype,
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
@in_float32  # so that its derivative accumulates cotangents in float32, too
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
    """General gather: slices of an array, one for each start index, as `jax.lax.gather`.

        out[*at, *k] = x[start(indices[*at]) + k], with the axes of slices at `offset_dims`

    Inputs:
        x: any[*shape].
        indices: int[*places, n]. The start index of each slice.

    Attributes:
        offset_dims: The positions of the slice axes in the result.
        collapsed_slice_dims: The axes of `x` that are dropped from slices; their slice size
            is 1.
        start_index_map: The axis of `x` for each component of a start index.
        slice_sizes: The size of a slice along each axis of `x`; may be symbolic.
        operand_batching_dims: Batching axes of `x`: each entry has separate start indices.
        start_indices_batching_dims: The corresponding axes of `indices`.
        mode: For slices out of bounds: `"clip"` moves them inside; `"fill"` gives NaN, for
            signed integers the least number, for unsigned ones the greatest.

    Outputs:
        out: any, the axes of places and of slices.

    Raises:
        ShapeError: If the attributes do not match the shapes.
        DTypeError: If the indices are not integers.
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
    axes=lax_scatter_axis_map,
    dtypes=put_along_dtype,
    function=False,
    operations=count_per_element("updates"),
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
    """General scatter: slices written into an array, as `jax.lax.scatter` and its variants.

        out = x; then out[start(indices[*at]) + k] = updates[*at, *k], or as per `reduction`

    Inputs:
        x: any[*shape].
        indices: int[*places, n]. The start index of each slice. With "set", the winner among
            updates of the same element is unspecified.
        updates: The dtype of `x`, the axes of places and of slices.

    Attributes:
        update_window_dims: The positions of the slice axes in `updates`.
        inserted_window_dims: The axes of `x` that slices do not have.
        scatter_dims_to_operand_dims: The axis of `x` for each component of a start index.
        operand_batching_dims: Batching axes of `x`: each entry has separate start indices.
        start_indices_batching_dims: The corresponding axes of `indices`.
        reduction: `"set"`, `"add"`, `"min"`, `"max"` or `"mul"`, which has no derivative.
        mode: For slices out of bounds: `"clip"` moves them inside, `"fill"` skips them.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: If the attributes do not match the shapes.
        DTypeError: If the indices are not integers, or the updates have a different dtype.
        GradientError: If a derivative of `"mul"` is requested.
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


def _suggest_fix(values: VarSlots, attrs: Attrs) -> str | None:
    del values
    fix = "Pass unique_indices=True in JAX if no index occurs twice."
    return fix if attrs["reduction"] == "mul" else None


refuse_derivative_if(lax_scatter, _suggest_fix, "products")
