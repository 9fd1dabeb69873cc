"""The executables that were used last, and what is said of those that are compiled anew."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol
from weakref import WeakSet

from braces.runtime.feeds import describe

LOGGER = logging.getLogger("braces")
MOST_EXECUTABLES = 64


class Owner(Protocol):
    """A plan with its executables."""

    executables: dict[Any, Any]

    def forget(self, key: Any) -> None:
        """Let an executable go."""
        ...


class Recent:
    """A bounded set of executables, those of several plans together.

    Attributes:
        limit: How many there are at most.
        now: The next tick of a clock that counts uses, to tell which was last.
    """

    def __init__(self, limit: int = MOST_EXECUTABLES) -> None:
        self.limit = limit
        self.now = count(1).__next__
        self._owners: WeakSet[Owner] = WeakSet()
        self._told = False

    def own(self, owner: Owner) -> None:
        """Count the executables of one more plan."""
        self._owners.add(owner)

    def make_room(self) -> None:
        """Let those go that were used longest ago, until one more fits."""
        kept = [
            (executable.used, key, owner)
            for owner in list(self._owners)
            for key, executable in list(owner.executables.items())
        ]
        excess = len(kept) + 1 - self.limit
        if excess <= 0:
            return
        for _, key, owner in sorted(kept, key=lambda one: one[0])[:excess]:
            owner.forget(key)
        if not self._told:
            self._told = True
            LOGGER.warning(
                "More than %d executables are in use: what was used longest ago is let go, and "
                "compiled again where it returns. Pad batches to few sizes, or raise "
                "br.Executor(max_executables=...).",
                self.limit,
            )


@dataclass
class Notice:
    """Says once that a program is compiled for other shapes.

    Attributes:
        shapes: What it was compiled for last, by the name of a feed or a persistable variable.
        told: Whether it was said.
    """

    shapes: dict[str, str] = field(default_factory=dict[str, str])
    told: bool = False

    def compiling(self, values: Mapping[str, Any]) -> None:
        """Take note of what the program is compiled for."""
        if self.told:
            return
        shapes = {name: describe(value) for name, value in values.items()}
        differing = [
            f"`{name}` is {shape}, was {self.shapes[name]}"
            for name, shape in shapes.items()
            if self.shapes.get(name, shape) != shape
        ]
        self.shapes |= shapes
        if differing:
            self.told = True
            LOGGER.info(
                "A program is compiled again for other shapes: %s. Each set of shapes is "
                "compiled once; this is said once for each program.",
                "; ".join(differing),
            )
