"""Overlapping frames of a signal, for example for a short-time Fourier transform."""

from __future__ import annotations

from typing import Any

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    normalize_axis,
    numbered_indices,
    shape_of,
)
from braces.define.decorator import Axis, Tensor, op
from braces.dims import Size, call
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import first_dtype


def frame_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `frame`: the axis becomes two, frames and positions within a frame."""
    shape = shape_of(types["x"][0])
    axis, indices = normalize_axis(attrs["axis"], len(shape)), numbered_indices(len(shape))
    length: Any = attrs["length"]
    count = frames_in(shape[axis], length, attrs["step"])
    out = (*indices[:axis], "frame", "place", *indices[axis + 1 :])
    return make_axis_map(
        types, {"x": (indices,)}, {"out": (out,)}, [indices[axis], "frame", "place"],
        sizes={"frame": count, "place": length},
    )  # fmt: skip


def frames_in(size: Size, length: Any, step: Any) -> Size:
    """Return the number of frames of a length and step that fit into an axis."""
    if length < 1 or step < 1:
        raise AxisError(f"invalid length={length} or step={step}.", fix="Use 1 or more.")
    return call("max", call("floordiv", size - length, step) + 1, 0)


@op(
    axes=frame_axes,
    dtypes=first_dtype,
    operations=0,
    examples=(
        "x=f32[2,9] length=4 step=2",
        "x=f32[b,7] length=3 step=3",
        "x=f64[b,2] length=2 step=1 axis=0",
        "x=f64[2,2] length=3 step=1",
        "x=i32[5] length=1 step=2",
        "x=f32[0,4] length=2 step=1",
    ),
)
@in_float32  # its derivative accumulates cotangents, in float32 too
def frame(x: Tensor, *, length: int, step: int, axis: Axis = -1) -> Tensor:
    """Split an axis into frames of one length, which may overlap (sliding windows).

        out[..., f, l, ...] = x[..., f * step + l, ...]

    An incomplete frame at the end is dropped.

    Attributes:
        length: The length of each frame.
        step: The distance between the starts of adjacent frames (hop length).
        axis: The axis of `x` that is split.

    Outputs:
        out: any, with (size - length) // step + 1 and `length` in place of `axis`.

    Raises:
        ShapeError: If the axis is out of range, or `length` or `step` is below 1.
    """
    axis %= x.ndim
    count = max((x.shape[axis] - length) // step + 1, 0)
    if not count:
        return jnp.zeros((*x.shape[:axis], 0, length, *x.shape[axis + 1 :]), x.dtype)
    indices = step * jnp.arange(count)[:, None] + jnp.arange(length)
    return jnp.take(x, indices, axis=axis, mode="clip")


register_linear(frame)
