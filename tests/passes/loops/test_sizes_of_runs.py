"""Decisions of passes by size use the sizes of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops
from braces.target import CPU

pytestmark = pytest.mark.unoptimized

HIDDEN, CLASSES = 4, 8


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braces.target.TARGETS", {"cpu": replace(CPU, stacked_bytes=2**12)})


def tagger() -> tuple[br.Program, Any]:
    with br.Program() as prog:
        xs = br.data("xs", ["t", "b", HIDDEN])
        w, u = br.parameter("w", [HIDDEN, HIDDEN]), br.parameter("u", [HIDDEN, CLASSES])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([xs.shape[1], HIDDEN]))
            h.update(br.tanh(net.add_input(xs) + h @ w))
            net.add_output(br.sum(br.softmax(h.pre(1) @ u), axis=-1))
    return prog, rnn()


def feed(trips: int, rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(trips)
    return {"xs": rng.normal(size=(trips, rows, HIDDEN)).astype("float32")}


def in_loops(body: Any) -> int:
    """Return the number of matrix products in loops."""
    return sum(op.type in ("matmul", "einsum") for path, op in all_ops(body) if path)


def plans(exe: br.Executor, prog: br.Program) -> list[Any]:
    return [plan.plan for plan in exe._plans.by_program[prog][1].values()]


@pytest.mark.usefixtures("little_room")
def test_a_large_run_has_a_separate_plan() -> None:
    prog, out = tagger()
    exe, scope = (
        br.Executor(passes=(br.passes.vectorize_before, br.passes.vectorize_after)),
        br.Scope(),
    )
    exe.init(prog, scope, seed=1)
    small, large = feed(2, 3), feed(20, 5)
    alone = exe.run(prog, scope, small, fetch=out)
    assert [in_loops(plan.body) for plan in plans(exe, prog)] == [1]
    wide = exe.run(prog, scope, large, fetch=out)
    assert [in_loops(plan.body) for plan in plans(exe, prog)] == [1, 2]
    plain = br.Executor(passes=())
    np.testing.assert_allclose(wide, plain.run(prog, scope, large, fetch=out), rtol=1e-5)
    np.testing.assert_array_equal(exe.run(prog, scope, small, fetch=out), alone)


@pytest.mark.usefixtures("little_room")
def test_runs_share_a_plan_where_their_sizes_decide_the_same() -> None:
    prog, out = tagger()
    exe, scope = (
        br.Executor(passes=(br.passes.vectorize_before, br.passes.vectorize_after)),
        br.Scope(),
    )
    exe.init(prog, scope, seed=1)
    for trips, rows in ((2, 3), (1, 1), (0, 3), (3, 2), (20, 5), (21, 5), (19, 5), (2, 3)):
        exe.run(prog, scope, feed(trips, rows), fetch=out)
    assert len(plans(exe, prog)) == 2


@pytest.mark.usefixtures("little_room")
def test_code_that_is_made_ahead_is_that_of_the_run() -> None:
    prog, out = tagger()
    exe, scope = (
        br.Executor(passes=(br.passes.vectorize_before, br.passes.vectorize_after)),
        br.Scope(),
    )
    exe.init(prog, scope, seed=1)
    exe.compile(prog, scope, feed(20, 5), fetch=out)
    made = [len(one.executables) for one in exe._plans.by_program[prog][1].values()]
    exe.run(prog, scope, feed(20, 5), fetch=out)
    assert (
        [len(one.executables) for one in exe._plans.by_program[prog][1].values()]
        == made
        == [0, 1]
    )


@pytest.mark.usefixtures("little_room")
def test_a_profile_is_of_the_plan_for_its_sizes() -> None:
    prog, out = tagger()
    exe, scope = (
        br.Executor(passes=(br.passes.vectorize_before, br.passes.vectorize_after)),
        br.Scope(),
    )
    exe.init(prog, scope, seed=1)
    for sizes, moved in (((2, 3), True), ((20, 5), False)):
        rows = exe.profile(prog, scope, feed(*sizes), out, runs=1).rows()
        assert ("" in {row.block for row in rows if "matmul" in row.type}) is moved


@pytest.mark.usefixtures("little_room")
def test_what_is_explained_for_sizes_is_what_they_decide() -> None:
    prog, out = tagger()
    passes = (br.passes.vectorize_before, br.passes.vectorize_after)
    small, large = (
        prog.explain(fetch=out, passes=passes, sizes={"t": t, "b": b})
        for t, b in ((2, 3), (20, 5))
    )
    assert in_loops(small.program.main) == 1
    assert in_loops(large.program.main) == 2
    assert "all iterations at once would take" in str(large)


def test_usual_sizes_are_planned_once() -> None:
    prog, out = tagger()
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=1)
    for trips, rows in ((2, 3), (40, 5), (7, 64)):
        exe.run(prog, scope, feed(trips, rows), fetch=out)
    assert len(plans(exe, prog)) == 1
