"""Threads that share a scope: runs that update take turns, and none sees memory in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import braces as br

RUNS, TRAINERS = 60, 4


def training() -> tuple[br.Program, br.Program, br.Var, br.Var]:
    """A program that counts its runs in two variables, and one that only looks."""
    with br.Program() as train:
        runs = br.state("runs", [], init=0.0)
        w = br.parameter("w", [64, 64], init=br.init.zeros())
        train.update("runs", (runs + 1.0).name)
        train.update("w", (w + 1.0).name)
        total = br.sum(w)
    with br.Program() as look:
        seen = br.parameter("w", [64, 64])
        spread = br.max(seen) - br.min(seen)
    return train, look, total, spread


def in_threads(jobs: list[Callable[[], object]]) -> list[BaseException]:
    """Do each job `RUNS` times in a thread of its own; what was raised."""
    raised: list[BaseException] = []

    def work(job: Callable[[], object]) -> None:
        for _ in range(RUNS):
            try:
                job()
            except BaseException as error:
                raised.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.parametrize("children", [False, True])
def test_threads_that_train_in_one_scope_lose_no_update(mode: str, children: bool) -> None:
    train, look, total, spread = training()
    exe, scope = br.Executor(mode), br.Scope()
    exe.init(train, scope)
    scopes = [scope.new_scope() if children else scope for _ in range(TRAINERS)]

    def watch() -> None:
        assert exe.run(look, scope, fetch=spread) == 0.0
        assert np.ptp(scope.var("w").value) == 0.0
        assert np.ptp(exe.run(look, scope, fetch="w")) == 0.0

    trainers = [lambda s=s: exe.run(train, s, fetch=total) for s in scopes]
    assert in_threads([*trainers, watch, watch]) == []
    assert scope.var("runs").value == RUNS * TRAINERS
    assert np.all(scope.var("w").value == RUNS * TRAINERS)


def test_runs_that_are_waited_for_later_are_those_in_turn(mode: str) -> None:
    with br.Program() as prog:
        table = br.parameter("table", [4], init=br.init.zeros())
        rows = br.take(table, br.data("at", [2], "i64"))  # which may fail
        prog.update("table", (table + 1.0).name)
    exe, scope = br.Executor(mode), br.Scope()
    exe.init(prog, scope)
    places = [[0, 1], [2, 3], [0, 4], [3, 3]]
    with ThreadPoolExecutor(1) as pool:
        runs = [pool.submit(exe.run, prog, scope, {"at": at}, [rows]) for at in places]
    first, second, wrong, last = runs
    assert [one.result()[0].tolist() for one in (first, second, last)] == [
        [0, 0],
        [1, 1],
        [2, 2],
    ]
    assert isinstance(wrong.exception(), br.IndexRangeError)
    assert scope.var("table").value.tolist() == [3.0] * 4


def test_a_run_in_another_thread_leaves_this_one_to_go_on() -> None:
    with br.Program() as prog:
        loop = br.create_while()
        with loop.block() as body:
            x = body.add_memory(init=br.constant(0.0))
            body.set_condition(x >= 0.0)
            x.update(br.abs(br.sin(x + 1.0)))
        out = loop.final(x)
    exe, scope = br.Executor(), br.Scope()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(exe.run, prog, scope, fetch=out, timeout_s=1.0)
        passed = 0
        while not run.done():
            time.sleep(0.01)
            passed += 1
        with pytest.raises(br.RunError, match=r"timeout_s=1\.0"):
            run.result()
    assert passed > 10


def test_a_listener_may_run_in_the_same_scope() -> None:
    train, look, _, spread = training()
    exe, scope = br.Executor("interpret"), br.Scope()
    exe.init(train, scope)
    inner = br.Executor("interpret")
    found: list[float] = []

    def listen(*_: object) -> None:
        found.append(float(inner.run(look, scope, fetch=spread)))

    exe.run(train, scope, listeners=[listen])
    assert set(found) == {0.0}


def test_waiting_for_another_thread_counts_as_time(mode: str) -> None:
    train, _, total, _ = training()
    exe, scope = br.Executor(mode), br.Scope()
    exe.init(train, scope)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with scope.turn:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        with pytest.raises(br.RunError, match=r"timeout_s=0\.1"):
            exe.run(train, scope, fetch=total, timeout_s=0.1)
    finally:
        done.set()
        thread.join()
    assert scope.var("runs").value == 0.0
