"""Batches of rows that are read by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from braces.loaders.core.batch_checks import BatchCheck, batch_place
from braces.loaders.core.columns import check_names
from braces.loaders.core.data_set import Batches, check_position
from braces.loaders.core.transforms import BatchTransform
from braces.loaders.rows.order import Order, Rows
from braces.loaders.rows.parts import WEIGHT, BatchPart, add_weight
from braces.loaders.rows.tables import Pads, RowTable

BatchReader: TypeAlias = Callable[[int], Any]
"""A function from the number of a batch of an epoch to the batch."""


class BatchPlan(Protocol):
    """The order of batches: plain, or by buckets."""

    def __len__(self) -> int: ...

    def batches(self, epoch: int) -> Callable[[int], tuple[Rows, int]]:
        """Return a function from the number of a batch to its rows and padded length."""
        ...

    def record(self) -> dict[str, Any]:
        """Return the order as plain JSON."""
        ...


@dataclass(frozen=True, eq=False)
class Recipe:
    """The parts of a data set of rows; what a worker process needs.

    Attributes:
        table: The rows.
        order: The order of the rows.
        plan: The order of the batches.
        part: The part of each batch that this process reads.
        pads: The fill values of padded sequences.
        named: Whether the columns have names.
        transform: A function of the user on each batch.
        varying: Whether it may return arrays of varying sizes.
    """

    table: RowTable
    order: Order
    plan: BatchPlan
    part: BatchPart
    pads: Pads
    named: bool
    transform: BatchTransform | None = None
    varying: bool = False

    def reader(self, epoch: int) -> BatchReader:
        """Return a function from the number of a batch of an epoch to the batch."""
        rows_of, table, pads, part = self.plan.batches(epoch), self.table, self.pads, self.part
        if part.unchanged and self.named and not pads and self.transform is None:
            return lambda i: table.take(*rows_of(i), pads)

        def read_batch(i: int) -> Any:
            rows, length = rows_of(i)
            rows, weight = part.rows(rows)
            batch = table.take(rows, length, pads)
            if length:
                _shorten(batch, length, pads)
            if weight is not None:
                add_weight(batch, weight)
            named = batch if self.named else tuple(batch.values())
            if self.transform is None:
                return named
            seed = self.order.seed, epoch, i, part.index
            return self.transform(named, seed, batch_place(i, epoch))

        return read_batch


def _shorten(batch: dict[str, Any], length: int, pads: Pads) -> None:
    """Cut the dense columns that have a fill value to the length of the batch."""
    for name in pads:
        batch[name] = batch[name][:, :length]


class ReadAhead(Protocol):
    """Worker processes that read batches by their numbers, counted over all epochs.

    Attributes:
        following: The number of the batch that comes next.
    """

    following: int

    def batch(self, index: int) -> Any:
        """Return a batch."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...


class RowBatches(Batches):
    """Batches of rows, with a length: the number of batches of an epoch.

    Made by `br.batches` of arrays and files.
    """

    def __init__(
        self, recipe: Recipe, start_workers: Callable[[Recipe], ReadAhead] | None = None
    ) -> None:
        self._recipe = recipe
        self._start_workers = start_workers
        self._pools = list[ReadAhead]()
        self._idle = list[ReadAhead]()
        self.names = self._names() if recipe.named else None
        self.rows = recipe.table.rows
        self.is_movable = start_workers is None and recipe.transform is None

    def _names(self) -> tuple[str, ...]:
        weight = [WEIGHT] if self._recipe.part.batch_size else []
        return tuple(dict.fromkeys([*self._recipe.table.types, *weight]))

    def __len__(self) -> int:
        return len(self._recipe.plan)

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:  # noqa: D102 - inherited
        check_position(number, start, len(self))
        if self._start_workers is None:
            return self._read_batches(self._recipe.reader(number), number, start)
        return self._read_from_workers(self._start_workers, number, start)

    def _read_from_workers(
        self, start_workers: Callable[[Recipe], ReadAhead], number: int, start: int
    ) -> Iterator[Any]:
        first = number * len(self)
        pool = self._idle_pool(start_workers, first + start)
        try:
            yield from self._read_batches(lambda i: pool.batch(first + i), number, start)
        finally:
            self._idle.append(pool)

    def _read_batches(self, read: BatchReader, number: int, start: int) -> Iterator[Any]:
        recipe = self._recipe
        if recipe.transform is None:
            for i in range(start, len(self)):
                yield read(i)
        else:
            check = BatchCheck(self.names, recipe.varying)
            for i in range(start, len(self)):
                yield check.batch(read(i), batch_place(i, number))

    def _idle_pool(self, start_workers: Callable[[Recipe], ReadAhead], index: int) -> ReadAhead:
        """Return idle workers, preferably those at this batch."""
        places = [pool.following for pool in self._idle]
        try:
            return self._idle.pop(places.index(index) if index in places else -1)
        except IndexError:
            pool = start_workers(self._recipe)
            self._pools.append(pool)
            return pool

    def trial(self) -> RowBatches:  # noqa: D102 - inherited
        return RowBatches(self._recipe)

    def close(self) -> None:  # noqa: D102 - inherited
        for pool in self._pools:
            pool.close()

    def named(self, names: Sequence[str]) -> RowBatches:  # noqa: D102 - inherited
        recipe = self._recipe
        if recipe.named:
            return self
        table = recipe.table.renamed(check_names(names, len(recipe.table.types)))
        return RowBatches(replace(recipe, table=table, named=True), self._start_workers)

    def fingerprint(self) -> dict[str, Any]:  # noqa: D102 - inherited
        recipe = self._recipe
        columns: Mapping[str, str] = recipe.table.types
        padded = bool(recipe.part.batch_size)
        kinds = {**columns} if recipe.named else [*columns.values()]
        return {"kind": "rows", **recipe.plan.record(), "pad_last": padded, "columns": kinds}

    def __repr__(self) -> str:
        order, table = self._recipe.order, self._recipe.table
        columns = ", ".join(f"{n}: {text}" for n, text in table.types.items())
        text = f"seed={order.seed}" if order.shuffle else "stored order"
        count = f"{len(self)} batch{'es' * (len(self) != 1)}"
        return f"<Batches {count} of {order.batch_size}, {table.rows} rows, {text}: {columns}>"
