"""What only runs tell of compiled code: how much room histories need, and sizes.

A history has a buffer of fixed room, which every run sets to zero. Room grows at once where a
run needed more, which is then repeated, and shrinks after some runs that needed far less, so
that one long run does not slow the short ones after it. Rooms are powers of two: few differ.
Rows of which only the values of a run tell the number have room in the same way, where what
follows from them can leave padding out; else their number is guessed from the runs before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FIRST_ROOM, LEAST_ROWS = 64, 8
FAR_LESS = 4
"""Room shrinks where this many times what runs needed still fits."""
PATIENCE, MOST_PATIENCE = 8, 64
"""How many runs in a row must need far less; doubled each time that shrinking was wrong."""
FIRST_GUESS = 1
"""An exact size, before any run told it: there are kernels that cannot take 0."""
OFTEN_EMPTY = 4
"""After so many runs in a row without rows, the next one is taken to have none."""
MOST_REMEMBERED = 1024
FADING = 0.8


@dataclass
class Room:
    """Room for values of which a run tells the number.

    Attributes:
        least: It never becomes less.
        size: How many values fit.
        most: The most that the last runs needed.
        runs: How many in a row needed far less than there is.
        patience: How many such runs make it shrink.
        shrunk: Whether it shrank since it last grew.
    """

    least: int = FIRST_ROOM
    size: int = FIRST_ROOM
    most: int = 0
    runs: int = 0
    patience: int = PATIENCE
    shrunk: bool = False

    def grow(self, needed: int) -> None:
        """Make room for what a run needed in vain."""
        if self.shrunk:
            self.patience = min(2 * self.patience, MOST_PATIENCE)
        self.size, self.shrunk = max(self.size, rounded(needed)), False
        self.most = self.runs = 0

    def record(self, needed: int) -> None:
        """Take note of what a run needed that had enough; shrink where that is far too much."""
        if FAR_LESS * needed > self.size or self.size == self.least:
            self.most = self.runs = 0
            return
        self.most, self.runs = max(self.most, needed), self.runs + 1
        if self.runs == self.patience:
            self.size, self.shrunk = max(self.least, rounded(self.most)), True
            self.most = self.runs = 0


@dataclass
class Rows:
    """Room for rows; where there are none, there is no padding either.

    Attributes:
        room: Where there are rows.
        empty: How many runs in a row had none.
        was_empty: Whether the run that is being repeated had none.
    """

    room: Room = field(default_factory=lambda: Room(LEAST_ROWS))
    empty: int = 0
    was_empty: bool = False

    @property
    def size(self) -> int:
        """The number that the next run is compiled for."""
        return 0 if self.was_empty or self.empty >= OFTEN_EMPTY else self.room.size

    def correct(self, count: int) -> None:
        """Take over a number that did not fit."""
        self.was_empty = count == 0
        if count:
            self.empty = 0
        if count > self.room.size:
            self.room.grow(count)

    def record(self, count: int) -> None:
        """Take note of the number of a run that it fitted."""
        self.was_empty = False
        self.empty = 0 if count else self.empty + 1
        if count:
            self.room.record(count)


@dataclass
class Guess:
    """An exact size: that of the last run, or what came after it before where that is so.

    Attributes:
        size: The guess.
        last: The size of the last run.
        after: Which size came after which.
        same, follows: How often each way to guess was right lately.
    """

    size: int = FIRST_GUESS
    last: int | None = None
    after: dict[int, int] = field(default_factory=dict[int, int])
    same: float = 0.0
    follows: float = 0.0

    def correct(self, size: int) -> None:
        """Take over a size that was guessed wrongly."""
        self.size = size

    def record(self, size: int) -> None:
        """Take note of the size of a run, and guess the next one."""
        if self.last is not None:
            self.same = FADING * self.same + (size == self.last)
            self.follows = FADING * self.follows + (size == self.after.get(self.last))
            if len(self.after) >= MOST_REMEMBERED:
                self.after.clear()
            self.after[self.last] = size
        self.last = size
        self.size = self.after.get(size, size) if self.follows > self.same else size


def rounded(needed: int) -> int:
    """The smallest power of two that is enough."""
    return 1 << max(0, needed - 1).bit_length()


class Known:
    """What runs of a plan told so far.

    Attributes:
        rooms: The room of histories.
        rows: The numbers of rows, where they can be rounded up.
        guesses: The sizes that values decide, where they are exact.
    """

    def __init__(self, histories: Iterable[str], dimensions: Iterable[str]) -> None:
        self.rooms = {name: Room() for name in histories}
        dimensions = list(dimensions)
        self.rows = {name: Rows() for name in dimensions}
        self.guesses = {name: Guess() for name in dimensions}

    def capacities(self) -> dict[str, int]:
        """How many values fit, by history."""
        return {name: room.size for name, room in self.rooms.items()}

    def sizes(self, rounded: Iterable[str]) -> dict[str, int]:
        """The sizes to compile for, where these dimensions are rounded up."""
        exact = {name: guess.size for name, guess in self.guesses.items()}
        return exact | {name: self.rows[name].size for name in rounded}

    def key(self, rounded: Iterable[str]) -> tuple[int, ...]:
        """Something that differs where code must be compiled anew."""
        if not self.rooms and not self.rows:
            return ()
        return (*self.capacities().values(), *self.sizes(rounded).values())

    def record(
        self, needed: Mapping[str, int], counts: Mapping[str, int], rounded: Iterable[str]
    ) -> None:
        """Take note of what a run told for which everything was as assumed."""
        for history, most in needed.items():
            self.rooms[history].record(most)
        for dimension, count in counts.items():
            guessed = self.rows if dimension in rounded else self.guesses
            guessed[dimension].record(count)
