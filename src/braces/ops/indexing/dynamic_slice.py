"""Slices with data-dependent start indices, and their update: dynamic slices.

Start indices are clamped so that the slice is within the array, as in JAX and XLA. `br.take`
and slices check that indices are in range instead.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    shape_of,
)
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Shape
from braces.dtypes import DType
from braces.lazy import jnp, lax
from braces.ops.indexing.take import check_integers, update_dtype


def _check_starts(types: Types, rank: int) -> tuple[tuple[str, ...], ...]:
    """Check that the start indices are scalars, one for each axis; return their axes."""
    starts = types["starts"]
    if len(starts) != rank or any(shape_of(start) for start in starts):
        raise AxisError(f"expected {rank} scalar start indices.", given=f"{len(starts)}")
    return ((),) * rank


def _check_fit(what: str, part: Shape, whole: Shape) -> None:
    """Check that a slice is not larger than the array.

    Raises:
        AxisError: If the slice is larger than the array along an axis.
    """
    for axis, (size, room) in enumerate(zip(part, whole, strict=True)):
        if isinstance(size, int) and isinstance(room, int) and size > room:
            raise AxisError(
                f"{what} size {size} exceeds the size {room} of axis {axis}.",
                fix="Use at most the size of the array on each axis.",
            )


def dynamic_slice_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of dynamic_slice: pointwise on axes of full size; the others are mixed."""
    shape, sizes = shape_of(types["x"][0]), cast("Shape", attrs["sizes"])
    if len(sizes) != len(shape):
        raise AxisError(f"expected {len(shape)} slice sizes.", given=f"sizes={sizes}")
    _check_fit("slice", sizes, shape)
    axes, parts = numbered_indices(len(shape)), numbered_indices(len(shape), "part")
    out = tuple(
        axis if size == full_size else part
        for axis, part, size, full_size in zip(axes, parts, sizes, shape, strict=True)
    )
    sliced = {part: size for part, size in zip(parts, sizes, strict=True) if part in out}
    mixed = [axis for axis in axes if axis not in out]
    inputs = {"x": (axes,), "starts": _check_starts(types, len(shape))}
    return make_axis_map(types, inputs, {"out": (out,)}, [*mixed, *sliced], sizes=sliced)


def dynamic_update_slice_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of dynamic_update_slice: pointwise on axes of full size; others are mixed."""
    del attrs
    shape, update = (shape_of(types[slot][0]) for slot in ("x", "update"))
    if len(shape) != len(update):
        raise AxisError(f"expected an update of rank {len(shape)}, got rank {len(update)}.")
    _check_fit("update", update, shape)
    axes, parts = numbered_indices(len(shape)), numbered_indices(len(shape), "part")
    of_update = tuple(
        axis if size == full_size else part
        for axis, part, size, full_size in zip(axes, parts, update, shape, strict=True)
    )
    mixed = [i for pair in zip(axes, parts, of_update, strict=True) for i in pair[:2]
             if pair[0] != pair[2]]  # fmt: skip
    inputs = {"x": (axes,), "update": (of_update,), "starts": _check_starts(types, len(shape))}
    return make_axis_map(types, inputs, {"out": (axes,)}, mixed)


def _clamp_starts(starts: tuple[Tensor, ...]) -> list[Tensor]:
    """Clamp start indices at 0, so that none counts from the end (kernel helper)."""
    same_dtype = len({start.dtype for start in starts}) == 1
    indices = starts if same_dtype else tuple(start.astype(np.int64) for start in starts)
    return [jnp.maximum(start, np.asarray(0, start.dtype)) for start in indices]


def dynamic_slice_dtype(what: str, x: DType, *starts: DType, **attrs: Any) -> DType:
    """Dtype rule: the dtype of the array; start indices are integers."""
    del attrs
    check_integers(what, *starts)
    return x


def dynamic_update_slice_dtype(what: str, x: DType, update: DType, *starts: DType) -> DType:
    """Dtype rule: the common dtype of array and update; start indices are integers."""
    check_integers(what, *starts)
    return update_dtype(what, x, update)


@op(
    axes=dynamic_slice_axis_map,
    dtypes=dynamic_slice_dtype,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[5] starts=i32[] sizes=(3,)",
        "x=f32[b,5] starts=i32[] starts=i32[] sizes=(b,2)",
        "x=f64[3,4] starts=i64[] starts=i64[] sizes=(1,4)",
        "x=i32[4] starts=i32[] sizes=(0,)",
    ),
)
def dynamic_slice(x: Tensor, *starts: Indices, sizes: Shape) -> Tensor:
    """A slice of an array with data-dependent start indices.

        out[i, j] = x[start_0 + i, start_1 + j]

    Inputs:
        x: any[*shape].
        starts: int[]. One for each axis: the start of the slice, clamped so that the slice is
            within the array.

    Attributes:
        sizes: The sizes of the slice; may be symbolic.

    Outputs:
        out: any[*sizes].

    Raises:
        ShapeError: If the number of start indices or of sizes differs from the rank, or the
            slice is larger than the array.
        DTypeError: If a start index is not an integer.
    """
    return lax.dynamic_slice(x, _clamp_starts(starts), sizes)


@op(
    axes=dynamic_update_slice_axis_map,
    dtypes=dynamic_update_slice_dtype,
    operations=0,
    examples=(
        "x=f32[5] update=f32[3] starts=i32[]",
        "x=f32[b,5] update=f32[b,2] starts=i32[] starts=i32[]",
        "x=f64[3,4] update=f64[1,4] starts=i64[] starts=i64[]",
        "x=i32[4] update=i32[0] starts=i32[]",
    ),
)
def dynamic_update_slice(x: Tensor, update: Tensor, *starts: Indices) -> Tensor:
    """An array with a slice replaced, with data-dependent start indices.

        out = x; then out[start_0 + i, start_1 + j] = update[i, j]

    Inputs:
        x: any[*shape].
        update: any, of the rank of `x`; no axis is larger than that of `x`.
        starts: int[]. One for each axis: the start of the slice, clamped so that the slice is
            within the array.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: If the number of start indices or the rank of the update differs from the
            rank, or the update is larger than the array.
        DTypeError: If a start index is not an integer, or the dtype of the update differs.
    """
    return lax.dynamic_update_slice(x, update, _clamp_starts(starts))
