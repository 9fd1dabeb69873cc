"""Data sets of batches: the results of `br.batches`, read by a training loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from braces.errors import ProgramError, short_text
from braces.loaders.columns import Columns, check_names, reader
from braces.loaders.order import Order
from braces.report import count_text


class Batches(ABC):
    """A data set as batches, epoch by epoch; made by `br.batches`.

    A training loop uses `epoch`, `names`, `named`, `fingerprint` and, where a data set has it,
    the length. An object of another class with the method `epoch` is a data set as well.

    Attributes:
        names: The keys of a batch; `None` if batches are tuples.
        rows: The number of rows of an epoch; `None` if it is unknown.
    """

    names: tuple[str, ...] | None
    rows: int | None

    @abstractmethod
    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of an epoch, from a batch on.

        Args:
            number: The number of the epoch, from 0.
            start: The number of the first batch, from 0.

        Returns:
            An iterator of dicts from names to arrays; of tuples if the data set has no names.

        Raises:
            ProgramError: If a number is not an integer of at least 0, or `start` exceeds the
                number of batches.
        """

    @abstractmethod
    def named(self, names: Sequence[str]) -> Batches:
        """Return the same data set with names for the arrays of its tuples."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return the facts that determine order and content of batches, as plain JSON.

        A position in the data, the numbers of an epoch and a batch, is valid for data sets of
        equal fingerprints.
        """

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of epoch 0, each time in the same order.

        Further epochs have orders of their own: `for batch in data.epoch(1)`.
        """
        return self.epoch(0)


class ArrayBatches(Batches):
    """Batches of rows of arrays, with a length; made by `br.batches`.

    Its length is the number of batches of an epoch.
    """

    def __init__(self, columns: Columns, order: Order, named: bool = True) -> None:
        self._columns = columns
        self._order = order
        self._read = reader(columns, named)
        self.names = tuple(columns) if named else None
        self.rows = order.rows

    def __len__(self) -> int:
        return len(self._order)

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:  # noqa: D102 - inherited
        check_position(number, start, len(self))
        return self._produce(number, start)

    def _produce(self, number: int, start: int) -> Iterator[Any]:
        rows, read = self._order.batches(number), self._read
        for i in range(start, len(self._order)):
            yield read(rows(i))

    def named(self, names: Sequence[str]) -> ArrayBatches:  # noqa: D102 - inherited
        if self.names is not None:
            return self
        names = check_names(names, len(self._columns))
        columns = dict(zip(names, self._columns.values(), strict=True))
        return ArrayBatches(columns, self._order)

    def fingerprint(self) -> dict[str, Any]:  # noqa: D102 - inherited
        order = self._order
        return {
            "kind": "arrays",
            "rows": order.rows,
            "batch_size": order.batch_size,
            "seed": order.seed if order.shuffle else None,
            "drop_last": order.drop_last,
        }

    def __repr__(self) -> str:
        shape = {n: f"{a.dtype}{list(a.shape[1:])}" for n, a in self._columns.items()}
        columns = ", ".join(f"{n}: {text}" for n, text in shape.items())
        order = f"seed={self._order.seed}" if self._order.shuffle else "stored order"
        count = count_text(len(self), "batch") if len(self) == 1 else f"{len(self)} batches"
        size = self._order.batch_size
        return f"<Batches {count} of {size}, {self.rows} rows, {order}: {columns}>"


def check_position(epoch: Any, start: Any, count: int | None) -> None:
    """Refuse numbers that are not a position.

    Raises:
        ProgramError: If a number is not an integer of at least 0, or `start` exceeds the
            number of batches.
    """
    for name, number in (("number", epoch), ("start", start)):
        if type(number) is not int or number < 0:
            raise ProgramError(
                f"invalid {name}={short_text(number)}.", fix="Use an integer of at least 0."
            )
    if count is not None and start > count:
        raise ProgramError(
            f"batch {start} is out of range for an epoch of {count} batches.",
            fix="Resume with the data set that the position was taken from.",
        )
