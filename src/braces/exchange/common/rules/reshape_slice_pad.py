"""Shapes, axes, slices, ranges and padding.

Models give them as numbers, symbolic sizes or run-time values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.errors import ProgramError
from braces.exchange.common.model.unsupported import SupportsRefuse
from braces.exchange.common.rules.elementwise import cast_to_dtype, number
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constant_folding import numeric_range
from braces.exchange.common.values.symbolic_arithmetic import Number
from braces.extend import data_dependent, dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.programs import Literal
from braces.extend.types import INT64, Dim, DType, Size, is_float

OPEN_END = 10**9
"""Slice bounds from here on mean the end of the axis; no file holds a longer one."""


def number_of(size: Size | Var) -> Var:
    """Return a size as an int64 scalar of the program."""
    if not isinstance(size, Var):
        return emit("size", value=size, dtype=INT64)
    return size if size.dtype == INT64 else ops.cast(size, INT64)


# ---- shapes ----------------------------------------------------------------------------------


def reshape_checked(x: Var, wanted: Sequence[Size]) -> Var:
    """Reshape an array; a run checks that the number of elements agrees."""
    have = dims.product(x.shape)
    wanted = _resolve_rest(have, wanted)
    want = dims.product(wanted)
    if -1 in wanted or have == want or not sizes.symbolic(have, want):
        return ops.reshape(x, wanted)
    return ops.reshape(ops.ensure_shape(ops.reshape(x, (have,)), (want,)), wanted)


def _resolve_rest(have: Size, target: Sequence[Size]) -> list[Size]:
    """Replace a -1 if divisibility cannot be proved."""
    others = dims.product([size for size in target if size != -1])
    is_exact = not sizes.symbolic(have, others) or dims.divide_exactly(have, others) is not None
    if is_exact or target.count(-1) != 1:
        return list(target)
    return [dims.call("floordiv", have, others) if n == -1 else n for n in target]


def fill_shape(shape: Sequence[Size], value: Any, dtype: DType) -> Var:
    """Broadcast a number to a shape."""
    return ops.broadcast_to(emit("constant", value=Literal.of(number(value, dtype))), shape)


# ---- axes ------------------------------------------------------------------------------------


def flatten(x: Var, start: int = 0, end: int = -1) -> Var:
    """Merge several axes into one."""
    if not x.ndim:
        return ops.reshape(x, (1,))
    first, last = start % x.ndim, end % x.ndim
    middle = dims.product(x.shape[first : last + 1])
    return ops.reshape(x, (*x.shape[:first], middle, *x.shape[last + 1 :]))


def permute(x: Var, axes: Sequence[int]) -> Var:
    """Permute the axes."""
    return ops.transpose(x, axes=tuple(axis % x.ndim for axis in axes)) if x.ndim else x


def squeeze(x: Var, axes: Sequence[int] | int | None = None) -> Var:
    """Remove axes of size 1; axes of another size stay."""
    candidates = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    single = [axis % x.ndim for axis in candidates if x.ndim and is_one(x.shape[axis])]
    return ops.squeeze(x, axis=single) if single else x


def is_one(size: Size) -> bool:
    """Return whether a size is 1 in every run."""
    return isinstance(size, int) and size == 1


def expand(x: Var, wanted: Sequence[Size], **options: Any) -> Var:
    """Broadcast along axes of size 1 and along new leading axes."""
    own: list[Size] = [*[1] * (len(wanted) - x.ndim), *x.shape]
    shape = [m if n == -1 or not is_one(m) else n for m, n in zip(own, wanted, strict=True)]
    return ops.broadcast_to(x, shape)


def not_empty(xs: Sequence[Var]) -> list[Var]:
    """Return the operands of a concatenation; empty vectors do not count."""
    return [x for x in xs if x.shape != (0,)] or list(xs[:1])


def flip(x: Var, axes: Sequence[int]) -> Var:
    """Reverse the order along axes."""
    return ops.flip(x, axis=tuple(axes)) if axes else x


def roll(x: Var, shifts: Sequence[int] | int, axes: Sequence[int] | int = ()) -> Var:
    """Roll along axes, or the flattened array if there are none."""
    if isinstance(axes, int) or axes:
        if isinstance(axes, int) or isinstance(shifts, int):
            return ops.roll(x, shifts, axis=axes)
        return ops.roll(x, tuple(shifts), axis=tuple(axes))
    flat = ops.reshape(x, (dims.product(x.shape),))
    shift = shifts if isinstance(shifts, int) else shifts[0]
    return ops.reshape(ops.roll(flat, shift, axis=0), x.shape)


# ---- slices ----------------------------------------------------------------------------------


def clip_bound(whole: Size, bound: Size) -> Size:
    """Return a slice bound within the axis; negative bounds count from the end."""
    if isinstance(bound, int) and bound < 0:
        return sizes.largest(sizes.plus(whole, bound), 0)
    if isinstance(bound, int) and bound >= OPEN_END:
        return whole
    in_range = dims.never_negative(sizes.minus(whole, bound))
    return bound if in_range else sizes.smallest(whole, bound)


def dynamic_slice(x: Var, axis: int, start: Size | Var, end: Size | Var, step: int) -> Var:
    """Slice an axis with run-time bounds, which are clipped to its ends."""
    size = number_of(x.shape[axis])
    last = size if step > 0 else size - 1
    first, stop = (_from_front(number_of(bound), size) for bound in (start, end))
    first = ops.minimum(ops.maximum(first, 0), last)
    stop = ops.minimum(ops.maximum(stop, 0 if step > 0 else -1), last)
    count = ops.maximum(-((first - stop) // step), 0)
    indices = first + emit("arange", stop=data_dependent.as_size(count)) * step
    return ops.take(x, indices, axis=axis)


def _from_front(number: Var, size: Var) -> Var:
    """Return a bound counted from the front; negative ones count from the end."""
    return ops.where(number < 0, number + size, number)


def at_axis(axis: int, part: Any) -> tuple[Any, ...]:
    """Return the index of one axis, counted from the front."""
    return *[slice(None)] * axis, part


def slice_axis(x: Var, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Var:
    """Slice an axis; bounds are clipped to its ends."""
    at, low = axis % x.ndim, 0 if start is None else start
    high = OPEN_END if end is None else end
    if isinstance(low, Var) or isinstance(high, Var):
        return dynamic_slice(x, at, low, high, step)
    if isinstance(low, int) and isinstance(high, int):
        last = None if high >= OPEN_END else high
        is_whole = not low and last is None and step == 1
        return x if is_whole else x[at_axis(at, slice(low, last, step))]
    size = x.shape[at]
    first, last = clip_bound(size, low), clip_bound(size, high)
    if (first, last) == (0, size) and step == 1:
        return x
    if step != 1:
        raise ProgramError("unsupported slice: step other than 1 with symbolic bounds.")
    return emit("window", x, start=first, size=sizes.minus(last, first), axis=at)


def select(x: Var, axis: int, at: Any) -> Var:
    """Take one index of an axis."""
    if isinstance(at, Var | Dim):
        index = at if isinstance(at, Var) else emit("size", value=at)
        return ops.take(x, index, axis=axis)
    return x[at_axis(axis % x.ndim, at)]


# ---- ranges ----------------------------------------------------------------------------------

LONGEST_RANGE = 1 << 24
"""The longest range that is written into a program as a constant."""


def build_range(node: SupportsRefuse, bounds: Sequence[Number], dtype: DType) -> Var:
    """Return a range of known numbers, or one of step 1 with symbolic bounds."""
    start, stop, step = bounds
    if not sizes.symbolic(*bounds):
        if step and abs(stop - start) / abs(step) > LONGEST_RANGE:
            node.refuse(f"the range has more than {LONGEST_RANGE} elements")
        return emit("constant", value=Literal.of(numeric_range(*bounds).astype(dtype)))
    if step != 1:
        node.refuse("unsupported step other than 1 with symbolic bounds")
    numbers = cast_to_dtype(
        emit("arange", stop=sizes.largest(sizes.minus(stop, start), 0)), dtype
    )
    return numbers if start == 0 else numbers + cast_to_dtype(number_of(start), dtype)


def range_length(start: Var, limit: Var, delta: Var) -> Var:
    """Return the length of a range."""
    if is_float(start.dtype):
        steps = ops.cast(ops.ceil((limit - start) / delta), INT64)
    else:
        start, limit, delta = (ops.cast(v, INT64) for v in (start, limit, delta))
        steps = -((start - limit) // delta)
    return ops.maximum(steps, 0)


# ---- margins ---------------------------------------------------------------------------------


def pad_or_crop(
    x: Var, widths: Mapping[int, tuple[Size, Size]], mode: str, fill: Any, *,
    of_whole: bool = False,
) -> Var:  # fmt: skip
    """Pad the ends of axes; negative widths crop.

    Args:
        x: The array.
        widths: The number of elements at both ends, by axis.
        mode: A mode of `br.pad`.
        fill: The fill value of the mode "constant".
        of_whole: Whether the modes "edge" and "reflect" repeat elements of the uncropped array,
            with the crop last.
    """
    if of_whole and mode in ("edge", "reflect"):
        return _crop(_pad(x, widths, mode, fill), widths)
    return _pad(_crop(x, widths), widths, mode, fill)


def _crop(x: Var, widths: Mapping[int, tuple[Size, Size]]) -> Var:
    """Crop an array by the negative widths."""
    for axis, ends in widths.items():
        less = [n if isinstance(n, int) and n < 0 else 0 for n in ends]
        if any(less):
            x = x[at_axis(axis, slice(-less[0], less[1] or None))]
    return x


def _pad(x: Var, widths: Mapping[int, tuple[Size, Size]], mode: str, fill: Any) -> Var:
    """Pad an array by the widths that are not negative."""
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
