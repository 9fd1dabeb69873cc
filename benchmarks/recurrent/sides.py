"""Who takes the training step, and how: the sides by name, and what is asked of each."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from shutil import which
from typing import TypeAlias

from benchmarks.case import OURS, Case, Comparison, Goal, check_close, timed
from benchmarks.library import library, settle
from benchmarks.peers import installed
from benchmarks.recurrent.task import CELLS, GRU, LSTM, Task

SAME = "JAX scan, everything in it"
GOOD = "JAX scan, as a good user writes it"
TORCH = "PyTorch, fused"
LOOP_COMPILED = "PyTorch, the loop compiled"

AHEAD = Goal(1.0)
ALL = frozenset(CELLS)
FUSED = frozenset({LSTM.name, GRU.name})
OWN = ALL - FUSED

STEPS = 5
"""How many losses are compared, each after one more update."""

Step: TypeAlias = Callable[[], tuple[float, float]]
"""Takes one more training step: the loss before it, and seconds."""


@dataclass(frozen=True)
class Side:
    """A way to take a step.

    Attributes:
        module: The module of this package that has it.
        make: A function there, from a task to a step.
        needs: The library that must be there.
        goal: What Braces is to stay below of its time, at every size.
        typical: The same for the median over the sizes.
        cells: The cells that it has.
        alone: Whether the library is loaded in an interpreter of its own.
        compiles: Whether it needs a compiler of C++.
    """

    module: str
    make: str
    needs: str = "jax"
    goal: Goal = AHEAD
    typical: Goal | None = None
    cells: Collection[str] = ALL
    alone: bool = True
    compiles: bool = False

    def has(self, task: Task) -> bool:
        """Whether it has the cell, and what it needs is there."""
        compiler = not self.compiles or which(os.environ.get("CXX", "g++")) is not None
        return task.name in self.cells and installed(self.needs) and compiler

    def step(self, task: Task) -> Step:
        """The step of a task, compiled where it is first taken."""
        module = f"{__package__}.{self.module}"
        if self.alone:
            return lambda: library(module)(self.make, task)
        step = getattr(importlib.import_module(module), self.make)(task)
        return lambda: timed(step)


SIDES: Mapping[str, Side] = {
    OURS: Side("in_braces", "training_step", alone=False),
    SAME: Side("in_jax", "everything_in_it", alone=False),
    GOOD: Side("in_jax", "as_a_good_user", goal=Goal(1 / 2), typical=Goal(1 / 2), alone=False),
    "Equinox": Side("in_equinox", "usual", "equinox", alone=False),
    TORCH: Side("in_torch", "fused", "torch", Goal(1.1), Goal(0.9), FUSED),
    "PyTorch, a loop": Side("in_torch", "step_loop", "torch", cells=OWN),
    "PyTorch, a compiled step": Side(
        "in_torch", "compiled_step", "torch", cells=OWN, compiles=True
    ),
    "TensorFlow, graph": Side("in_tensorflow", "graph", "tensorflow"),
    "TensorFlow, XLA": Side("in_tensorflow", "xla", "tensorflow"),
    "Paddle": Side("in_paddle", "usual", "paddle"),
    LOOP_COMPILED: Side("in_torch", "compiled_loop", "torch", cells=OWN, compiles=True),
}


def beside(task: Task, names: Collection[str], *, goals: bool = True) -> Case:
    """A task by those of the sides that have its cell and are installed."""
    sides = {name: side for name, side in SIDES.items() if name in names and side.has(task)}
    steps = {name: side.step(task) for name, side in sides.items()}

    def agree() -> None:
        losses = {name: [step()[0] for _ in range(STEPS)] for name, step in steps.items()}
        for found in losses.values():
            check_close(found, losses[OURS], 1e-4)

    return Case(
        what=str(task.sizes),
        family=task.name,
        sides={name: lambda step=step: step()[1] for name, step in steps.items()},
        comparisons=[
            Comparison(OURS, name, side.goal, side.typical) if goals else Comparison(OURS, name)
            for name, side in sides.items()
            if name != OURS
        ],
        agree=agree,
        settle=settle,
    )
