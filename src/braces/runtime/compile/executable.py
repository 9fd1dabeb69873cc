"""Compiled code: what it told when it ran, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import le
from typing import Any

import numpy as np

from braces.errors import RunError
from braces.ir.records import Op
from braces.lazy import jax
from braces.lower.xla.check_points import Site


@dataclass(eq=False)
class Executable:
    """Compiled code and how to call it.

    Attributes:
        code: From replaced values, kept values and feeds to fetches, next values and status,
            all of them flat.
        sites: What may fail, in the order of the status vector.
        limits: What the status says at most where nothing failed.
        sizes: The sizes that values decide, as they were assumed.
        loops: Those that ask whether to go on: where they are, and their operators.
        needed_bytes: What each run allocates on a CPU.
        call: How it is called.
        more: What it is called with at the end, beside what runs give.
        used: When it was called last, by the clock of the executor.
    """

    code: Any
    sites: tuple[Site, ...]
    limits: tuple[int, ...]
    sizes: Mapping[str, int]
    loops: tuple[tuple[str, Op], ...]
    needed_bytes: int
    call: Callable[..., Any]
    more: tuple[Any, ...] = ()
    used: int = 0

    def holds(self, status: list[int]) -> bool:
        """Whether nothing failed."""
        return all(map(le, status, self.limits))

    def needed(self, status: list[int]) -> dict[str, int]:
        """How much room each history asked for."""
        found: dict[str, int] = {}
        for site, told in zip(self.sites, status, strict=False):
            if site.history:
                found[site.history] = max(told, found.get(site.history, 0))
        return found

    def counts(self, status: list[int]) -> dict[str, int]:
        """The sizes that values decided; what was not as assumed is told first."""
        every = list(zip(self.sites, status, self.limits, strict=False))
        found: dict[str, int] = {}
        for site, told, limit in sorted(every, key=lambda one: one[1] <= one[2]):
            if site.length:
                found.setdefault(site.length, site.count(told, limit, self.sizes[site.length]))
        return found

    def failed(self, status: list[int]) -> list[tuple[Site, int]]:
        """What failed, with what it told."""
        every = zip(self.sites, status, self.limits, strict=False)
        return [(site, told) for site, told, limit in every if told > limit]

    def failures(self, status: list[int]) -> list[tuple[Site, int]]:
        """What is wrong with the run itself: all before it was as assumed.

        An operator tells a failure only where no size before it was wrong. Sizes after it mean
        nothing, for loops stop; neither does a failure where a history was cut short.
        """
        failed = self.failed(status)
        if any(site.history for site, _ in failed):
            return []
        return [one for one in failed if not one[0].length]


class TakenError(RunError):
    """A value that the run reads is gone: another run took its memory over."""


def check_taken(values: Iterable[Any]) -> None:
    """Refuse values whose buffers another run took over.

    Raises:
        TakenError: One is such.
    """
    if any(not isinstance(one, np.ndarray) and one.is_deleted() for one in values):
        raise TakenError(
            "Another thread ran with this scope meanwhile; this run changed nothing.",
            fix="Let nothing but runs take over the arrays that variables hold.",
        ) from None


def call_told(code: Any, device: Any, *arguments: Any) -> Any:
    """Call where JAX must be told of 64 bits, which it cuts else, or of a device."""
    with jax.enable_x64(True):
        return code(*(arguments if device is None else jax.device_put(arguments, device)))


def call_first(executable: Executable, *arguments: Any) -> Any:
    """Call for the first time, and without a function of Python in between from then on.

    `jax.stages.Compiled` makes what it calls in its first call; to go through it takes 1.5 us.
    """
    made = executable.code(*arguments)
    found = getattr(executable.code, "_call", None)
    executable.call = found if callable(found) else executable.code
    return made
