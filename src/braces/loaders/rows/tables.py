"""Tables: columns of rows, in memory, in memory maps, or in files of several groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from mmap import mmap
from typing import Any, Protocol

import numpy as np

from braces.loaders.core.columns import Array, Column, Columns, Ragged, column_type
from braces.loaders.rows.order import Rows, row_numbers

Pads = Mapping[str, Any]
"""Fill values of padded sequences, by column."""


class RowTable(Protocol):
    """Rows that are read by their numbers.

    Attributes:
        rows: The number of rows.
        types: Dtype and shape of a row, by column.
        groups: The numbers of rows that are read together from a file; empty if any row is
            read at the same cost.
    """

    rows: int
    types: Mapping[str, str]
    groups: Sequence[int]

    def take(self, rows: Rows, length: int, pads: Pads) -> dict[str, Array]:
        """Return rows as new arrays; sequences are padded to a length."""
        ...

    def column(self, name: str) -> Column:
        """Return a whole column."""
        ...

    def renamed(self, names: Sequence[str]) -> RowTable:
        """Return the same table with other names."""
        ...


class ArrayTable:
    """A table of arrays and memory maps."""

    def __init__(self, columns: Columns) -> None:
        self.columns = dict(columns)
        self.rows = len(next(iter(self.columns.values())))
        self.types: Mapping[str, str] = {n: column_type(c) for n, c in columns.items()}
        self.groups: Sequence[int] = ()
        self._arrays = [(n, c) for n, c in self.columns.items() if not isinstance(c, Ragged)]
        self._ragged = [(n, c) for n, c in self.columns.items() if isinstance(c, Ragged)]

    def take(self, rows: Rows, length: int, pads: Pads) -> dict[str, Array]:
        """Return rows as new arrays; sequences are padded to a length."""
        if isinstance(rows, range):
            part = slice(rows.start, rows.stop)
            batch = {name: array[part].copy() for name, array in self._arrays}
        else:
            batch = {name: array[rows] for name, array in self._arrays}
        if not self._ragged:
            return batch
        numbers = row_numbers(rows)
        for name, column in self._ragged:
            batch[name] = column.padded(numbers, length, pads.get(name, 0))
        return {name: batch[name] for name in self.columns}

    def column(self, name: str) -> Column:
        """Return a whole column."""
        return self.columns[name]

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce memory maps to their files, which a worker process maps again."""
        return _restored_table, ({name: _mapping(c) for name, c in self.columns.items()},)

    def renamed(self, names: Sequence[str]) -> ArrayTable:
        """Return the same table with other names."""
        return ArrayTable(dict(zip(names, self.columns.values(), strict=True)))


class GroupedTable:
    """A table in groups of rows, each read as a whole.

    Args:
        reopen: A function that returns this table in another process, and its arguments.
        groups: The number of rows of each group.
        load: A function from the number of a group to its table.
        slow: Whether a group is decoded to be read; then the order follows the groups, and the
            last three stay in memory.
    """

    def __init__(
        self,
        reopen: tuple[Callable[..., GroupedTable | ArrayTable], Sequence[Any]],
        groups: Sequence[int],
        load: Callable[[int], ArrayTable],
        slow: bool,
    ) -> None:
        self._reopen = reopen
        self._sizes = groups
        self._slow = slow
        self.groups: Sequence[int] = groups if slow else ()
        self.rows = sum(groups)
        self._ends = np.cumsum([0, *groups])
        self._load = load
        self._cached = lru_cache(3 if slow else None)(load)
        self._names: Sequence[str] | None = None
        self.types: Mapping[str, str] = self._cached(0).types

    def take(self, rows: Rows, length: int, pads: Pads) -> dict[str, Array]:
        """Return rows as new arrays; sequences are padded to a length."""
        numbers = row_numbers(rows)
        group = np.searchsorted(self._ends, numbers, side="right") - 1
        present = np.unique(group)
        if len(present) == 1:
            return self._read_group(int(present[0]), numbers, length, pads)
        parts = [self._read_group(int(g), numbers[group == g], length, pads) for g in present]
        place = np.argsort(np.argsort(group, kind="stable"), kind="stable")
        return {
            name: np.concatenate([part[name] for part in parts])[place] for name in parts[0]
        }

    def _read_group(
        self, group: int, numbers: Any, length: int, pads: Pads
    ) -> dict[str, Array]:
        table = self._cached(group)
        batch = table.take(numbers - self._ends[group], length, self._stored_pads(table, pads))
        return (
            batch
            if self._names is None
            else dict(zip(self._names, batch.values(), strict=True))
        )

    def _stored_pads(self, table: ArrayTable, pads: Pads) -> Pads:
        names = self._names or table.columns
        return {own: pads.get(name, 0) for own, name in zip(table.columns, names, strict=True)}

    def column(self, name: str) -> Column:
        """Return a whole column."""
        place = list(self.types).index(name)
        parts = [[*self._cached(g).columns.values()][place] for g in range(len(self._sizes))]
        if isinstance(parts[0], Ragged):
            sequences = [part for part in parts if isinstance(part, Ragged)]
            lengths = np.concatenate([part.lengths for part in sequences])
            values = np.concatenate([part.values for part in sequences])
            return Ragged(values, np.cumsum([0, *lengths]))
        return np.concatenate([np.asarray(part) for part in parts])

    def renamed(self, names: Sequence[str]) -> GroupedTable:
        """Return the same table with other names."""
        table = GroupedTable(self._reopen, self._sizes, self._load, self._slow)
        table._names = names
        table.types = dict(zip(names, self.types.values(), strict=True))
        return table

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the files, which a worker process opens again."""
        return _reopened_table, (*self._reopen, self._names)


def _reopened_table(
    function: Callable[..., RowTable], arguments: Sequence[Any], names: Sequence[str] | None
) -> RowTable:
    table = function(*arguments)
    return table if names is None else table.renamed(names)


def _restored_table(columns: Mapping[str, Any]) -> ArrayTable:
    return ArrayTable(
        {name: c.array() if isinstance(c, MappedArray) else c for name, c in columns.items()}
    )


@dataclass(frozen=True)
class MappedArray:
    """The place of an array in a file.

    Attributes:
        path: The file.
        dtype: Its dtype.
        offset: The number of bytes before it.
        shape: Its shape.
        order: The order of its elements: `C` or `F`.
    """

    path: str
    dtype: Any
    offset: int
    shape: tuple[int, ...]
    order: Any

    def array(self) -> Array:
        """Return the array as a memory map."""
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)
        return np.asarray(mapped)


def _mapping(column: Column) -> Column | MappedArray:
    """Return the place of a memory map in its file; other columns as they are."""
    if isinstance(column, Ragged):
        return column
    mapped = column.base
    if not isinstance(mapped, np.memmap) or not isinstance(mapped.base, mmap):
        return column
    same = (column.shape, column.strides, column.dtype) == (
        mapped.shape, mapped.strides, mapped.dtype,
    )  # fmt: skip
    if not same or column.ctypes.data != mapped.ctypes.data:
        return column
    order = "C" if column.flags.c_contiguous else "F"
    path = str(mapped.filename)
    return MappedArray(path, column.dtype, mapped.offset, column.shape, order)


def ragged_names(table: RowTable) -> list[str]:
    """Return the names of the columns of sequences of different lengths."""
    return [name for name, text in table.types.items() if "[*" in text]
