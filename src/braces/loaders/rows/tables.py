"""Tables: columns of rows, in memory, in memory maps, or in files of several groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
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

    def renamed(self, names: Sequence[str]) -> ArrayTable:
        """Return the same table with other names."""
        return ArrayTable(dict(zip(names, self.columns.values(), strict=True)))


class GroupedTable:
    """A table in groups of rows, each read as a whole.

    Args:
        groups: The number of rows of each group.
        load: A function from the number of a group to its table.
        slow: Whether a group is decoded to be read; then the order follows the groups, and the
            last three stay in memory.
    """

    def __init__(
        self, groups: Sequence[int], load: Callable[[int], ArrayTable], slow: bool
    ) -> None:
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
        table = GroupedTable(self._sizes, self._load, self._slow)
        table._names = names
        table.types = dict(zip(names, self.types.values(), strict=True))
        return table


def ragged_names(table: RowTable) -> list[str]:
    """Return the names of the columns of sequences of different lengths."""
    return [name for name, text in table.types.items() if "[*" in text]
