"""Programs and models on disk, for the tests of commands."""

from __future__ import annotations

from pathlib import Path

import braces as br


def forward() -> tuple[br.Program, br.Var, br.Var]:
    """A small net and its loss."""
    with br.Program() as program:
        x, y = br.data("x", ["b", 3]), br.data("y", ["b", 1])
        out = br.fc(x, 1, act="tanh", name="fc")
        error = br.subtract(out, y, name="error")
        loss = br.mean(error * error, name="loss")
    return program, out, loss


def training() -> tuple[br.Program, br.Var, br.Var]:
    """The same net with its optimizer."""
    program, out, loss = forward()
    with program:
        br.optimizer.sgd(learning_rate=0.1).minimize(loss)
    return program, out, loss


def saved(program: br.Program, path: Path) -> str:
    """The path of a program that was saved."""
    program.save(path)
    return str(path)


def model(path: Path) -> str:
    """A model of the training program with fixed parameters."""
    program, out, _ = training()
    scope = br.Scope()
    br.Executor().init(program, scope, seed=1)
    br.save_model(path, program, scope, feeds=["x"], fetches={"out": out})
    return str(path)
