"""Braces: the file as a program with symbolic sizes, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.real.task import Task
from examples.real_models.sides import Ours


def compiled(task: Task) -> Callable[[], list[Any]]:
    """One run."""
    net, feed = Ours.of(task.path), task.feed()
    return lambda: net(feed)
