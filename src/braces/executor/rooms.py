"""What only runs tell of compiled code: how much room histories need, and sizes.

A history has a buffer of fixed room, which every run sets to zero. Room grows at once where a
run needed more, which is then repeated, and shrinks after some runs that needed far less, so
that one long run does not slow the short ones after it. Rooms are powers of two: few differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FIRST_ROOM = 64
FAR_LESS = 4
"""Room shrinks where this many times what runs needed still fits."""
PATIENCE, MOST_PATIENCE = 8, 64
"""How many runs in a row must need far less; doubled each time that shrinking was wrong."""


@dataclass
class Room:
    """The room of one history.

    Attributes:
        size: How many values fit.
        most: The most that the last runs needed.
        runs: How many in a row needed far less than there is.
        patience: How many such runs make it shrink.
        shrunk: Whether it shrank since it last grew.
    """

    size: int = FIRST_ROOM
    most: int = 0
    runs: int = 0
    patience: int = PATIENCE
    shrunk: bool = False

    def grow(self, needed: int) -> None:
        """Make room for what a run needed in vain."""
        if self.shrunk:
            self.patience = min(2 * self.patience, MOST_PATIENCE)
        self.size, self.shrunk = rounded(needed), False
        self.most = self.runs = 0

    def settle(self, needed: int) -> bool:
        """Take note of what a run needed that had enough; whether there is less room now."""
        if FAR_LESS * needed > self.size or self.size == FIRST_ROOM:
            self.most = self.runs = 0
            return False
        self.most, self.runs = max(self.most, needed), self.runs + 1
        if self.runs < self.patience:
            return False
        self.size, self.shrunk = max(FIRST_ROOM, rounded(self.most)), True
        self.most = self.runs = 0
        return True


def rounded(needed: int) -> int:
    """The smallest power of two that is enough."""
    return 1 << max(0, needed - 1).bit_length()


@dataclass
class Known:
    """What runs told so far: the room that histories need, and sizes that values decide.

    Attributes:
        rooms: By history.
        sizes: By dimension.
        key: Something that differs where code must be compiled anew.
        large: Whether some room could shrink.
    """

    rooms: dict[str, Room] = field(default_factory=dict[str, Room])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    key: tuple[object, ...] = ()
    large: bool = False

    def __post_init__(self) -> None:
        self._changed()

    def capacities(self) -> dict[str, int]:
        """How many values fit, by history."""
        return {name: room.size for name, room in self.rooms.items()}

    def grow(self, history: str, needed: int) -> None:
        """Make room for what a run needed in vain."""
        self.rooms[history].grow(needed)
        self._changed()

    def assume(self, dimension: str, size: int) -> None:
        """Take over the size that a run told."""
        self.sizes[dimension] = size
        self._changed()

    def settle(self, needed: Mapping[str, int]) -> None:
        """Take note of what histories needed in a run that had enough room for them."""
        shrunk = [self.rooms[history].settle(most) for history, most in needed.items()]
        if any(shrunk):
            self._changed()

    def _changed(self) -> None:
        self.key = (*self.capacities().values(), *self.sizes.items())
        self.large = any(room.size > FIRST_ROOM for room in self.rooms.values())
