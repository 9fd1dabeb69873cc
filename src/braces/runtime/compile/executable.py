"""Executable: compiled code, its status vector and its call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import le
from typing import Any

import numpy as np

from braces.errors import RunError
from braces.ir.records import Op
from braces.lazy import jax
from braces.lower.xla.check_points import CheckPoint


@dataclass(eq=False)
class Executable:
    """Compiled code and its call.

    Attributes:
        code: Maps replaced values, other values and feeds to fetches, next values and status,
            all of them flat.
        sites: The check points, in the order of the status vector.
        limits: The largest status of each check point in a run without failures.
        sizes: The data-dependent sizes, as assumed.
        loops: The interruptible loops: the path of the block and the operator of each.
        needed_bytes: The allocation of each run, in bytes.
        call: The function that calls it.
        more: Additional arguments at the end, the same for all runs.
        used: The time of the last call, by the clock of the executor.
        taken: The number of states that are arguments; those after them are constants.
        constants: The values of these, whose identity is that of the code.
        about: The constants, in words.
    """

    code: Any
    sites: tuple[CheckPoint, ...]
    limits: tuple[int, ...]
    sizes: Mapping[str, int]
    loops: tuple[tuple[str, Op], ...]
    needed_bytes: int
    call: Callable[..., Any]
    more: tuple[Any, ...] = ()
    used: int = 0
    taken: int = 0
    constants: tuple[Any, ...] = ()
    about: str = ""

    def holds(self, status: list[int]) -> bool:
        """Return whether nothing failed."""
        return all(map(le, status, self.limits))

    def needed(self, status: list[int]) -> dict[str, int]:
        """Return the length that each list history reached."""
        lengths: dict[str, int] = {}
        for site, length in zip(self.sites, status, strict=False):
            if site.history:
                lengths[site.history] = max(length, lengths.get(site.history, 0))
        return lengths

    def counts(self, status: list[int]) -> dict[str, int]:
        """Return the data-dependent sizes; disproved assumptions come first."""
        every = list(zip(self.sites, status, self.limits, strict=False))
        counts: dict[str, int] = {}
        for site, code, limit in sorted(every, key=lambda entry: entry[1] <= entry[2]):
            if site.length:
                counts.setdefault(site.length, site.count(code, limit, self.sizes[site.length]))
        return counts

    def failed(self, status: list[int]) -> list[tuple[CheckPoint, int]]:
        """Return the check points that failed, with their codes."""
        every = zip(self.sites, status, self.limits, strict=False)
        return [(site, code) for site, code, limit in every if code > limit]

    def failures(self, status: list[int]) -> list[tuple[CheckPoint, int]]:
        """Return the failures of the run itself, not of its assumptions.

        An operator reports a failure only if no size before it was wrong. Sizes after a failure
        are meaningless because loops stop, as are failures after a truncated list.
        """
        failed = self.failed(status)
        if any(site.history for site, _ in failed):
            return []
        return [failure for failure in failed if not failure[0].length]


class DonatedError(RunError):
    """A value that the run reads is gone: another run donated its buffer."""


def check_donated(values: Iterable[Any]) -> None:
    """Refuse values whose buffers another run donated.

    Raises:
        TakenError: If a buffer is donated.
    """
    if any(not isinstance(value, np.ndarray) and value.is_deleted() for value in values):
        raise DonatedError(
            "another thread ran with this scope at the same time; this run changed nothing.",
            fix="Donate the arrays of variables to runs only.",
        ) from None


def call_on_device(code: Any, device: Any, *arguments: Any) -> Any:
    """Call with 64-bit dtypes enabled, which JAX truncates otherwise, or on a device."""
    with jax.enable_x64(True):
        return code(*(arguments if device is None else jax.device_put(arguments, device)))


def call_first(executable: Executable, *arguments: Any) -> Any:
    """Call for the first time, and without a Python wrapper afterwards.

    `jax.stages.Compiled` creates its fast call in its first call; see docs/decisions, 0038.
    """
    results = executable.code(*arguments)
    fast_call = getattr(executable.code, "_call", None)
    executable.call = fast_call if callable(fast_call) else executable.code
    return results
