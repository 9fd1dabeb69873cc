"""One model in Braces and in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx

import braces as br

Feed: TypeAlias = Mapping[str, np.ndarray]
Side: TypeAlias = Callable[[Feed], list[np.ndarray]]
"""From inputs, under the model's names, to outputs in its order."""


@dataclass(frozen=True)
class Case:
    """The inputs of a model.

    Attributes:
        about: Their description.
        feeds: The feeds of each run.
        state: Inputs that take, after the first run, an output of the previous run: its
            index.
    """

    about: str
    feeds: Sequence[Feed]
    state: Mapping[str, int] = field(default_factory=dict[str, int])

    def play(self, side: Side) -> list[np.ndarray]:
        """Each output of all runs, with one row per run."""
        found, kept = list[list[np.ndarray]](), dict[str, np.ndarray]()
        for feed in self.feeds:
            found.append(side({**feed, **kept}))
            kept = {name: found[-1][at] for name, at in self.state.items()}
        return [np.stack(rows) for rows in zip(*found, strict=True)]


@dataclass(frozen=True)
class Ours:
    """A file as a program, with its parameters in a scope."""

    program: br.Program
    scope: br.Scope
    executor: br.Executor
    names: Mapping[str, str]
    """The model's names of inputs, and the program's."""

    @staticmethod
    def of(path: Path, mode: str = "compile") -> Ours:
        """Read a file; sizes stay symbolic."""
        program, values = br.from_onnx(path)
        scope = br.Scope()
        scope.update(values)
        names = dict(zip(input_names(path), program.feeds, strict=True))
        return Ours(program, scope, br.Executor(mode=mode, frozen=True), names)

    def __call__(self, feed: Feed) -> list[np.ndarray]:
        """Run it once."""
        named = {self.names[name]: value for name, value in feed.items()}
        return self.executor.run(self.program, self.scope, named, list(self.program.fetches))


def session(path: Path, threads: int = 0) -> Any:
    """A model in ONNX Runtime; 0 threads mean its own choice.

    Raises:
        ImportError: If ONNX Runtime is not installed.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def theirs(path: Path, threads: int = 0) -> Side:
    """A file in ONNX Runtime."""
    loaded = session(path, threads)
    return lambda feed: loaded.run(None, dict(feed))


def input_names(path: Path) -> list[str]:
    """The inputs of a model, in its order."""
    graph = onnx.load(path).graph
    known = {tensor.name for tensor in graph.initializer}
    return [entry.name for entry in graph.input if entry.name not in known]


def difference(ours: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest number of each output.

    Raises:
        AssertionError: If shapes or dtypes differ.
    """
    found = 0.0
    for left, right in zip(ours, other, strict=True):
        assert (left.shape, left.dtype) == (right.shape, right.dtype)
        apart = np.abs(left.astype(np.float64) - right.astype(np.float64))
        scale = np.max(np.abs(right.astype(np.float64)), initial=1e-30)
        found = max(found, float(np.max(apart, initial=0.0) / scale))
    return found
