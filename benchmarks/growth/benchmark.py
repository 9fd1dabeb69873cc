"""The training step along three axes: trips, rows, and loops in loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from benchmarks.case import OURS, Case, Comparison, check_close, timed
from benchmarks.growth import nested
from benchmarks.library import library, settle
from benchmarks.peers import installed
from benchmarks.recurrent.sides import GOOD, SAME, TORCH, beside
from benchmarks.recurrent.task import LSTM, Sizes, Task

TITLE = "how a recurrent training step grows"
SIDES = (OURS, SAME, GOOD, TORCH)
TRIPS = "LSTM, B 8, D 64, H 64, V 100, by trips"
ROWS = "LSTM, T 64, D 64, H 64, V 100, by rows"
NESTING = "tanh(h W + x), {trips:,} trips, by loops in loops"
SCAN, EAGER = "JAX scan", "PyTorch, a loop"


def cases(tiny: bool) -> Iterator[Case]:
    """One axis after the other; each case is built when it is its turn."""
    for t in (2, 4) if tiny else (64, 256, 1024, 4096, 16384):
        yield _lstm(TRIPS, f"T {t:,}", t, Sizes(2 if tiny else 8, t, 64, 64, 100))
    for b in (1, 2) if tiny else (1, 4, 16, 64, 256, 1024):
        yield _lstm(ROWS, f"B {b:,}", b, Sizes(b, 2 if tiny else 64, 64, 64, 100))
    shapes = ((4,), (2, 2)) if tiny else ((4096,), (64, 64), (16, 16, 16), (8, 8, 8, 8))
    for shape in shapes:
        yield _nested(shape)


def _lstm(family: str, what: str, at: float, sizes: Sizes) -> Case:
    case = beside(Task(LSTM.name, sizes), SIDES, goals=False)
    return replace(case, family=family, what=what, at=at)


def _nested(shape: tuple[int, ...]) -> Case:
    ours, scan = nested.braces_step(shape), nested.jax_step(shape)
    steps = {OURS: lambda: timed(ours), SCAN: lambda: timed(scan)}
    if installed("torch"):
        steps[EAGER] = lambda: library("benchmarks.growth.nested_torch")("step", shape)

    def agree() -> None:
        losses = {name: [step()[0] for _ in range(5)] for name, step in steps.items()}
        for found in losses.values():
            check_close(found, losses[OURS], 1e-4)

    return Case(
        what=f"{len(shape)} deep",
        sides={name: lambda step=step: step()[1] for name, step in steps.items()},
        comparisons=[Comparison(OURS, name) for name in steps if name != OURS],
        agree=agree,
        settle=settle,
        family=NESTING.format(trips=prod(shape)),
        at=len(shape),
    )
