"""The training step along three axes: iterations, rows, and nested loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from benchmarks.case import OURS, Case
from benchmarks.recurrent.sides import FIRST, WITH_KERNEL, same_losses
from benchmarks.recurrent.task import LSTM, Sizes, Task
from benchmarks.sides import Side, beside

TITLE = "how a recurrent training step grows"
HERE = "benchmarks.growth"
RECURRENT = {
    name: replace(side, goal=None, typical=None)
    for name, side in {**FIRST, **WITH_KERNEL}.items()
}
NESTED = {
    OURS: Side(f"{HERE}.nested", "braces_step", alone=False),
    "JAX scan": Side(f"{HERE}.nested", "jax_step", alone=False),
    "PyTorch, a loop": Side(f"{HERE}.nested_torch", "step", ("torch",)),
}


def cases(tiny: bool) -> Iterator[Case]:
    """One axis after the other; each case is built in its turn."""
    rows, trips = (2, 2) if tiny else (8, 64)
    for t in (2, 4) if tiny else (64, 256, 1024, 4096, 16384):
        task = Task(LSTM.name, Sizes(rows, t, 64, 64, 100))
        yield _case(f"LSTM, B {rows}, D 64, H 64, V 100, by trips", t, task, RECURRENT)
    for b in (1, 2) if tiny else (1, 4, 16, 64, 256, 1024):
        task = Task(LSTM.name, Sizes(b, trips, 64, 64, 100))
        yield _case(f"LSTM, T {trips}, D 64, H 64, V 100, by rows", b, task, RECURRENT)
    shapes = ((4,), (2, 2)) if tiny else ((4096,), (64, 64), (16, 16, 16), (8, 8, 8, 8))
    for shape in shapes:
        family = f"tanh(h W + x), {prod(shape):,} trips, by loops in loops"
        yield _case(family, len(shape), shape, NESTED)


def _case(family: str, at: int, task: Any, sides: Mapping[str, Side]) -> Case:
    case = beside(task, sides, same_losses)
    return replace(case, family=family, what=f"{at:,}", at=at)
