"""Who takes a turn, and how: functions of modules, in this interpreter or one of their own."""

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
    """A way to do what a case does.

    Attributes:
        module: The module that has it, in full.
        make: A function there, from a task to a function that does the work.
        needs: The libraries that must be there.
        goal: What Braces is to stay below of its time.
        alone: Whether the library is loaded in an interpreter of its own.
        compiles: Whether it needs a compiler of C++.
        typical: What the median over a family is to stay below.
    """

    module: str
    make: str
    needs: tuple[str, ...] = ("jax",)
    goal: Goal | None = None
    alone: bool = True
    compiles: bool = False
    typical: Goal | None = None

    def is_there(self) -> bool:
        """Whether what it needs is installed."""
        compiler = not self.compiles or which(os.environ.get("CXX", "g++")) is not None
        return all(map(installed, self.needs)) and compiler

    def turn(self, task: Any) -> Turn:
        """The work, made ready where it is first done."""
        if self.alone:
            return lambda: library(self.module)(self.make, task)
        work = getattr(importlib.import_module(self.module), self.make)(task)
        return lambda: timed(work)


def beside(
    task: Any, sides: Mapping[str, Side], agree: Callable[[Mapping[str, Turn]], None]
) -> Case:
    """A task by those sides that are there, all of them beside Braces.

    Args:
        task: What they do; it says what that is.
        sides: By name, Braces first.
        agree: Raises where they do not give the same.
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
