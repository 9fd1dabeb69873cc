"""Comparison of numbers in tests, with a count of all compared numbers.

    compared 1,234,567 values in 23,456 comparisons

The end of a run says so: a suite that is made faster still compares what it compared. What
counts are the assertions of NumPy, `np.array_equal` and `np.allclose`, and `near`; a plain
`assert a == b`, what a process of its own compares, and what the package compares for itself,
does not.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TESTS = str(Path(__file__).parents[1])
COUNTED = {
    np: ("array_equal", "allclose"),
    np.testing: ("assert_array_equal", "assert_allclose"),
}
"""What is counted of NumPy: functions of two arrays."""


@dataclass
class Tally:
    """The comparisons so far.

    Attributes:
        comparisons: How often two arrays were held against each other.
        values: How many numbers that were.
    """

    comparisons: int = 0
    values: int = 0

    def add(self, comparisons: int, values: int) -> None:
        """Count what was compared, here or in another process."""
        self.comparisons += comparisons
        self.values += values

    def __str__(self) -> str:
        return f"compared {self.values:,} values in {self.comparisons:,} comparisons"


TALLY = Tally()


def counted(compare: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of two arrays count what it compares where a test calls it."""

    @functools.wraps(compare)
    def comparing(found: Any, wanted: Any, *args: Any, **options: Any) -> Any:
        if sys._getframe(1).f_globals.get("__file__", "").startswith(TESTS):
            TALLY.add(1, max(np.size(found), np.size(wanted)))
        return compare(found, wanted, *args, **options)

    return comparing


def count() -> None:
    """From now on, what NumPy compares counts."""
    for module, names in COUNTED.items():
        for name in names:
            setattr(module, name, counted(getattr(module, name)))


@counted
def near(found: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Compare arrays, relative to the largest value."""
    scale = 1.0 + np.max(np.abs(wanted), initial=0.0)
    worst = np.max(np.abs(np.asarray(found) - wanted), initial=0.0)
    assert worst <= tolerance * scale, f"{what}: {found} and {wanted} differ by {worst:.3g}"
