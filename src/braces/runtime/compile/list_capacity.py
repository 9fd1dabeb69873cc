"""Capacities learned from runs: list lengths and data-dependent sizes of compiled code.

A list history has a buffer of fixed capacity, which every run sets to zero. Capacity grows at
once if a run needed more; the run is then repeated. It shrinks after some runs that needed far
less, so that one long run does not slow the short ones after it. Capacities are powers of two,
so few differ. A data-dependent number of rows has a capacity in the same way, if its consumers
can mask padding. Otherwise the number is predicted from earlier runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FIRST_ROOM, LEAST_ROWS = 64, 8
FAR_LESS = 4
"""Capacity shrinks if this many times the need of recent runs still fits."""
PATIENCE, MOST_PATIENCE = 8, 64
"""The number of consecutive runs with far less need; doubled after each wrong shrinking."""
FIRST_GUESS = 1
"""An exact size before any run reported it: some kernels reject 0."""
OFTEN_EMPTY = 4
"""After this many consecutive runs without rows, the next one is assumed to have none."""
MAX_REMEMBERED = 1024
FADING = 0.8


@dataclass
class Capacity:
    """Capacity for a data-dependent number of values.

    Attributes:
        least: The minimum of the capacity.
        size: The capacity.
        most: The largest need of the last runs.
        runs: The number of consecutive runs that needed far less.
        patience: The number of such runs before it shrinks.
        shrunk: Whether it shrank since it last grew.
    """

    least: int = FIRST_ROOM
    size: int = FIRST_ROOM
    most: int = 0
    runs: int = 0
    patience: int = PATIENCE
    shrunk: bool = False

    def grow(self, needed: int) -> None:
        """Grow to the need of a run that overflowed."""
        if self.shrunk:
            self.patience = min(2 * self.patience, MOST_PATIENCE)
        self.size, self.shrunk = max(self.size, rounded(needed)), False
        self.most = self.runs = 0

    def record(self, needed: int) -> None:
        """Record the need of a run that fitted; shrink if the capacity is far too large."""
        if FAR_LESS * needed > self.size or self.size == self.least:
            self.most = self.runs = 0
            return
        self.most, self.runs = max(self.most, needed), self.runs + 1
        if self.runs == self.patience:
            self.size, self.shrunk = max(self.least, rounded(self.most)), True
            self.most = self.runs = 0


@dataclass
class RowCapacity:
    """Capacity for rows; without rows there is no padding either.

    Attributes:
        room: The capacity for runs with rows.
        empty: The number of consecutive runs without rows.
        was_empty: Whether the run that is being repeated has no rows.
    """

    room: Capacity = field(default_factory=lambda: Capacity(LEAST_ROWS))
    empty: int = 0
    was_empty: bool = False

    @property
    def size(self) -> int:
        """The number of rows that the next run is compiled for."""
        return 0 if self.was_empty or self.empty >= OFTEN_EMPTY else self.room.size

    def correct(self, count: int) -> None:
        """Adopt a row count that did not fit."""
        self.was_empty = count == 0
        if count:
            self.empty = 0
        if count > self.room.size:
            self.room.grow(count)

    def record(self, count: int) -> None:
        """Record the row count of a run that fitted."""
        self.was_empty = False
        self.empty = 0 if count else self.empty + 1
        if count:
            self.room.record(count)


@dataclass
class SizePrediction:
    """Prediction of an exact size: the last size, or its usual successor if better.

    Attributes:
        size: The prediction.
        last: The size of the last run.
        after: The successor of each size.
        same, follows: The recent success of each kind of prediction.
    """

    size: int = FIRST_GUESS
    last: int | None = None
    after: dict[int, int] = field(default_factory=dict[int, int])
    same: float = 0.0
    follows: float = 0.0

    def correct(self, size: int) -> None:
        """Adopt a size that was predicted wrongly."""
        self.size = size

    def record(self, size: int) -> None:
        """Record the size of a run, and predict the next one."""
        if self.last is not None:
            self.same = FADING * self.same + (size == self.last)
            self.follows = FADING * self.follows + (size == self.after.get(self.last))
            if len(self.after) >= MAX_REMEMBERED:
                self.after.clear()
            self.after[self.last] = size
        self.last = size
        self.size = self.after.get(size, size) if self.follows > self.same else size


def rounded(needed: int) -> int:
    """Return the smallest power of two that is enough."""
    return 1 << max(0, needed - 1).bit_length()


class CapacityEstimates:
    """Capacity estimates of a plan, learned from its runs.

    Attributes:
        rooms: The capacities of list histories.
        rows: The capacities of row counts that can be rounded up.
        guesses: The predictions of exact data-dependent sizes.
    """

    def __init__(self, histories: Iterable[str], dimensions: Iterable[str]) -> None:
        self.rooms = {name: Capacity() for name in histories}
        dimensions = list(dimensions)
        self.rows = {name: RowCapacity() for name in dimensions}
        self.guesses = {name: SizePrediction() for name in dimensions}

    def capacities(self) -> dict[str, int]:
        """Return the capacity of each history."""
        return {name: room.size for name, room in self.rooms.items()}

    def sizes(self, rounded: Iterable[str]) -> dict[str, int]:
        """Return the sizes to compile for, if these dimensions are rounded up."""
        exact = {name: guess.size for name, guess in self.guesses.items()}
        return exact | {name: self.rows[name].size for name in rounded}

    def key(self, rounded: Iterable[str]) -> tuple[int, ...]:
        """Return a cache key that differs if recompilation is necessary."""
        if not self.rooms and not self.rows:
            return ()
        return (*self.capacities().values(), *self.sizes(rounded).values())

    def record(
        self, needed: Mapping[str, int], counts: Mapping[str, int], rounded: Iterable[str]
    ) -> None:
        """Record the report of a run whose assumptions were right."""
        for history, most in needed.items():
            self.rooms[history].record(most)
        for dimension, count in counts.items():
            guessed = self.rows if dimension in rounded else self.guesses
            guessed[dimension].record(count)
