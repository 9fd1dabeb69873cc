"""Measured cases, and their table rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

Measure: TypeAlias = Callable[[], float]
"""One measurement: does the work once and returns seconds (or a count)."""

OURS = "Braces"
FEWEST, MOST = 5, 2000
AWAKE_S, IN_A_TURN = 0.15, 3


@dataclass(frozen=True)
class Goal:
    """The goal for a median: at most `ratio` times the other one, plus `extra`."""

    ratio: float = 0.0
    extra: float = 0.0

    def met(self, ours: float, other: float) -> bool:
        """Whether the goal is met."""
        return ours <= self.ratio * other + self.extra


@dataclass(frozen=True)
class Comparison:
    """A comparison of two sides of a case; `other` may be missing."""

    ours: str
    other: str = ""
    goal: Goal | None = None
    typical: Goal | None = None
    """What the median of the ratios of all cases of a family is to stay below."""


@dataclass(frozen=True)
class Case:
    """Sides to measure in turn.

    Attributes:
        what: The computation of all sides.
        sides: The sides by name, as functions.
        comparisons: The rows of the table.
        agree: A function that raises if the results of the sides differ.
        unit: `"s"` for seconds, or the name of a count.
        rounds: The number of measured rounds; 0 means as many as fit into the time.
        warm: The uncounted rounds before them, for compilation and buffer sizes.
        again: Whether a turn is several calls without the first ones, so that all
            find their own data in the processor's caches, as in a training loop.
        settle: A function called after each turn, which waits for the threads of that side.
        family: The name of a group of cases.
        at: The position of the case along the axis of its family, such as 64 iterations.
    """

    what: str
    sides: Mapping[str, Measure]
    comparisons: Sequence[Comparison]
    agree: Callable[[], None]
    unit: str = "s"
    rounds: int = 0
    warm: int = 2
    again: bool = True
    settle: Callable[[], None] = lambda: None
    family: str = ""
    at: float | None = None

    @property
    def label(self) -> str:
        """The full name of the case."""
        return _label(self.family, self.what)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    ours: str
    time: float
    spread: float
    other: str
    other_time: float | None
    goal: Goal | None
    unit: str
    typical: Goal | None = None
    family: str = ""
    at: float | None = None

    @property
    def label(self) -> str:
        """The full name of the case."""
        return _label(self.family, self.what)

    @property
    def ratio(self) -> float | None:
        """The ratio of Braces' median to the other one."""
        return self.time / self.other_time if self.other_time else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; `None` without a goal."""
        return None if self.goal is None else self.goal.met(self.time, self.other_time or 0.0)


def _label(family: str, what: str) -> str:
    return f"{family}: {what}" if family else what


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a synchronous function, and its seconds."""
    start = time.perf_counter()
    given = function()
    return given, time.perf_counter() - start


def clocked(function: Callable[[], Any]) -> Measure:
    """A measurement of such a function."""
    return lambda: timed(function)[1]


def measured(case: Case, seconds: float) -> list[Row]:
    """Measure the sides of a case in turn, for about `seconds`."""
    case.agree()
    samples: dict[str, list[float]] = {name: [] for name in case.sides}
    for _ in range(case.warm):
        for measure in case.sides.values():
            measure()
    names, start = list(case.sides), time.perf_counter()
    while _goes_on(case, len(samples[names[-1]]), time.perf_counter() - start, seconds):
        for name in names:
            samples[name] += _turn(case.sides[name], case.again)
            case.settle()
        names = [*names[1:], names[0]]  # nobody always follows the same one
    return [_row(case, comparison, samples) for comparison in case.comparisons]


def _turn(measure: Measure, again: bool) -> list[float]:
    """The measurement of one side in its turn.

    A virtual machine needs some 50 ms after a third of a second of sleep, such as the turns of
    the others, until steps have a constant speed.
    """
    if not again:
        return [measure()]
    until = time.perf_counter() + AWAKE_S
    measure()
    while time.perf_counter() < until:
        measure()
    return [measure() for _ in range(IN_A_TURN)]


def _goes_on(case: Case, done: int, passed: float, seconds: float) -> bool:
    if case.rounds:
        return done < case.rounds
    return done < FEWEST or (passed < seconds and done < MOST)


def _row(case: Case, comparison: Comparison, samples: Mapping[str, Sequence[float]]) -> Row:
    low, middle, high = np.quantile(samples[comparison.ours], [0.25, 0.5, 0.75])
    other = float(np.median(samples[comparison.other])) if comparison.other else None
    return Row(
        what=case.what,
        ours=comparison.ours,
        time=float(middle),
        spread=float((high - low) / 2 / middle) if middle else 0.0,
        other=comparison.other,
        other_time=other,
        goal=comparison.goal,
        unit=case.unit,
        typical=comparison.typical,
        family=case.family,
        at=case.at,
    )


def typical(rows: Sequence[Row]) -> list[Row]:
    """The median ratio of each family with a goal."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.typical:
            found.setdefault((row.family, row.ours, row.other), []).append(row)
    return [_typical(group) for group in found.values() if len(group) > 1]


def _typical(rows: Sequence[Row]) -> Row:
    ratio = float(np.median([row.ratio for row in rows if row.ratio is not None]))
    what = f"median of the {len(rows)}"
    return replace(
        rows[0],
        what=what,
        time=ratio,
        spread=0.0,
        other_time=1.0,
        goal=rows[0].typical,
        unit="×",
    )


def check_close(ours: Sequence[Any], other: Sequence[Any], tolerance: float) -> None:
    """Raise an error if arrays differ by more than `tolerance` of the largest entry."""
    for left, right in zip(ours, other, strict=True):
        right = np.asarray(right)
        scale = max(1.0, float(np.max(np.abs(right), initial=0.0)))
        np.testing.assert_allclose(left, right, rtol=0, atol=tolerance * scale)
