"""The time of a loop's gradient, in proportion to its iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.case import Case, Comparison, Goal, Measure, check_close, clocked
from benchmarks.loop import braces_gradient, scan_gradient

TITLE = "time of one trip in the gradient of a while of tanh(W h), as trips grow"
SCAN = "JAX scan, 16,384 trips"


def cases(tiny: bool) -> list[Case]:
    """One program for each trip count, in one comparison."""
    counts = (4, 8) if tiny else (64, 256, 1024, 4096, 16384)
    ours = {trips: braces_gradient() for trips in counts}
    scan, most = scan_gradient(), counts[-1]

    def agree() -> None:
        check_close(ours[most](most), scan(most), 1e-3)

    sides = {_name(t): each(lambda t=t, g=g: g(t), t) for t, g in ours.items()}
    middle = _name(counts[len(counts) // 2])
    return [
        Case(
            what="one trip",
            sides={**sides, SCAN: each(lambda: scan(most), most)},
            comparisons=[
                *(
                    Comparison(_name(t), middle)
                    for t in counts
                    if _name(t) != middle and t != most
                ),
                *(
                    [Comparison(_name(most), middle, Goal(1.5))]
                    if _name(most) != middle
                    else []
                ),
                Comparison(_name(most), SCAN),
            ],
            agree=agree,
        )
    ]


def _name(trips: int) -> str:
    return f"Braces, {trips:,} trips"


def each(function: Callable[[], Any], trips: int) -> Measure:
    """A measurement of one iteration of many."""
    measure = clocked(function)
    return lambda: measure() / trips
