"""`x[...]` on variables: integers, slices, `...`, `None`, and variables as indices.

| index | becomes |
|---|---|
| integers, slices with known bounds, `...`, `None` | `getitem` |
| a slice with symbolic bounds; an integer on an axis that may be too short | `window` |
| an integer variable, a list or array of integers | `take` |
| several of them | `gather_nd` |

Slices with known bounds are clipped, as in Python: `x[:3]` of `f32[b]` has size `min(b, 3)`.
Symbolic bounds must be within the axis, which is checked at run time: `x[:t]` has size `t`. A
bound such as `-t` counts from the end, any other symbolic bound from the front. With variables
as indices, the order of the result axes is NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeAlias, cast

import numpy as np

from braces.builder.append import as_var, emit
from braces.builder.source_line import user_source
from braces.builder.var import INDEXING, Var
from braces.dims import Dim, Size, call, never_negative
from braces.dtypes import ListType, is_integer
from braces.errors import BracesError, DTypeError, ProgramError, ShapeError, SymbolicValueError
from braces.ops.indexing.static_slice import (
    NEW,
    WHOLE,
    Entry,
    check_in_range,
    is_in_range,
    too_many_entries_error,
)

Item: TypeAlias = "int | Dim | slice | Var | EllipsisType | None"
"""One entry of an index as written by a user; arrays are converted to variables."""


def getitem(x: Var, index: Any) -> Var:
    """Build the operators of `x[index]`; for a list, the value at a position.

    Raises:
        ShapeError: If the index has more entries than axes.
        IndexRangeError: If an integer is out of range of an axis of known size.
        DTypeError: If an index is neither an integer nor an integer array.
        SymbolicValueError: If a bound of a slice is a variable.
    """
    if isinstance(x.type, ListType):
        return emit("list_get", x, index)
    try:
        items = (
            list(map(_parse_item, index)) if isinstance(index, tuple) else [_parse_item(index)]
        )
        if x.table.unifier.known:
            items = [_resolve_item(x, item) for item in items]
        return _build_indexing(x, expand_ellipsis(items, x.ndim))
    except BracesError as error:
        error.given = f"{x.name}: {x.type}" + (f"   {error.given}" if error.given else "")
        source = user_source()
        error.located(f"`{x.name}[...]`" + (f", built at {source}" if source else ""))
        raise


INDEXING["getitem"] = getitem
_PLAIN = frozenset((int, type(None)))
"""Types of slice bounds that need no conversion (fast path)."""


# ---- reading the index -----------------------------------------------------------------------


def _parse_item(entry: Any) -> Item:
    if isinstance(entry, bool | np.bool_):
        raise DTypeError(
            f"invalid index {entry}.", fix="Use 0 or 1, None for a new axis, or br.where."
        )
    if entry is None or entry is Ellipsis or isinstance(entry, Dim):
        return entry
    if isinstance(entry, int | np.integer):
        return int(entry)
    if isinstance(entry, slice):
        if {type(entry.start), type(entry.stop), type(entry.step)} <= _PLAIN:
            return entry
        return slice(*map(_parse_bound, (entry.start, entry.stop, entry.step)))
    if isinstance(entry, Var | list | np.ndarray):
        return _index_variable(cast("Any", entry))
    raise DTypeError(
        f"invalid index {entry!r:.80}.",
        fix="Use integers, slices, `...`, None, integer variables or arrays.",
    )


def _resolve_item(x: Var, item: Item) -> Item:
    """Substitute the known values of unnamed dimensions in an entry."""
    resolve = x.table.unifier.resolve
    if isinstance(item, Dim):
        return resolve(item)
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return slice(*(resolve(bound) if isinstance(bound, Dim) else bound for bound in bounds))
    return item


def _parse_bound(bound: Any) -> Size | None:
    if bound is None or isinstance(bound, Dim):
        return bound
    if isinstance(bound, Var):
        raise SymbolicValueError(
            f"slice bound `{bound.name}` is unsupported: the size would be data-dependent.",
            fix="Use br.take(x, i + br.arange(n)) for n elements from i, or br.where.",
        )
    if isinstance(bound, bool | np.bool_) or not isinstance(bound, int | np.integer):
        raise DTypeError(f"invalid slice bound {bound!r:.80}.", fix="Use integers or sizes.")
    return int(bound)


def _index_variable(index: Any) -> Var:
    if isinstance(index, list) and not index:
        index = np.zeros(0, np.int64)
    var = as_var(index)
    if var.dtype.kind == "b":
        raise DTypeError(
            "a mask is unsupported as an index: the size would be data-dependent.",
            given=f"index: {var.type}",
            fix="Use br.where, or br.create_if_else with a condition for each row.",
        )
    if not is_integer(var.dtype):
        raise DTypeError(
            f"expected integer indices, got {var.dtype}.",
            given=f"index: {var.type}",
            fix="Use br.cast(i, 'int64').",
        )
    return var


def expand_ellipsis(items: Sequence[Item], rank: int) -> list[Item]:
    """Expand `...` to an entry for each axis.

    Raises:
        ShapeError: If the index has more entries than axes, or several `...`.
    """
    entry_count = len([item for item in items if item is not None and item is not Ellipsis])
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise ShapeError("an index can have only one `...`.", fix="Write `:` for single axes.")
    if entry_count > rank:
        raise too_many_entries_error(items, rank)
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (rank - entry_count), *items[at + 1 :]]


# ---- building --------------------------------------------------------------------------------


def _build_indexing(x: Var, items: Sequence[Item]) -> Var:
    variables = [item for item in items if isinstance(item, Var)]
    without_variables = [slice(None) if isinstance(item, Var) else item for item in items]
    part = _index_statically(x, without_variables)
    if not variables:
        return part
    # The axes of `part` indexed by variables; integer entries have removed their axes.
    remaining = [item for item in items if not isinstance(item, int | Dim)]
    axes = [axis for axis, item in enumerate(remaining) if isinstance(item, Var)]
    first = None if _has_gap(items) else axes[0]
    if len(variables) == 1:
        return _take(part, variables[0], axes[0], first)
    to_front = emit("moveaxis", part, source=axes, destination=range_of(len(axes)))
    gathered = emit(
        "gather_nd", to_front if axes != list(range_of(len(axes))) else part, *variables
    )
    chosen = gathered.ndim - (part.ndim - len(axes))
    return _move_axes(gathered, 0, first or 0, chosen)


def range_of(count: int) -> tuple[int, ...]:
    """Return `range(count)` as a tuple."""
    return tuple(range(count))


def _has_gap(items: Sequence[Item]) -> bool:
    """Return whether slices or new axes separate indices; NumPy then puts their axes first."""
    at = [i for i, item in enumerate(items) if isinstance(item, int | Dim | Var)]
    return at[-1] - at[0] != len(at) - 1


def _take(x: Var, index: Var, axis: int, first: int | None) -> Var:
    result = emit("take", x, index, axis=axis)
    return result if first is not None else _move_axes(result, axis, 0, index.ndim)


def _move_axes(x: Var, source: int, destination: int, count: int) -> Var:
    """Move adjacent axes to another position."""
    if source == destination or count == 0:
        return x
    sources = tuple(range(source, source + count))
    return emit(
        "moveaxis",
        x,
        source=sources,
        destination=tuple(range(destination, destination + count)),
    )


@dataclass(frozen=True)
class Window:
    """A `window` on one axis, and the entry that `getitem` applies to it."""

    start: Size
    size: Size
    from_end: bool
    then: Entry


def _index_statically(x: Var, items: Sequence[Item]) -> Var:
    """Build an index without variables: windows for symbolic bounds, then `getitem`."""
    entries, axis, shape = list[Entry](), 0, x.shape
    for item in items:
        if item is None:
            entries.append(NEW)
            continue
        entry = _convert_entry(item, axis, shape[axis])
        if isinstance(entry, Window):
            x = emit(
                "window",
                x,
                start=entry.start,
                size=entry.size,
                axis=axis,
                from_end=entry.from_end,
            )
            entry, shape = entry.then, x.shape
        entries.append(entry)
        axis += 1
    while entries and entries[-1] == WHOLE:
        entries.pop()
    return emit("getitem", x, index=tuple(entries)) if entries else x


def _convert_entry(item: Item, axis: int, size: Size) -> Entry | Window:
    item = _from_end(item, size) if isinstance(item, Dim) else item
    if isinstance(item, int):
        return _convert_integer(item, axis, size)
    if isinstance(item, Dim):
        return Window(-item, 1, True, 0) if counts_from_end(item) else Window(item, 1, False, 0)
    assert isinstance(item, slice)
    start, stop = item.start, item.stop
    if isinstance(start, Dim) or isinstance(stop, Dim):
        start, stop = _from_end(start, size), _from_end(stop, size)
    step = 1 if item.step is None else item.step
    if isinstance(step, Dim) or step == 0:
        raise ProgramError(f"invalid slice step {step}.", fix="Use a nonzero integer.")
    stop = None if stop == size and step > 0 else stop
    if isinstance(start, Dim) or isinstance(stop, Dim):
        return _convert_symbolic_slice(start, stop, step, size)
    if start in (None, 0) and stop is None and step == 1:
        return WHOLE
    return (start, stop) if step == 1 else (start, stop, step)


def _convert_integer(index: int, axis: int, size: Size) -> Entry | Window:
    if isinstance(size, int):
        check_in_range(index, axis, size)
    if is_in_range(size, index):
        return index
    return Window(index, 1, False, 0) if index >= 0 else Window(-index, 1, True, 0)


def _from_end(bound: Any, size: Size) -> Any:
    """Convert a symbolic bound at a constant distance from the end to a negative integer."""
    distance = bound - size if isinstance(bound, Dim) else 0
    return distance if isinstance(distance, int) and distance < 0 else bound


def counts_from_end(bound: Dim) -> bool:
    """Return whether a bound is minus a size, which counts from the end."""
    return never_negative(-bound)


def _convert_symbolic_slice(
    start: Size | None, stop: Size | None, step: int, size: Size
) -> Entry | Window:
    """Convert a slice with at least one symbolic bound."""
    low, high = (start, stop) if step > 0 else (stop, start)
    shift = 0 if step > 0 else 1
    first: Size = 0 if low is None else _position(low, size) + shift
    last: Size = size if high is None else _position(high, size) + shift
    count = _window_size(last - first)
    then: Entry = WHOLE if step == 1 else (None, None, step)
    if first == 0 and count == size:
        return then
    if isinstance(low, Dim) and counts_from_end(low) and shift == 0:
        return Window(-low, count, True, then)
    return Window(first, count, False, then)


def _position(bound: Size, size: Size) -> Size:
    from_end = counts_from_end(bound) if isinstance(bound, Dim) else bound < 0
    return size + bound if from_end else bound


def _window_size(length: Size) -> Size:
    """Return the size of a window; a constant offset does not make it negative."""
    if isinstance(length, Dim):
        number = sum(n for atoms, n in length.terms if not atoms)
        return call("max", length, 0) if never_negative(length - number) else length
    return max(length, 0)
