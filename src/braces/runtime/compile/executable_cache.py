"""LRU cache of executables, and reports of compilations."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet

from braces.errors import ProgramError
from braces.passes.core.pipeline import Note
from braces.runtime.inputs.feeds import describe_array
from braces.runtime.monitoring.stats import Compilation, Counters

LOGGER = logging.getLogger("braces")
MAX_EXECUTABLES = 64
MAX_NAMED = 8
"""The number of variables named in one message."""
Facts: TypeAlias = "dict[str, str]"


class ExecutableOwner(Protocol):
    """A plan with its executables."""

    executables: dict[Any, Any]

    def forget(self, key: Any) -> None:
        """Evict an executable."""
        ...


class ExecutableCache:
    """Bounded LRU cache of executables, shared by several plans.

    Attributes:
        limit: The maximum number of executables.
        now: Returns the next tick of a clock of uses.
        counters: The counters of runs and compilations.
    """

    def __init__(self, limit: int = MAX_EXECUTABLES) -> None:
        self.limit = limit
        self.now = count(1).__next__
        self._owners: WeakSet[ExecutableOwner] = WeakSet()
        self._told = False
        self.counters = Counters()
        self._programs = count(1).__next__

    def notice(self) -> CompileReporter:
        """Return the reporter for one more program."""
        return CompileReporter(self._programs())

    def own(self, owner: ExecutableOwner) -> None:
        """Count the executables of one more plan."""
        self._owners.add(owner)

    def make_room(self) -> None:
        """Evict the least recently used executables, until one more fits."""
        entries = [
            (executable.used, key, owner)
            for owner in list(self._owners)
            for key, executable in list(owner.executables.items())
        ]
        excess = len(entries) + 1 - self.limit
        if excess <= 0:
            return
        for _, key, owner in sorted(entries, key=lambda entry: entry[0])[:excess]:
            owner.forget(key)
        if not self._told:
            self._told = True
            LOGGER.warning(
                "More than %d executables are in use: the least recently used one is evicted, "
                "and compiled again at its next use. print(exe.stats) lists the causes of the "
                "compilations. Pad batches to few sizes, replace operators that require exact "
                "sizes, or raise br.Executor(max_executables=...).",
                self.limit,
            )


def check_limit(limit: Any) -> int:
    """Return a validated number of executables.

    Raises:
        ProgramError: If `limit` is not a positive integer.
    """
    if type(limit) is not int or limit < 1:
        raise ProgramError(
            f"invalid max_executables={limit!r}.",
            fix="Use an integer of at least 1.",
        )
    return limit


@dataclass
class CompileReporter:
    """Reports each compilation of a program, with its cause.

    Attributes:
        program: The number of the program.
        facts: The assumptions of the last compilation: shapes by the names of feeds and
            persistable variables, sizes and capacities by those of dimensions and histories.
    """

    program: int = 1
    facts: dict[str, str] = field(default_factory=dict[str, str])

    def change(self, feeds: Mapping[str, Any], states: Mapping[str, Any], more: Facts) -> str:
        """Return the difference from the last compilation.

        Args:
            feeds: The data of the run.
            states: The persistable variables that it reads.
            more: The other assumptions of the code.
        """
        before = self.facts
        shapes = {f"`{name}`": describe_array(value) for name, value in feeds.items()}
        every = (
            {f"`{name}`": describe_array(value) for name, value in states.items()}
            | shapes
            | more
        )
        self.facts = before | every
        if not before:
            return (
                join_limited(f"{name} is {fact}" for name, fact in shapes.items()) or "no feeds"
            )
        changed = (
            f"{name} is {fact}, was {before[name]}"
            for name, fact in every.items()
            if before.get(name, fact) != fact
        )
        new = (f"{name} is {fact}" for name, fact in more.items() if name not in before)
        return join_limited(changed) or join_limited(new) or "another plan for the same shapes"

    def tell_exact(self, notes: Iterable[Note]) -> None:
        """Log the data-dependent sizes that are compiled exactly, with the reasons."""
        for note in notes:
            LOGGER.info("Program %d: %s: %s.", self.program, note.where, note.what.rstrip("."))

    def tell(self, compilation: Compilation) -> None:
        """Log a compilation of the program."""
        LOGGER.info(
            "Program %d was compiled in %.2f s%s: %s.",
            compilation.program,
            compilation.seconds,
            " (code from the cache)" if compilation.read else "",
            compilation.change,
        )


def join_limited(parts: Iterable[str]) -> str:
    """Join some parts, the first of many."""
    items = list(parts)
    more = [f"{len(items) - MAX_NAMED} more"] if len(items) > MAX_NAMED else []
    return "; ".join([*items[:MAX_NAMED], *more])
