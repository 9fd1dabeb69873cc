"""Failure codes of many checks in one block: the first failure, and the size of the code."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import braces as br

COUNTS = (3, 20)
"""Below and above the number of checks whose codes become a vector."""


def program(count: int) -> tuple[br.Program, br.Var]:
    """A sum of rows of one table, each read and checked by an operator of its own."""
    with br.Program() as prog:
        table, at = br.data("table", [5]), br.data("at", [count], dtype="int32")
        total = br.sum(table) * 0.0
        for place in range(count):
            total = total + br.take(table, at[place], name=f"read_{place}")
    return prog, total


def instructions(count: int) -> int:
    """Return the number of instructions of the compiled program, including fused ones."""
    prog, total = program(count)
    feeds = {"table": np.ones(5, "f4"), "at": np.zeros(count, "i4")}
    return jax.jit(prog.to_jax([total])).lower({}, feeds).compile().as_text().count(" = ")


def test_code_grows_linearly_with_the_number_of_checks() -> None:
    few, many = instructions(20), instructions(80)
    assert many < 5 * few


@pytest.mark.parametrize("count", COUNTS)
def test_the_first_of_several_failures_is_raised(count: int, mode: str) -> None:
    prog, total = program(count)
    at = np.zeros(count, "i4")
    at[[1, count - 1]] = 7, 9
    with pytest.raises(br.BracesError, match="7") as failure:
        br.Executor(mode=mode).run(prog, br.Scope(), {"table": np.ones(5), "at": at}, total)
    assert "read_1" in str(failure.value)


@pytest.mark.parametrize("count", COUNTS)
def test_the_last_check_fails_alone_and_a_good_run_gives_values(count: int, mode: str) -> None:
    prog, total = program(count)
    exe, feeds = br.Executor(mode=mode), {"table": np.arange(5.0), "at": np.full(count, 2)}
    assert exe.run(prog, br.Scope(), feeds, total) == 2.0 * count
    feeds["at"][-1] = -6
    with pytest.raises(br.BracesError, match="-6") as failure:
        exe.run(prog, br.Scope(), feeds, total)
    assert f"read_{count - 1}" in str(failure.value)


@pytest.mark.parametrize("count", COUNTS)
def test_a_loop_stops_after_the_first_iteration_with_a_failure(count: int, mode: str) -> None:
    with br.Program() as prog:
        table, bad = br.data("table", [5]), br.data("bad", [], dtype="int32")
        loop = br.create_while(max_trips=50)
        with loop.block() as body:
            trip = body.add_memory(init=br.constant(0, dtype="int32"))
            total = body.add_memory(init=br.constant(0.0))
            body.set_condition(trip < 10)
            added = total.pre(1)
            for place in range(count):
                at = br.where(trip.pre(1) == bad, place + 5, 0)
                added = added + br.take(table, at, name=f"read_{place}")
            total.update(added)
            trip.update(trip.pre(1) + 1)
        result = loop.final(total)
    exe, scope = br.Executor(mode=mode), br.Scope()
    feeds = {"table": np.ones(5, "f4"), "bad": -1}
    assert exe.run(prog, scope, feeds, result) == 10.0 * count
    with pytest.raises(br.BracesError, match="5") as failure:
        exe.run(prog, scope, {**feeds, "bad": 4}, result)
    assert "read_0" in str(failure.value)


@pytest.mark.parametrize("count", COUNTS)
def test_a_failed_run_with_many_checks_commits_nothing(count: int, mode: str) -> None:
    prog, total = program(count)
    with prog:
        weight = br.parameter("w", [], init=br.init.ones())
        br.optimizer.sgd(0.5).minimize(weight * total)
    exe, at = br.Executor(mode=mode), np.zeros(count, "i4")
    scope = exe.init(prog)
    at[count // 2] = 5
    with pytest.raises(br.BracesError):
        exe.run(prog, scope, {"table": np.ones(5), "at": at}, total)
    assert scope.find_var("w").value == 1.0
