"""What is measured, and the table rows that come of it."""

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
    """What a median is to stay below: `ratio` times the other one, plus `extra`."""

    ratio: float = 0.0
    extra: float = 0.0

    def met(self, ours: float, other: float) -> bool:
        """Whether it does."""
        return ours <= self.ratio * other + self.extra


@dataclass(frozen=True)
class Comparison:
    """Two sides of a case beside each other; `other` may be missing."""

    ours: str
    other: str = ""
    goal: Goal | None = None
    typical: Goal | None = None
    """What the median of the ratios of all cases of a family is to stay below."""


@dataclass(frozen=True)
class Case:
    """Things to measure in turn.

    Attributes:
        what: What all sides do.
        sides: Who does it, and how.
        comparisons: The rows of the table.
        agree: Raises where the sides do not compute the same.
        unit: `"s"` for seconds, or what is counted.
        rounds: How many rounds to measure; as many as fit into the time where it is 0.
        warm: Rounds before that, not counted: compilation, and buffers that find their size.
        again: Whether a turn is several calls, of which the first are not counted, so that all
            find their own data in the processor's caches, as in a training loop.
        settle: Called after each turn; returns when no thread of that side is busy any more.
        family: What this is a case of, where there are several.
        at: Where the case stands on the axis that its family goes along, as 64 trips.
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
        """What is measured, in full."""
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
        """What is measured, in full."""
        return _label(self.family, self.what)

    @property
    def ratio(self) -> float | None:
        """Our median over the other one."""
        return self.time / self.other_time if self.other_time else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; `None` where there is none."""
        return None if self.goal is None else self.goal.met(self.time, self.other_time or 0.0)


def _label(family: str, what: str) -> str:
    return f"{family}: {what}" if family else what


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, which returns when its work is finished, and seconds."""
    start = time.perf_counter()
    given = function()
    return given, time.perf_counter() - start


def clocked(function: Callable[[], Any]) -> Measure:
    """A measurement of such a function."""
    return lambda: timed(function)[1]


def measured(case: Case, seconds: float) -> list[Row]:
    """Measure the sides of a case in turn; `seconds` is about how long to go on."""
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
    """What one side measures in its turn.

    After a third of a second in which a process sleeps, as the others take their turns, it
    takes a virtual machine some 50 ms until a step is as fast as the step after it.
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
    """The median of the ratios of each family, where something is asked of it."""
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
    """Raise where arrays differ by more than `tolerance` of the largest entry."""
    for left, right in zip(ours, other, strict=True):
        right = np.asarray(right)
        scale = max(1.0, float(np.max(np.abs(right), initial=0.0)))
        np.testing.assert_allclose(left, right, rtol=0, atol=tolerance * scale)
