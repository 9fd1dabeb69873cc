"""Braces: the file as a program with symbolic sizes, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.real.task import Task
from examples.real_models.cases import CASES
from examples.real_models.sides import Ours


def compiled(task: Task) -> Callable[[], list[Any]]:
    """One run."""
    net, feed = Ours.of(task.path), CASES[task.name]()[0].feeds[0]
    return lambda: net(feed)
