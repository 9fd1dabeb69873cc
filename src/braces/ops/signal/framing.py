"""Pieces of a signal that may overlap, as those that are transformed one by one."""

from __future__ import annotations

from typing import Any

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    axis_at,
    mapped,
    numbered,
    shape_of,
)
from braces.define.decorator import Axis, Tensor, op
from braces.dims import Size, call
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import linear
from braces.ops.common.rules import same


def framed(types: Types, attrs: Attrs) -> AxisMap:
    """The axis becomes two: of pieces, and of places in them."""
    shape = shape_of(types["x"][0])
    axis, indices = axis_at(attrs["axis"], len(shape)), numbered(len(shape))
    length: Any = attrs["length"]
    count = frames_in(shape[axis], length, attrs["step"])
    out = (*indices[:axis], "frame", "place", *indices[axis + 1 :])
    return mapped(
        types, {"x": (indices,)}, {"out": (out,)}, [indices[axis], "frame", "place"],
        sizes={"frame": count, "place": length},
    )  # fmt: skip


def frames_in(size: Size, length: Any, step: Any) -> Size:
    """How many pieces of a length lie within an axis, each a step after the one before."""
    if length < 1 or step < 1:
        raise AxisError(f"has length={length} and step={step}.", fix="Both are at least 1.")
    return call("max", call("floordiv", size - length, step) + 1, 0)


@op(
    axes=framed,
    dtypes=same,
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
@in_float32  # so are the cotangents that its derivative adds up
def frame(x: Tensor, *, length: int, step: int, axis: Axis = -1) -> Tensor:
    """Pieces of an axis that may overlap, as of a signal: all windows of one length.

        out[..., f, l, ...] = x[..., f * step + l, ...]

    What is left at the end, where no whole piece begins, is left out.

    Inputs:
        x: any[*shape].

    Attributes:
        length: How long each piece is.
        step: How far pieces lie apart.
        axis: The axis of `x` that is cut.

    Outputs:
        out: any, with (size - length) // step + 1 and `length` in place of `axis`.

    Raises:
        ShapeError: There is no such axis, or `length` or `step` is below 1.
    """
    axis %= x.ndim
    count = max((x.shape[axis] - length) // step + 1, 0)
    if not count:
        return jnp.zeros((*x.shape[:axis], 0, length, *x.shape[axis + 1 :]), x.dtype)
    places = step * jnp.arange(count)[:, None] + jnp.arange(length)
    return jnp.take(x, places, axis=axis, mode="clip")


linear(frame)
