"""`x[...]` on variables: integers, slices, `...`, `None`, and variables as indices.

| index | becomes |
|---|---|
| integers, slices with known bounds, `...`, `None` | `getitem` |
| a slice with symbolic bounds; an integer on an axis that may be too short | `window` |
| an integer variable, a list or array of integers | `take` |
| several of them | `gather_nd` |

Slices with known bounds are clipped, as in Python: `x[:3]` of `f32[b]` has size `min(b, 3)`.
Symbolic bounds must lie within the axis, which is checked in the run: `x[:t]` has size `t`. A
bound such as `-t` counts from the end, any other symbolic bound from the front. Where indices
are variables, axes come in NumPy's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeAlias, cast

import numpy as np

from braces.builder.append import as_var, one
from braces.builder.source_line import user_source
from braces.builder.var import INDEXING, Var
from braces.dims import Dim, Size, call, never_negative
from braces.dtypes import ListType, is_integer
from braces.errors import BracesError, DTypeError, ProgramError, ShapeError, SymbolicValueError
from braces.ops.indexing.static_slice import NEW, WHOLE, Entry, check_in_range, holds, too_many

Item: TypeAlias = "int | Dim | slice | Var | EllipsisType | None"
"""One entry of an index, as a user writes it, once arrays are variables."""


def getitem(x: Var, index: Any) -> Var:
    """What `x[index]` means; of a list, the value at a place.

    Raises:
        ShapeError: There are more entries than axes.
        IndexRangeError: An integer is out of range of an axis whose size is known.
        DTypeError: A mask, or an index that is no integer.
        SymbolicValueError: A slice with a variable as a bound.
    """
    if isinstance(x.type, ListType):
        return one("list_get", x, index)
    try:
        items = list(map(_item, index)) if isinstance(index, tuple) else [_item(index)]
        if x.table.unifier.known:
            items = [_resolved(x, item) for item in items]
        return _indexed(x, expanded(items, x.ndim))
    except BracesError as error:
        error.given = f"{x.name}: {x.type}" + (f"   {error.given}" if error.given else "")
        source = user_source()
        error.located(f"`{x.name}[...]`" + (f", built at {source}" if source else ""))
        raise


INDEXING["getitem"] = getitem
_PLAIN = frozenset((int, type(None)))
"""The types of most bounds, of which nothing is to be asked."""


# ---- reading the index -----------------------------------------------------------------------


def _item(given: Any) -> Item:
    if isinstance(given, bool | np.bool_):
        raise DTypeError(
            f"{given} is not an index.", fix="Use 0 or 1, None for a new axis, or br.where."
        )
    if given is None or given is Ellipsis or isinstance(given, Dim):
        return given
    if isinstance(given, int | np.integer):
        return int(given)
    if isinstance(given, slice):
        if {type(given.start), type(given.stop), type(given.step)} <= _PLAIN:
            return given
        return slice(*map(_bound, (given.start, given.stop, given.step)))
    if isinstance(given, Var | list | np.ndarray):
        return _array(cast("Any", given))
    raise DTypeError(
        f"{given!r:.80} is not an index.",
        fix="Use integers, slices, `...`, None, integer variables or arrays.",
    )


def _resolved(x: Var, item: Item) -> Item:
    """The entry with all that is known of unnamed dimensions put in."""
    resolve = x.table.unifier.resolve
    if isinstance(item, Dim):
        return resolve(item)
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return slice(*(resolve(one) if isinstance(one, Dim) else one for one in bounds))
    return item


def _bound(given: Any) -> Size | None:
    if given is None or isinstance(given, Dim):
        return given
    if isinstance(given, Var):
        raise SymbolicValueError(
            f"`{given.name}` cannot bound a slice: the size would depend on a value.",
            fix="For n elements from i on use br.take(x, i + br.arange(n)); else br.where.",
        )
    if isinstance(given, bool | np.bool_) or not isinstance(given, int | np.integer):
        raise DTypeError(f"{given!r:.80} cannot bound a slice.", fix="Use integers or sizes.")
    return int(given)


def _array(given: Any) -> Var:
    if isinstance(given, list) and not given:
        given = np.zeros(0, np.int64)
    var = as_var(given)
    if var.dtype.kind == "b":
        raise DTypeError(
            "A mask cannot be an index: the size of the result would depend on values.",
            given=f"index: {var.type}",
            fix="Use br.where, or br.create_if_else with a condition for each row.",
        )
    if not is_integer(var.dtype):
        raise DTypeError(
            "Indices must be integers.",
            given=f"index: {var.type}",
            fix="Use br.cast(i, 'int64').",
        )
    return var


def expanded(items: Sequence[Item], rank: int) -> list[Item]:
    """The index with an entry for each axis in place of `...`.

    Raises:
        ShapeError: There are more entries than axes, or `...` twice.
    """
    given = len([item for item in items if item is not None and item is not Ellipsis])
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise ShapeError("An index has `...` more than once.", fix="Write `:` for single axes.")
    if given > rank:
        raise too_many(items, rank)
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (rank - given), *items[at + 1 :]]


# ---- building --------------------------------------------------------------------------------


def _indexed(x: Var, items: Sequence[Item]) -> Var:
    variables = [item for item in items if isinstance(item, Var)]
    known = [slice(None) if isinstance(item, Var) else item for item in items]
    part = _known(x, known)
    if not variables:
        return part
    # The axes of `part` that variables index; integers are gone by then.
    left = [item for item in items if not isinstance(item, int | Dim)]
    axes = [axis for axis, item in enumerate(left) if isinstance(item, Var)]
    first = None if _scattered(items) else axes[0]
    if len(variables) == 1:
        return _taken(part, variables[0], axes[0], first)
    to_front = one("moveaxis", part, source=axes, destination=range_of(len(axes)))
    found = one(
        "gather_nd", to_front if axes != list(range_of(len(axes))) else part, *variables
    )
    chosen = found.ndim - (part.ndim - len(axes))
    return _moved(found, 0, first or 0, chosen)


def range_of(count: int) -> tuple[int, ...]:
    """0, 1, … as a tuple."""
    return tuple(range(count))


def _scattered(items: Sequence[Item]) -> bool:
    """Whether slices or new axes lie between indices; NumPy then puts these axes first."""
    at = [i for i, item in enumerate(items) if isinstance(item, int | Dim | Var)]
    return at[-1] - at[0] != len(at) - 1


def _taken(x: Var, index: Var, axis: int, first: int | None) -> Var:
    found = one("take", x, index, axis=axis)
    return found if first is not None else _moved(found, axis, 0, index.ndim)


def _moved(x: Var, source: int, destination: int, count: int) -> Var:
    """Some neighbouring axes moved to another place."""
    if source == destination or count == 0:
        return x
    sources = tuple(range(source, source + count))
    return one(
        "moveaxis",
        x,
        source=sources,
        destination=tuple(range(destination, destination + count)),
    )


@dataclass(frozen=True)
class Window:
    """A window on one axis, and what `getitem` takes of it."""

    start: Size
    size: Size
    from_end: bool
    then: Entry


def _known(x: Var, items: Sequence[Item]) -> Var:
    """An index without variables: windows where bounds are symbolic, then `getitem`."""
    entries, axis, shape = list[Entry](), 0, x.shape
    for item in items:
        if item is None:
            entries.append(NEW)
            continue
        entry = _entry(item, axis, shape[axis])
        if isinstance(entry, Window):
            x = one(
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
    return one("getitem", x, index=tuple(entries)) if entries else x


def _entry(item: Item, axis: int, size: Size) -> Entry | Window:
    item = _before_end(item, size) if isinstance(item, Dim) else item
    if isinstance(item, int):
        return _one_element(item, axis, size)
    if isinstance(item, Dim):
        return Window(-item, 1, True, 0) if backwards(item) else Window(item, 1, False, 0)
    assert isinstance(item, slice)
    start, stop = item.start, item.stop
    if isinstance(start, Dim) or isinstance(stop, Dim):
        start, stop = _before_end(start, size), _before_end(stop, size)
    step = 1 if item.step is None else item.step
    if isinstance(step, Dim) or step == 0:
        raise ProgramError(f"A slice cannot have the step {step}.", fix="Use a number, not 0.")
    stop = None if stop == size and step > 0 else stop
    if isinstance(start, Dim) or isinstance(stop, Dim):
        return _symbolic(start, stop, step, size)
    if start in (None, 0) and stop is None and step == 1:
        return WHOLE
    return (start, stop) if step == 1 else (start, stop, step)


def _one_element(index: int, axis: int, size: Size) -> Entry | Window:
    if isinstance(size, int):
        check_in_range(index, axis, size)
    if holds(size, index):
        return index
    return Window(index, 1, False, 0) if index >= 0 else Window(-index, 1, True, 0)


def _before_end(bound: Any, size: Size) -> Any:
    """A symbolic bound that is a number of elements before the end, as that negative number."""
    behind = bound - size if isinstance(bound, Dim) else 0
    return behind if isinstance(behind, int) and behind < 0 else bound


def backwards(bound: Dim) -> bool:
    """Whether a bound is minus a size, and so counts from the end."""
    return never_negative(-bound)


def _symbolic(start: Size | None, stop: Size | None, step: int, size: Size) -> Entry | Window:
    """A slice with at least one symbolic bound."""
    low, high = (start, stop) if step > 0 else (stop, start)
    shift = 0 if step > 0 else 1
    first: Size = 0 if low is None else _position(low, size) + shift
    last: Size = size if high is None else _position(high, size) + shift
    count = _count(last - first)
    then: Entry = WHOLE if step == 1 else (None, None, step)
    if first == 0 and count == size:
        return then
    if isinstance(low, Dim) and backwards(low) and shift == 0:
        return Window(-low, count, True, then)
    return Window(first, count, False, then)


def _position(bound: Size, size: Size) -> Size:
    from_end = backwards(bound) if isinstance(bound, Dim) else bound < 0
    return size + bound if from_end else bound


def _count(length: Size) -> Size:
    """The size of a window: what the bounds say, but a mere number takes it not below 0."""
    if isinstance(length, Dim):
        number = sum(n for atoms, n in length.terms if not atoms)
        return call("max", length, 0) if never_negative(length - number) else length
    return max(length, 0)
