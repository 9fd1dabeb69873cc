"""Columns: arrays by name, one row for each element of a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from braces.errors import DTypeError, FeedError, ShapeError, short_text
from braces.loaders.order import Rows
from braces.report import count_text

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Columns: TypeAlias = dict[str, Array]


def named_columns(source: Any, names: Sequence[str] | None) -> tuple[Columns, bool]:
    """Return the columns of a dict or tuple of arrays, and whether they have names.

    Columns of a tuple without names are called "0", "1", ….

    Raises:
        FeedError: If there are no arrays, no rows, or other names than arrays.
        ShapeError: If the arrays differ in their number of rows.
    """
    if isinstance(source, Mapping):
        arrays = dict(cast("Mapping[Any, Any]", source))
        columns = {_checked_key(name): as_column(name, a) for name, a in arrays.items()}
    elif isinstance(source, tuple):
        values = cast("tuple[Any, ...]", source)
        words = (
            map(str, range(len(values))) if names is None else check_names(names, len(values))
        )
        columns = {name: as_column(name, a) for name, a in zip(words, values, strict=True)}
    else:
        raise FeedError(
            f"expected a dict or a tuple of arrays, got {short_text(source)}.",
            fix="Pass {'x': array, …}.",
        )
    check_rows(columns)
    return columns, names is not None or isinstance(source, Mapping)


def _checked_key(name: Any) -> str:
    name = getattr(name, "name", name)
    if not isinstance(name, str):
        raise FeedError(
            f"expected strings as names of columns, got {short_text(name)}.",
            fix="Pass {'x': array, …}.",
        )
    return name


def as_column(name: str, values: Any) -> Array:
    """Return an array with an axis of rows; a memory map stays on the disk.

    Raises:
        DTypeError: If the values are no numbers of one shape.
        ShapeError: If there is no axis of rows.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"cannot convert `{name}` to an array: {error}.", given=short_text(values)
        ) from None
    if array.dtype.kind in "OUSMm":
        raise DTypeError(
            f"expected numbers for `{name}`, got an array of dtype {array.dtype}.",
            fix="Convert the column to integers or floats of one shape.",
        )
    if array.ndim == 0:
        raise ShapeError(f"`{name}` is a scalar; expected an array with an axis of rows.")
    return array


def check_rows(columns: Mapping[str, Array]) -> int:
    """Return the number of rows.

    Raises:
        FeedError: If there are no columns, or no rows.
        ShapeError: If the columns differ in their number of rows.
    """
    rows = {name: len(array) for name, array in columns.items()}
    if not rows:
        raise FeedError("the data set has no arrays.", fix="Pass {'x': array, …}.")
    if len(set(rows.values())) > 1:
        raise ShapeError(
            "the arrays of a data set differ in their number of rows.",
            given=", ".join(f"`{name}`: {count}" for name, count in rows.items()),
            fix="Pass arrays with first axes of one size.",
        )
    count = next(iter(rows.values()))
    if not count:
        raise FeedError(f"the data set is empty: {_names(columns)} with 0 rows.")
    return count


def _names(columns: Mapping[str, Array]) -> str:
    return ", ".join(f"`{name}`" for name in columns)


def reader(columns: Columns, named: bool) -> Callable[[Rows], Any]:
    """Return a function from the rows of a batch to the batch, as new arrays.

    The batch is a dict, or a tuple if the columns have no names.
    """
    pairs = [*columns.items()]

    def read_rows(rows: Rows) -> dict[str, Array]:
        if isinstance(rows, slice):
            return {name: array[rows].copy() for name, array in pairs}
        return {name: array[rows] for name, array in pairs}

    return read_rows if named else lambda rows: tuple(read_rows(rows).values())


def check_names(names: Any, count: int) -> tuple[str, ...]:
    """Return names for the arrays of a tuple.

    Raises:
        FeedError: If the names are not strings, are repeated, or are too few or too many.
    """
    texts = (names,) if isinstance(names, str) else tuple(cast("Sequence[Any]", names))
    good = all(isinstance(name, str) for name in texts) and len(set(texts)) == len(texts)
    if not good or len(texts) != count:
        raise FeedError(
            f"expected {count_text(count, 'different name')} for the arrays of a tuple, got "
            f"{short_text(names)}.",
            fix="Pass names=('x', 'y') or a dict of arrays.",
        )
    return texts
