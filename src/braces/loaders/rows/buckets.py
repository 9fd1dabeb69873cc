"""Buckets: batches of rows of similar length, padded to few sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.builder.user_functions import calling
from braces.errors import FeedError, ProgramError, ShapeError, short_text, suggest
from braces.loaders.core.columns import Array, Column, Ragged
from braces.loaders.rows.order import Indices, Order, Rows, count_batches
from braces.loaders.rows.tables import ArrayTable, RowTable, ragged_names

SMALLEST = 8
"""The smallest size if none are given; the others are its powers of two."""


@dataclass(frozen=True, eq=False)
class Buckets:
    """An order whose batches have rows of similar length.

    Rows in the order of the epoch fill one batch for each size. A batch is complete with its
    last row, and the batches are in the order of their completion. The remaining rows of all
    sizes are sorted by length and form the last batches, so that one batch at most is smaller.

    Attributes:
        order: The order of the rows.
        sizes: The sizes that sequences are padded to.
        bucket: The number of the size of each row.
    """

    order: Order
    sizes: Sequence[int]
    bucket: Array

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.order)

    def batches(self, epoch: int) -> Callable[[int], tuple[Rows, int]]:
        """Return a function from the number of a batch to its rows and their padded length."""
        order = self.order.permutation(epoch)
        parts = [*self._full(order), *self._rest(order)]
        sizes = [self.sizes[int(self.bucket[part].max())] for part in parts]
        return lambda i: (parts[i], sizes[i])

    def _places(self, order: Indices) -> Iterator[tuple[Indices, int]]:
        """Yield the places of the rows of each size, and the end of full batches."""
        bucket, size = self.bucket[order], self.order.batch_size
        for number in range(len(self.sizes)):
            places = np.flatnonzero(bucket == number)
            yield places, len(places) // size * size

    def _full(self, order: Indices) -> list[Indices]:
        size = self.order.batch_size
        full = [p[:end].reshape(-1, size) for p, end in self._places(order)]
        places = np.concatenate(full)
        return [order[part] for part in places[np.argsort(places[:, -1], kind="stable")]]

    def _rest(self, order: Indices) -> list[Indices]:
        rest = order[np.concatenate([p[end:] for p, end in self._places(order)])]
        size = self.order.batch_size
        count = count_batches(len(rest), size, self.order.drop_last)
        return [rest[i * size : (i + 1) * size] for i in range(count)]

    def record(self) -> dict[str, Any]:
        """Return the order as plain JSON."""
        rows = np.bincount(self.bucket, minlength=len(self.sizes))
        return {**self.order.record(), "sizes": [*self.sizes], "rows_of_sizes": rows.tolist()}


def with_buckets(
    table: RowTable, order: Order, bucket_by: Any, sizes: Sequence[int] | None
) -> Buckets:
    """Return an order of batches of similar length.

    Raises:
        FeedError: If a length is not an integer, or exceeds the largest size.
        ProgramError: If the sizes are invalid.
        UnknownNameError: If there is no column of that name.
    """
    lengths = row_lengths(table, bucket_by)
    bounds = _checked_sizes(sizes, int(lengths.max()))
    bucket = np.searchsorted(bounds, lengths)
    _check_longest(lengths, bounds)
    for name in ragged_names(table):
        _check_column(name, table.column(name), np.array(bounds)[bucket])
    return Buckets(order, bounds, bucket)


def with_equal_sequences(table: RowTable, bucket_by: Any) -> RowTable:
    """Return a table whose column of lengths is ragged although all its sequences are equal.

    An array of that column has one row for each sequence; arrays with an axis 1 of the same
    size are sequences as well.
    """
    if not isinstance(table, ArrayTable) or not isinstance(bucket_by, str):
        return table
    column = table.columns.get(bucket_by)
    if column is None or isinstance(column, Ragged) or column.ndim < 2:
        return table
    length = column.shape[1]
    return ArrayTable({n: _equal(c, length) for n, c in table.columns.items()})


def _equal(column: Column, length: int) -> Column:
    if isinstance(column, Ragged) or column.ndim < 2 or column.shape[1] != length:
        return column
    rows = len(column)
    values = column.reshape(rows * length, *column.shape[2:])
    return Ragged(values, np.arange(rows + 1) * length)


def row_lengths(table: RowTable, bucket_by: Any) -> Array:
    """Return the length of each row.

    Raises:
        FeedError: If a length is not an integer of at least 0.
        UnknownNameError: If there is no column of that name.
    """
    called = callable(cast("object", bucket_by))
    lengths = (_called_lengths if called else _column_lengths)(table, bucket_by)
    if lengths.shape != (table.rows,) or lengths.dtype.kind not in "iu" or lengths.min() < 0:
        raise FeedError(
            "expected one integer of at least 0 as length of each row, got "
            f"{lengths.dtype}{list(lengths.shape)}.",
            given=f"bucket_by={short_text(bucket_by)}",
        )
    return lengths


def _column_lengths(table: RowTable, name: Any) -> Array:
    if name not in table.types:
        raise FeedError(
            f"unknown column {short_text(name)} in bucket_by.",
            fix=suggest(str(name), table.types),
        )
    column = table.column(name)
    return column.lengths if isinstance(column, Ragged) else np.asarray(column)


def _called_lengths(table: RowTable, function: Any) -> Array:
    columns = {name: table.column(name) for name in table.types}
    with calling(function, "bucket_by"):
        return np.array([function(_row(columns, i)) for i in range(table.rows)])


def _row(columns: Mapping[str, Column], number: int) -> dict[str, Array]:
    return {
        name: column.row(number) if isinstance(column, Ragged) else column[number]
        for name, column in columns.items()
    }


def _checked_sizes(sizes: Any, longest: int) -> list[int]:
    if sizes is None:
        powers = [SMALLEST << i for i in range(max(1, longest // SMALLEST).bit_length() + 1)]
        return [*(p for p in powers if p < longest), max(longest, 1)]
    values = [*cast("Sequence[Any]", sizes)]
    good = all(type(size) is int and size > 0 for size in values)
    if not values or not good or values != sorted(set(values)):
        raise ProgramError(
            f"invalid sizes={short_text(sizes)}.",
            fix="Pass increasing integers: sizes=(8, 16).",
        )
    return values


def _check_longest(lengths: Array, sizes: Sequence[int]) -> None:
    row = int(lengths.argmax())
    if lengths[row] > sizes[-1]:
        raise FeedError(
            f"row {row} has the length {lengths[row]}; the largest size is {sizes[-1]}.",
            fix=f"Add {lengths[row]} to sizes=, or shorten the row.",
        )


def _check_column(name: str, column: Column, sizes: Array) -> None:
    if isinstance(column, Ragged) and (column.lengths > sizes).any():
        row = int((column.lengths - sizes).argmax())
        raise ShapeError(
            f"row {row} of `{name}` has {column.lengths[row]} elements, its size is "
            f"{sizes[row]}.",
            fix="Let bucket_by= return the length of the longest sequence of a row.",
        )
