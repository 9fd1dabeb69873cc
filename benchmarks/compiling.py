"""The time of compilation, without caches.

Braces: building the program with its gradient and optimizer, lowering it, and XLA.
JAX: tracing the same, lowering it, and XLA. PyTorch: the first step under `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.case import OURS, Case, Goal
from benchmarks.language.task import TASKS as MODELS, TINY as TINY_MODELS
from benchmarks.nets.data import NETS, TINY as TINY_NETS
from benchmarks.recurrent.task import GRU, LSTM, Sizes, Task
from benchmarks.sides import Side, beside
from benchmarks.trees.task import Task as Trees

TITLE = "compiling, from the description on"
GOAL = Goal(1.3)
SIZES, TINY_SIZES = Sizes(16, 256, 64, 64, 100), Sizes(2, 3, 4, 5, 6)


def cases(tiny: bool) -> Iterator[Case]:
    """Training steps, decoding loops and trees, built in their turn."""
    sizes = TINY_SIZES if tiny else SIZES
    tasks: list[tuple[str, str, Any]] = [
        *(("training step", "nets", net) for net in (TINY_NETS if tiny else NETS)),
        *(("training step", "recurrent", Task(cell.name, sizes)) for cell in (LSTM, GRU)),
        *(("decoding", "language", model) for model in (TINY_MODELS if tiny else MODELS)[:2]),
        ("second order", "trees", Trees(2, 2, 3) if tiny else Trees()),
    ]
    for what, package, task in tasks:
        case = beside(task, _sides(f"benchmarks.{package}"), lambda _: None)
        yield replace(case, family=what, rounds=1 if tiny else 5, warm=not tiny, again=False)


def _sides(package: str) -> Mapping[str, Side]:
    """The sides of a compilation; other benchmarks compare the results."""
    sides = {
        OURS: Side(f"{package}.in_braces", "compiling", alone=False),
        "JAX": Side(f"{package}.in_jax", "compiling", goal=GOAL, alone=False),
    }
    if package.endswith("nets"):
        torch = Side(f"{package}.in_torch", "compiling", ("torch",), compiles=True)
        sides["PyTorch, compiled"] = torch
    return sides
