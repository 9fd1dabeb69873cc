"""ONNX Runtime, with as many threads as Braces has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers import cores
from benchmarks.real.task import Task
from examples.real_models.sides import theirs


def session(task: Task) -> Callable[[], list[Any]]:
    """One run."""
    run, feed = theirs(task.path, cores()), task.feed()
    return lambda: run(feed)
