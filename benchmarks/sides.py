"""The sides of a case: functions of modules, in this interpreter or a separate one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from shutil import which
from typing import Any, TypeAlias

from benchmarks.case import OURS, Case, Comparison, Goal, timed
from benchmarks.library import library, settle
from benchmarks.peers import installed

Turn: TypeAlias = Callable[[], tuple[Any, float]]
"""Does the work once more: what it gives, and seconds."""


@dataclass(frozen=True)
class Side:
    """An implementation of a case.

    Attributes:
        module: The full name of its module.
        make: A function there, from a task to the measured function.
        needs: The required libraries.
        goal: The goal for the time of Braces, relative to this side.
        alone: Whether the library is loaded in a separate interpreter.
        compiles: Whether it requires a C++ compiler.
        typical: The goal for the median of a family.
    """

    module: str
    make: str
    needs: tuple[str, ...] = ("jax",)
    goal: Goal | None = None
    alone: bool = True
    compiles: bool = False
    typical: Goal | None = None

    def is_there(self) -> bool:
        """Whether the required libraries are installed."""
        compiler = not self.compiles or which(os.environ.get("CXX", "g++")) is not None
        return all(map(installed, self.needs)) and compiler

    def turn(self, task: Any) -> Turn:
        """The measured function, created at first use."""
        if self.alone:
            return lambda: library(self.module)(self.make, task)
        work = getattr(importlib.import_module(self.module), self.make)(task)
        return lambda: timed(work)


def beside(
    task: Any, sides: Mapping[str, Side], agree: Callable[[Mapping[str, Turn]], None]
) -> Case:
    """A task by the available sides, each compared with Braces.

    Args:
        task: The task, with its description.
        sides: The sides by name, Braces first.
        agree: A function that raises if their results differ.
    """
    there = {name: side for name, side in sides.items() if side.is_there()}
    turns = {name: side.turn(task) for name, side in there.items()}
    return Case(
        what=str(task),
        sides={name: lambda turn=turn: turn()[1] for name, turn in turns.items()},
        comparisons=[
            Comparison(OURS, name, side.goal, side.typical)
            for name, side in there.items()
            if name != OURS
        ],
        agree=lambda: agree(turns),
        settle=settle,
    )
