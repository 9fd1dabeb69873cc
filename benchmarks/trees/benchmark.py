"""The gradient of the gradient of a network over trees, by every installed library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.case import OURS, Case, Comparison, Goal, check_close
from benchmarks.sides import Side, Turn, beside
from benchmarks.trees.task import Task

TITLE = "shift-reduce trees: a branch of rows in lengths in a while, and its second order"
HERE = "benchmarks.trees"
INTERPRETED, TORCH = f"{OURS}, interpreted", "PyTorch eager"
SIDES = {
    OURS: Side(f"{HERE}.in_braces", "compiled", alone=False),
    "JAX scan, masked": Side(f"{HERE}.in_jax", "jitted", alone=False),
    TORCH: Side(f"{HERE}.in_torch", "eager", ("torch",)),
    INTERPRETED: Side(f"{HERE}.in_braces", "interpreted", alone=False),
}


def cases(tiny: bool) -> Iterator[Case]:
    """One set of trees."""
    case = beside(Task(2, 2, 3) if tiny else Task(), SIDES, _agree)
    others = [c for c in case.comparisons if c.other != INTERPRETED]
    if TORCH in case.sides:
        slow = Comparison(INTERPRETED, TORCH, Goal(5.0))
    else:
        slow = Comparison(INTERPRETED, OURS)
    yield replace(case, comparisons=[*others, slow])


def _agree(turns: Mapping[str, Turn]) -> None:
    ours, _ = turns[OURS]()
    for name, turn in turns.items():
        if name != OURS:
            check_close(turn()[0], ours, 1e-8)
