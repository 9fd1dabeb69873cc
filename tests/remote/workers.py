"""Shared helpers of remote tests: workers that listen in this process, and programs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numpy as np

import braces as br

TOKEN = "0123456789abcdef-of-a-test"


@contextmanager
def listening(address: str = "127.0.0.1:0") -> Generator[br.remote.Server]:
    """A worker in a thread of this process, with sockets and sessions as others have."""
    with br.remote.Server(address, TOKEN) as server:
        thread = Thread(target=server.serve)
        thread.start()
        yield server
    thread.join(5)
    assert not thread.is_alive()


def connected(server: br.remote.Server, **options: Any) -> br.remote.Worker:
    """A client of such a worker."""
    return br.remote.worker(server.address, TOKEN, **options)


def linear() -> tuple[br.Program, br.Var, br.Scope]:
    """`y = x @ w` with values."""
    with br.Program() as program:
        x = br.data("x", ["batch", 2])
        y = br.matmul(x, br.parameter("w", [2, 1], init=[[2.0], [3.0]]), name="y")
    return program, y, ready(program)


def drawing() -> tuple[br.Program, Sequence[br.Var], br.Scope]:
    """Numbers that each run draws anew."""
    with br.Program() as program:
        x = br.data("x", ["batch", 2])
        drawn = [br.dropout(x, 0.5), br.random.normal([3])]
    return program, drawn, ready(program, seed=7)


def training() -> tuple[br.Program, br.Var, br.Scope]:
    """A step of gradient descent with momentum."""
    with br.Program() as program:
        x, y = br.data("x", ["batch", 2]), br.data("y", ["batch", 1])
        loss = br.mean((br.fc(x, 1) - y) ** 2)
        br.optimizer.momentum(0.1).minimize(loss)
    return program, loss, ready(program, seed=3)


def ready(program: br.Program, seed: int = 0) -> br.Scope:
    """A scope in which a program can run."""
    scope = br.Scope()
    br.Executor().init(program, scope, seed)
    return scope


def batches(count: int) -> list[dict[str, Any]]:
    """Feeds of one to three rows, no two the same."""
    return [{"x": np.full((n % 3 + 1, 2), n, np.float32)} for n in range(count)]


def same(got: Any, wanted: Any) -> None:
    """Both are the same bits."""
    for ours, theirs in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
