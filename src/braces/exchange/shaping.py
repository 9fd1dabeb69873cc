"""Shapes, slices and margins as models say them: by numbers, sizes, and what a run tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces import dims
from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import INT64, is_float
from braces.exchange import sizes
from braces.frontend import found as finding, functions as ops

FAR = 10**9
"""Bounds of slices from here on mean the end of the axis; no file holds a longer one."""


def number_of(size: Size | Var) -> Var:
    """A size as a number of the program, int64."""
    if not isinstance(size, Var):
        return one("size", value=size, dtype=INT64)
    return size if size.dtype == INT64 else ops.cast(size, INT64)


# ---- shapes ----------------------------------------------------------------------------------


def in_shape(x: Var, wanted: Sequence[Size]) -> Var:
    """The same numbers in another shape, of as many in every run that makes sense."""
    have = dims.product(x.shape)
    wanted = _without_rest(have, wanted)
    want = dims.product(wanted)
    if -1 in wanted or have == want or not sizes.symbolic(have, want):
        return ops.reshape(x, wanted)
    return ops.reshape(ops.ensure_shape(ops.reshape(x, (have,)), (want,)), wanted)


def _without_rest(have: Size, wanted: Sequence[Size]) -> list[Size]:
    """Sizes without a -1, where nothing says that what is left over comes out even."""
    others = dims.product([size for size in wanted if size != -1])
    known = not sizes.symbolic(have, others) or dims.divide_exactly(have, others) is not None
    if known or wanted.count(-1) != 1:
        return list(wanted)
    return [dims.call("floordiv", have, others) if n == -1 else n for n in wanted]


# ---- slices ----------------------------------------------------------------------------------


def clipped(whole: Size, bound: Size) -> Size:
    """A bound of a slice: from the end where it is negative, and within the axis."""
    if isinstance(bound, int) and bound < 0:
        return sizes.largest(sizes.plus(whole, bound), 0)
    if isinstance(bound, int) and bound >= FAR:
        return whole
    within = dims.never_negative(sizes.minus(whole, bound))
    return bound if within else sizes.smallest(whole, bound)


def cut_told(x: Var, axis: int, start: Size | Var, end: Size | Var, step: int) -> Var:
    """A part of an axis, with bounds that a run tells and that are cut off at its ends."""
    size = number_of(x.shape[axis])
    last = size if step > 0 else size - 1
    first, stop = (_bound(number_of(bound), size) for bound in (start, end))
    first = ops.minimum(ops.maximum(first, 0), last)
    stop = ops.minimum(ops.maximum(stop, 0 if step > 0 else -1), last)
    count = ops.maximum(-((first - stop) // step), 0)
    places = first + one("arange", stop=finding.as_size(count)) * step
    return ops.take(x, places, axis=axis)


def _bound(number: Var, size: Var) -> Var:
    """A bound from the front, where it is negative and counts from the end."""
    return ops.where(number < 0, number + size, number)


def steps_between(start: Var, limit: Var, delta: Var) -> Var:
    """How many steps there are from one number to before another."""
    if is_float(start.dtype):
        steps = ops.cast(ops.ceil((limit - start) / delta), INT64)
    else:
        start, limit, delta = (ops.cast(v, INT64) for v in (start, limit, delta))
        steps = -((start - limit) // delta)
    return ops.maximum(steps, 0)


# ---- margins ---------------------------------------------------------------------------------


def padded(x: Var, widths: Mapping[int, tuple[Size, Size]], mode: str, fill: Any) -> Var:
    """An array with numbers added at both ends of axes, by the axis; or taken away there."""
    for axis, ends in widths.items():
        less = [n if isinstance(n, int) and n < 0 else 0 for n in ends]
        if any(less):
            x = x[(slice(None),) * axis + (slice(-less[0], less[1] or None),)]
    more: list[tuple[Size, Size]] = [(0, 0)] * x.ndim
    for axis, (before, after) in widths.items():
        more[axis] = _not_negative(before), _not_negative(after)
    if all(ends == (0, 0) for ends in more):
        return x
    if not isinstance(fill, Var):
        return ops.pad(x, more, mode=mode, value=fill)
    inside = ops.pad(ops.ones_like(x, dtype="bool"), more)
    return ops.where(inside, ops.pad(x, more), ops.reshape(fill, ()))


def _not_negative(width: Size) -> Size:
    return 0 if isinstance(width, int) and width < 0 else width
