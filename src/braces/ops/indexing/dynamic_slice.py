"""Parts of an array whose place is a value of the program, and their replacement.

A place from which the part would reach over an end is moved to where it does not, as JAX and
XLA do; `br.take` and slices hold indices to be in range instead.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    mapped,
    numbered,
    shape_of,
)
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Shape
from braces.dtypes import DType
from braces.lazy import jnp, lax
from braces.ops.indexing.take import integers, updated


def _starts(types: Types, rank: int) -> tuple[tuple[str, ...], ...]:
    """The indices of the places: they are scalars, one for each axis."""
    starts = types["starts"]
    if len(starts) != rank or any(shape_of(start) for start in starts):
        raise AxisError(f"needs a scalar for each of {rank} axes.", given=f"{len(starts)}")
    return ((),) * rank


def _check_fit(what: str, part: Shape, whole: Shape) -> None:
    """Refuse a part that is larger than the array.

    Raises:
        AxisError: One is, along some axis.
    """
    for axis, (size, room) in enumerate(zip(part, whole, strict=True)):
        if isinstance(size, int) and isinstance(room, int) and size > room:
            raise AxisError(
                f"{what} {size} of {room} numbers along axis {axis}.",
                fix="A part is at most as large as the array, along each axis.",
            )


def cut_out(types: Types, attrs: Attrs) -> AxisMap:
    """Axes that stay whole are the same; along the others entries are chosen."""
    shape, sizes = shape_of(types["x"][0]), cast("Shape", attrs["sizes"])
    if len(sizes) != len(shape):
        raise AxisError(f"needs a size for each of {len(shape)} axes.", given=f"sizes={sizes}")
    _check_fit("cannot take", sizes, shape)
    axes, parts = numbered(len(shape)), numbered(len(shape), "part")
    out = tuple(
        axis if size == whole else part
        for axis, part, size, whole in zip(axes, parts, sizes, shape, strict=True)
    )
    chosen = {part: size for part, size in zip(parts, sizes, strict=True) if part in out}
    mixed = [axis for axis in axes if axis not in out]
    inputs = {"x": (axes,), "starts": _starts(types, len(shape))}
    return mapped(types, inputs, {"out": (out,)}, [*mixed, *chosen], sizes=chosen)


def put_in(types: Types, attrs: Attrs) -> AxisMap:
    """Axes that the update has whole are the same; along the others entries are chosen."""
    del attrs
    shape, update = (shape_of(types[slot][0]) for slot in ("x", "update"))
    if len(shape) != len(update):
        raise AxisError(f"needs an update with {len(shape)} axes, not {len(update)}.")
    _check_fit("cannot replace", update, shape)
    axes, parts = numbered(len(shape)), numbered(len(shape), "part")
    of_update = tuple(
        axis if size == whole else part
        for axis, part, size, whole in zip(axes, parts, update, shape, strict=True)
    )
    mixed = [i for pair in zip(axes, parts, of_update, strict=True) for i in pair[:2]
             if pair[0] != pair[2]]  # fmt: skip
    inputs = {"x": (axes,), "update": (of_update,), "starts": _starts(types, len(shape))}
    return mapped(types, inputs, {"out": (axes,)}, mixed)


def _from_front(starts: tuple[Tensor, ...]) -> list[Tensor]:
    """For kernels: places of which none counts from the end, as negative ones would."""
    alike = len({start.dtype for start in starts}) == 1
    given = starts if alike else tuple(start.astype(np.int64) for start in starts)
    return [jnp.maximum(start, np.asarray(0, start.dtype)) for start in given]


def of_part(what: str, x: DType, *starts: DType, **attrs: Any) -> DType:
    """A rule for dtypes: that of the array; places are integers."""
    del attrs
    integers(what, *starts)
    return x


def of_update(what: str, x: DType, update: DType, *starts: DType) -> DType:
    """A rule for dtypes: that of the array and of the update; places are integers."""
    integers(what, *starts)
    return updated(what, x, update)


@op(
    axes=cut_out,
    dtypes=of_part,
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
    """A part of an array, from a place on that only a run knows.

        out[i, j] = x[start_0 + i, start_1 + j]

    Inputs:
        x: any[*shape].
        starts: int[]. One for each axis: where the part begins, moved to where it lies within
            the array.

    Attributes:
        sizes: How large the part is; may be symbolic.

    Outputs:
        out: any[*sizes].

    Raises:
        ShapeError: There is not a scalar and a size for each axis, or the part is larger than
            the array.
        DTypeError: A place is no integer.
    """
    return lax.dynamic_slice(x, _from_front(starts), sizes)


@op(
    axes=put_in,
    dtypes=of_update,
    operations=0,
    examples=(
        "x=f32[5] update=f32[3] starts=i32[]",
        "x=f32[b,5] update=f32[b,2] starts=i32[] starts=i32[]",
        "x=f64[3,4] update=f64[1,4] starts=i64[] starts=i64[]",
        "x=i32[4] update=i32[0] starts=i32[]",
    ),
)
def dynamic_update_slice(x: Tensor, update: Tensor, *starts: Indices) -> Tensor:
    """An array with a part replaced, from a place on that only a run knows.

        out = x; then out[start_0 + i, start_1 + j] = update[i, j]

    Inputs:
        x: any[*shape].
        update: any, as many axes, none larger than that of `x`.
        starts: int[]. One for each axis: where the part begins, moved to where it lies within
            the array.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: There is not a scalar for each axis, or the update has not as many axes, or
            is larger than the array.
        DTypeError: A place is no integer, or the update has another dtype.
    """
    return lax.dynamic_update_slice(x, update, _from_front(starts))
