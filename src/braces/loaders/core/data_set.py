"""Data sets of batches: the results of `br.batches`, read by a training loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from braces.errors import ProgramError, short_text
from braces.hints.objects import Hinted
from braces.notebook import TextView


class Batches(Hinted, TextView, ABC):
    """A data set as batches, epoch by epoch; made by `br.batches`.

    A training loop uses `epoch`, `names`, `named`, `fingerprint`, `close` and, where a data set
    has it, the length. An object of another class with the method `epoch` is a data set as
    well.

    Attributes:
        names: The keys of a batch; `None` if batches are tuples.
        rows: The number of rows of an epoch; `None` if it is unknown.
        is_movable: Whether one thread can continue to read an epoch that another one began.

    Example:
        >>> import numpy as np, braces as br
        >>> data = br.batches({"x": np.arange(5.0), "y": np.arange(5)}, 2)
        >>> len(data), [len(batch["x"]) for batch in data]
        (3, [2, 2, 1])
    """

    names: tuple[str, ...] | None
    rows: int | None
    is_movable: bool = False

    if TYPE_CHECKING:  # at run time, data sets of unknown length have none

        def __len__(self) -> int: ...

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
        """Return the facts that determine the order of the batches, as plain JSON.

        A position in the data, the numbers of an epoch and a batch, is valid for data sets of
        equal fingerprints. The number of processes of a job is not part of it.
        """

    def trial(self) -> Batches | None:
        """Return a data set whose first batch is read at once, for a check.

        `None` if that would start processes or use up an iterator.
        """
        return None

    def state(self, epoch: int, batch: int) -> Any:
        """Return where the source stands before a batch, as plain JSON; `None` if unknown.

        A position has it besides its two numbers, so that `load_state` spares reading the
        batches before it.
        """
        return None

    def load_state(self, state: Any) -> None:
        """Accept a state, for a later `epoch` with the numbers that the state was taken for."""

    def close(self) -> None:
        """End the worker processes, if there are any; a further epoch starts new ones."""

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of epoch 0, each time in the same order.

        Further epochs have orders of their own: `for batch in data.epoch(1)`.
        """
        return self.epoch(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
