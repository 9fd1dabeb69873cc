"""Columns: values by name, one row for each element of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from braces.errors import (
    DTypeError,
    FeedError,
    ShapeError,
    UnknownNameError,
    array_fix,
    short_text,
    suggest,
)
from braces.report import count_text

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Ragged:
    """A column of sequences of different lengths, one after another in a single array.

    Attributes:
        values: The elements of all sequences.
        ends: The end of each sequence, after a leading 0.
    """

    values: Array
    ends: Array

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def lengths(self) -> Array:
        """The length of each sequence."""
        return np.diff(self.ends)

    def padded(self, rows: Indices, length: int, pad: Any) -> Array:
        """Return sequences as one array of rows of a length, filled with `pad`."""
        starts, ends = self.ends[:-1][rows], self.ends[1:][rows]
        place = starts[:, None] + np.arange(length)
        outside = place >= ends[:, None]
        place[outside] = 0
        array = self.values[place] if len(self.values) else self._blank(outside.shape)
        array[outside] = pad
        return array

    def _blank(self, shape: tuple[int, ...]) -> Array:
        return np.zeros((*shape, *self.values.shape[1:]), self.values.dtype)

    def row(self, number: int) -> Array:
        """Return one sequence."""
        return self.values[self.ends[number] : self.ends[number + 1]]


Column: TypeAlias = Array | Ragged
Columns: TypeAlias = Mapping[str, Column]


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
    else:
        values = cast("tuple[Any, ...]", source)
        words = (
            map(str, range(len(values))) if names is None else check_names(names, len(values))
        )
        columns = {name: as_column(name, a) for name, a in zip(words, values, strict=True)}
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


def as_column(name: str, values: Any) -> Column:
    """Return an array with an axis of rows; a memory map stays on the disk.

    A list of sequences of different lengths becomes a ragged column.

    Raises:
        DTypeError: If the values are no numbers of one shape.
        ShapeError: If there is no axis of rows.
    """
    if isinstance(values, Ragged):
        return values
    array = _as_array(name, values)
    if array is None or (array.dtype == object and array.ndim == 1):
        return as_ragged(name, cast("Sequence[Any]", values))
    check_numbers(name, array)
    if array.ndim == 0:
        raise ShapeError(f"`{name}` is a scalar; expected an array with an axis of rows.")
    return array


def _as_array(name: str, values: Any) -> Array | None:
    """Return an array; `None` for a list of sequences of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        if isinstance(values, list | tuple):
            return None
        raise DTypeError(
            f"cannot convert `{name}` to an array.", given=short_text(values)
        ) from None
    except (TypeError, RuntimeError) as error:
        raise DTypeError(
            f"cannot convert `{name}` to an array: {error}.",
            fix=array_fix(error, "Pass an array of numbers."),
        ) from None


def check_numbers(name: str, array: Array) -> None:
    """Refuse arrays of strings, dates and objects.

    Raises:
        DTypeError: If the array has another dtype than numbers.
    """
    if array.dtype.kind in "OUSMm" or array.dtype.names:
        raise DTypeError(
            f"expected numbers for `{name}`, got an array of dtype {array.dtype}.",
            fix="Convert the values to integers or floats.",
        )


def as_ragged(name: str, sequences: Sequence[Any]) -> Ragged:
    """Return a ragged column of sequences.

    Raises:
        DTypeError: If an element is no sequence of numbers, or their dtypes or shapes differ
            beyond the first axis.
    """
    try:
        parts = [np.asarray(part) for part in sequences]
        if not all(part.ndim for part in parts):
            raise ValueError("a row is a scalar")
        values = np.concatenate(parts)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"cannot convert `{name}` to an array or to sequences of numbers: {error}.",
            fix="Pass rows of one shape, or rows that differ in their first axis only.",
        ) from None
    check_numbers(name, values)
    filled = next((part for part in parts if len(part)), values)
    values = values.astype(filled.dtype) if len(values) else values
    return Ragged(values, np.cumsum([0, *map(len, parts)]))


def check_rows(columns: Columns) -> int:
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
        names = ", ".join(f"`{name}`" for name in columns)
        raise FeedError(f"the data set is empty: {names} with 0 rows.")
    return count


def check_columns(names: Iterable[str], columns: Iterable[str]) -> None:
    """Refuse names of columns that do not exist.

    Raises:
        UnknownNameError: If a column is missing.
    """
    known = [*columns]
    for name in names:
        if name not in known:
            raise UnknownNameError(f"unknown column `{name}`.", fix=suggest(name, known))


def check_names(names: Any, count: int) -> tuple[str, ...]:
    """Return names for the arrays of a tuple.

    Raises:
        FeedError: If the names are not strings, are repeated, or are too few or too many.
    """
    texts = tuple(cast("Sequence[Any]", names))
    good = all(isinstance(name, str) for name in texts) and len(set(texts)) == len(texts)
    if not good or len(texts) != count:
        raise FeedError(
            f"expected {count_text(count, 'different name')} for the arrays of a tuple, got "
            f"{short_text(names)}.",
            fix="Pass names=('x', 'y') or a dict of arrays.",
        )
    return texts


def column_type(column: Column) -> str:
    """Return dtype and shape of a row, as `float32[8, 8]` or `int64[*]` for sequences."""
    if isinstance(column, Ragged):
        sizes = ["*", *map(str, column.values.shape[1:])]
        return f"{column.values.dtype}[{', '.join(sizes)}]"
    return f"{column.dtype}[{', '.join(map(str, column.shape[1:]))}]"
