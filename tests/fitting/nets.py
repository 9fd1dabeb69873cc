"""Programs, data and comparisons of the tests of training."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import braces as br

ROWS, BATCH = 26, 4
STEPS = 7  # of an epoch; the last batch is smaller


def arrays(rows: int = ROWS, seed: int = 0) -> dict[str, Any]:
    """Inputs and targets of a regression."""
    x = np.random.default_rng(seed).normal(size=(rows, 4)).astype(np.float32)
    return {"x": x, "y": x.sum(axis=1, keepdims=True)}


def data(rows: int = ROWS, batch: int = BATCH, seed: int = 0) -> br.Batches:
    """Batches of a regression, in a seeded order."""
    return br.batches(arrays(rows), batch, seed=seed)


def net(width: int = 3, rate: float = 1e-2, dropped: float = 0.2) -> tuple[br.Program, br.Var]:
    """Return a program with dropout, an optimizer with state, and its loss."""
    with br.Program() as prog:
        x, y = br.data("x", ["n", 4]), br.data("y", ["n", 1])
        hidden = br.dropout(br.fc(x, width, act="tanh", name="hidden"), dropped)
        loss = br.mean(br.squared_error(br.fc(hidden, 1, name="out"), y))
        br.optimizer.adam(rate).minimize(loss)
    return prog, loss


@cache
def shared_net() -> tuple[br.Program, br.Var]:
    """A program that tests share, so that it compiles once."""
    return net()


@cache
def shared_executor(mode: str = "compile") -> br.Executor:
    """An executor that tests share."""
    return br.Executor(mode=mode)


def bits(scope: br.Scope) -> str:
    """A hash of all values of a scope."""
    values = sorted(scope.state_dict().items())
    return hashlib.sha256(b"".join(np.asarray(v).tobytes() for _, v in values)).hexdigest()


def walk(folder: Path | None, *, stop: int = 0, mode: str = "compile", **options: Any) -> Any:
    """Train for three epochs, or until a step; return the training."""
    prog, loss = shared_net()
    exe = shared_executor(mode)
    steps = br.training(prog, data(), fetch=loss, epochs=3, folder=folder, exe=exe, **options)
    for step in steps:
        if step.number == stop:
            break
    return steps


# ---- classification, for br.fit ----


def labelled(rows: int = ROWS, seed: int = 0) -> dict[str, Any]:
    """Inputs and classes."""
    x = arrays(rows, seed)["x"]
    return {"x": x, "y": (x.sum(axis=1) > 0).astype(np.int32)}


@dataclass(frozen=True)
class Task:
    """A classifier with a metric and a gradient norm."""

    prog: br.Program
    metrics: dict[str, br.metrics.Metric]
    norm: br.Var

    @staticmethod
    @cache
    def shared() -> Task:
        """Return the task that tests share, so that it compiles once."""
        with br.Program() as prog:
            x, y = br.data("x", ["n", 4]), br.data("y", ["n"], dtype="int32")
            hidden = br.dropout(br.fc(x, 5, act="tanh", name="hidden"), 0.2)
            logits = br.fc(hidden, 2, name="out")
            loss = br.mean(br.softmax_cross_entropy(logits, y))
            pairs = br.optimizer.adam(1e-2).minimize(loss)
            norm = br.sqrt(sum((br.sum(g * g) for g in pairs.values()), br.constant(0.0)))
            metrics = {"accuracy": br.metrics.accuracy(logits, y)}
        return Task(prog, metrics, norm)


def fit(folder: Path | None = None, *, mode: str = "compile", **options: Any) -> Any:
    """Fit the shared classifier for three epochs with validation."""
    task = Task.shared()
    given: dict[str, Any] = {
        "data": br.batches(labelled(), BATCH),
        "epochs": 3,
        "validation": br.batches(labelled(18, seed=1), 5, shuffle=False),
        "metrics": task.metrics,
        "log": {"rate": "learning_rate", "norm": task.norm},
        "folder": folder,
        "exe": shared_executor(mode),
        "quiet": True,
    }
    return br.fit(task.prog, **(given | options))
