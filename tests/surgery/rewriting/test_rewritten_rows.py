"""Random draws that a rewriting inserts in row-wise branches; startup programs of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.rewriting import rewrite

LENGTHS = np.array([1, 4, 3, 2, 4], "int32")
FEED = {"x": np.full((5, 4, 64), 0.5, "f"), "lengths": LENGTHS}


def drop(x: Any) -> Any:
    return br.dropout(br.tanh(x), 0.5)


def flip(x: Any) -> Any:
    return br.flip(x, axis=0)


def steps(deep: bool) -> br.Program:
    """An RNN with lengths; a deep one has the activation in a row-wise branch of the step."""
    with br.Program() as prog:
        x, lengths = br.data("x", ["b", "t", 64]), br.data("lengths", ["b"], "int32")
        rnn = br.create_rnn(lengths=lengths)
        with rnn.stepnet() as step:
            row, h = step.add_input(x, axis=1), step.add_memory(shape=[64], batch_like=x)
            if deep:
                branch = br.create_if_else(br.mean(row, axis=-1) > 0.0)
                with branch.true_block() as case:
                    case.add_output(br.tanh(case.add_input(row), name="act"))
                with branch.false_block() as case:
                    case.add_output(br.sin(case.add_input(row)))
                h.update(branch() + 0.5 * h.pre(1))
            else:
                h.update(br.tanh(row, name="act") + 0.5 * h.pre(1))
        last = rnn.final(h)
        prog.give(br.mean(br.fc(last, 2, name="out") ** 2, name="loss").name)
    return prog


@pytest.mark.parametrize("deep", [False, True])
def test_rows_and_iterations_draw_apart_and_modes_agree(deep: bool) -> None:
    dropped = steps(deep).rewrite(br.tanh, drop)
    (path,) = dropped.report.paths
    assert path.endswith("/act")
    found = {}
    for mode in ("interpret", "compile"):
        exe = br.Executor(mode=mode)
        scope = exe.init(dropped, br.Scope(), seed=0)
        found[mode] = exe.run(dropped, scope, FEED, ["loss", path], seed=3)
    np.testing.assert_allclose(found["compile"][0], found["interpret"][0], rtol=1e-5)
    act = np.array(found["compile"][1])
    ran = np.arange(4)[:, None] < LENGTHS[None]
    zeros = [tuple(draw == 0.0) for draw in act[ran]]
    assert all(8 < sum(draw) < 56 for draw in zeros)
    assert len(set(zeros)) == len(zeros)


@pytest.mark.parametrize("deep", [False, True])
def test_a_row_draws_the_same_whichever_others_run(deep: bool, mode: str) -> None:
    dropped = steps(deep).rewrite(br.tanh, drop)
    exe = br.Executor(mode=mode)
    scope = exe.init(dropped, br.Scope(), seed=0)
    (path,) = dropped.report.paths
    shorter = {**FEED, "lengths": np.array([1, 1, 3, 1, 4], "int32")}
    long, short = (exe.run(dropped, scope, feed, path, seed=3) for feed in (FEED, shorter))
    np.testing.assert_array_equal(long[:, [2, 4]], short[:, [2, 4]])


def test_gradients_of_inserted_draws_follow_the_kept_values(mode: str) -> None:
    dropped = steps(True).rewrite(br.tanh, drop)
    with dropped:
        br.optimizer.sgd(1e-3).minimize(dropped.var("loss"))
    exe = br.Executor(mode=mode)
    scope = exe.init(dropped, br.Scope(), seed=0)
    losses = [float(exe.run(dropped, scope, FEED, "loss", seed=3)) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1]


def test_a_replacement_that_mixes_rows_is_refused_by_name() -> None:
    with pytest.raises(br.BracesError, match="mixes batch elements") as caught:
        steps(False).rewrite(br.tanh, flip)
    assert "pattern" in str(caught.value) or "`tanh`" in str(caught.value)


CHANGES = {
    "rewrite": lambda p: p.rewrite(br.tanh, br.relu),
    "edit": lambda p: p.rename({"out.b": "bias"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_program_and_its_original_are_trained_apart(change: str) -> None:
    prog = steps(False)
    new = CHANGES[change](prog)
    for one in (prog, new):
        with one:
            br.optimizer.sgd(0.1).minimize(one.var("loss"))
        exe, scope = br.Executor(), br.Scope()
        exe.init(one, scope, seed=0)
        exe.run(one, scope, FEED, "loss")
        assert "sgd/learning_rate" in scope.names()


@pytest.mark.parametrize("deep", [False, True])
def test_a_pass_draws_as_the_same_rule_of_a_rewriting(deep: bool, mode: str) -> None:
    def rule(op: Any, place: Any) -> Any:
        if op.type != "tanh":
            return op
        with place.building():
            dropped = drop(place.var(op.inputs["x"][0]))
        return {op.outputs["out"][0]: dropped.name}

    prog = steps(deep)
    with prog:
        prog.give(br.dropout(prog.var("x"), 0.1, name="own").name)
    mine = br.passes.Pass("mine", lambda definition: rewrite(definition, rule))
    results = list[Any]()
    for one, passes in ((prog.rewrite(rule), ()), (mine(prog), ()), (prog, (mine,))):
        exe = br.Executor(mode=mode, passes=passes)
        scope = exe.init(one, br.Scope(), seed=0)
        results.append(exe.run(one, scope, FEED, "loss", seed=3))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])
