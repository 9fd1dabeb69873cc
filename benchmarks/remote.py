"""The cost of a run in another process beside a local run, with NumPy arrays in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import braces as br
from benchmarks.case import OURS, Case, Comparison, check_close, clocked

TITLE = "runs in worker processes of this machine beside the same runs in this process"
ONE, TWO = "one worker", "two workers"
BATCHES = 32


def cases(tiny: bool) -> Iterator[Case]:
    """A run with a small computation, and batches of 1 MB."""
    rows = 4 if tiny else 1024
    with br.remote.Workers(2) as workers:
        yield _one_run("tanh of 4 floats", workers, *_tanh())
        yield _one_run(f"a net of 2 layers, {rows} KiB in", workers, *_net(rows))
        yield _batches(f"{BATCHES} batches of {rows} KiB to the net", workers, *_net(rows))


def _one_run(
    what: str, workers: br.remote.Workers, prog: br.Program, out: br.Var, x: Any
) -> Case:
    exe, scope, (worker, _) = br.Executor(), br.Scope(), workers.workers
    exe.init(prog, scope)

    def sent() -> Any:
        return worker.run({"x": x}, out)

    def here() -> Any:
        return exe.run(prog, scope, {"x": x}, out)

    def agree() -> None:
        worker.load(prog, scope)  # and so each case loads its own
        check_close([sent()], [here()], 1e-5)

    return _beside(what, {ONE: sent, OURS: here}, agree)


def _batches(
    what: str, workers: br.remote.Workers, prog: br.Program, out: br.Var, x: Any
) -> Case:
    exe, scope, (worker, _) = br.Executor(), br.Scope(), workers.workers
    exe.init(prog, scope)
    feeds = [{"x": x + n} for n in range(BATCHES)]

    def shared() -> Any:
        return list(workers.map(feeds, out))

    def alone() -> Any:
        return [one.result() for one in [worker.submit(feed, out) for feed in feeds]]

    def here() -> Any:
        return [exe.run(prog, scope, feed, out) for feed in feeds]

    def agree() -> None:
        workers.load(prog, scope)
        check_close(shared(), here(), 1e-5)
        check_close(alone(), here(), 1e-5)

    return _beside(what, {ONE: alone, TWO: shared, OURS: here}, agree)


def _beside(what: str, sides: dict[str, Callable[[], Any]], agree: Callable[[], None]) -> Case:
    return Case(
        what=what,
        sides={name: clocked(side) for name, side in sides.items()},
        comparisons=[Comparison(name, OURS) for name in sides if name != OURS],
        agree=agree,
    )


def _tanh() -> tuple[br.Program, br.Var, Any]:
    with br.Program() as prog:
        out = br.tanh(br.data("x", [4]))
    return prog, out, np.linspace(-1, 1, 4, dtype="float32")


def _net(rows: int) -> tuple[br.Program, br.Var, Any]:
    """Rows of 256 floats, 1 KiB each."""
    with br.Program() as prog:
        out = br.fc(br.fc(br.data("x", ["rows", 256]), 256, act="tanh"), 10)
    x = np.random.default_rng(0).normal(size=(rows, 256)).astype("float32")
    return prog, out, x
