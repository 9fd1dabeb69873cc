"""Evaluation: the test behaviour of a program, which trains nothing and compiles once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
Y = np.arange(8, dtype="int32") % 3
FEED = {"x": X, "y": Y}


class Model:
    """A classifier with dropout, normalization, a metric, an optimizer and a counter."""

    def __init__(self, block: bool = False) -> None:
        with br.Program() as self.prog:
            x, y = br.data("x", ["batch", 4]), br.data("y", ["batch"], "int32")
            if block:
                with br.block("body"):
                    h = br.dropout(br.batch_norm(br.fc(x, 8, name="fc"), name="bn"), 0.5)
            else:
                h = br.dropout(br.batch_norm(br.fc(x, 8, name="fc"), name="bn"), 0.5)
            self.logits = br.fc(h, 3, name="out")
            self.loss = br.softmax_cross_entropy(self.logits, y)
            self.right = br.metrics.accuracy(self.logits, y)
            steps = br.state("steps", [], init=0.0)
            self.prog.update(steps, steps + 1.0)
            br.optimizer.adam(0.1).minimize(self.loss)

    def ready(self, exe: br.Executor) -> br.Scope:
        """A scope after one step of training."""
        scope = exe.init(self.prog, br.Scope(), seed=0)
        exe.run(self.prog, scope, FEED)
        return scope


def changed(scope: br.Scope, run: Callable[[], object]) -> set[str]:
    """The variables that something changes."""
    before = {name: scope[name] for name in scope.names()}
    run()
    return {n for n, value in before.items() if not np.array_equal(value, scope[n])}


@pytest.mark.parametrize("block", [False, True])
def test_evaluation_changes_nothing_but_metrics(block: bool, mode: str) -> None:
    model, exe = Model(block), br.Executor(mode)
    scope = model.ready(exe)
    moved = changed(scope, lambda: exe.evaluate(model.prog, scope, FEED, model.loss))
    assert moved == {"accuracy/total", "accuracy/count"}
    assert "fc.w" in {name.rpartition("/")[2] for name in changed(
        scope, lambda: exe.run(model.prog, scope, FEED, model.loss))}  # fmt: skip


def test_evaluation_is_a_run_of_the_test_program(mode: str) -> None:
    model, exe = Model(), br.Executor(mode)
    scope = model.ready(exe)
    want = exe.run(
        br.prune(model.prog.for_test(), [model.logits]), scope, {"x": X}, model.logits
    )
    for fetch in (model.logits, model.logits.name):
        got = exe.evaluate(model.prog, scope, {"x": X}, fetch)
        np.testing.assert_allclose(got, want, 1e-6, 1e-6)
    found = exe.evaluate(model.prog, scope, {"x": X}, {"a": model.logits})
    assert found.keys() == {"a"}


def test_metrics_count_where_their_data_are_fed(mode: str) -> None:
    model, exe = Model(), br.Executor(mode)
    scope = model.ready(exe)
    model.right.reset(scope)
    assert not changed(scope, lambda: exe.evaluate(model.prog, scope, {"x": X}, model.logits))
    for rows in (3, 8):
        fed = {"x": X[:rows], "y": Y[:rows]}
        logits, value = exe.evaluate(model.prog, scope, fed, [model.logits, model.right.value])
    assert scope["accuracy/count"] == 11
    assert logits.shape == (8, 3)
    assert 0 <= value <= 1


def test_draws_go_on_in_evaluation_and_can_be_seeded(mode: str) -> None:
    with br.Program() as prog:
        noise = br.random.normal([3])
        w = br.parameter("w", [3])
        br.optimizer.sgd(0.1).minimize(br.sum((w - noise) ** 2))
    exe = br.Executor(mode)
    scope = exe.init(prog, br.Scope())
    first, second = (exe.evaluate(prog, scope, fetch=noise) for _ in range(2))
    assert not np.array_equal(first, second)
    one, other = (exe.evaluate(prog, scope, fetch=noise, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_all_keywords_of_runs_are_taken() -> None:
    model, exe, seen = Model(), br.Executor("interpret"), list[str]()
    scope = model.ready(exe)
    exe.evaluate(
        model.prog,
        scope,
        FEED,
        model.loss,
        listeners=[lambda path, op, bound: seen.append(op.type)],
        keep_scopes=True,
        check_nan=True,
        timeout_s=60.0,
    )
    assert "matmul" in seen
    assert exe.step_scopes


# ---- compilations ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["evaluate", "for_test"])
def test_a_test_program_compiles_once(way: str, compiled: list[str]) -> None:
    model, exe = Model(), br.Executor()
    scope = model.ready(exe)

    def run() -> Any:
        if way == "evaluate":
            return exe.evaluate(model.prog, scope, FEED, model.loss)
        return exe.run(model.prog.for_test(), scope, FEED, model.loss)

    run()
    compiled.clear()
    for _ in range(3):
        run()
    assert not compiled
    with model.prog:
        more = br.sum(model.logits)
    assert np.isfinite(exe.evaluate(model.prog, scope, {"x": X}, more))


def test_what_is_built_on_a_test_program_is_in_no_other(mode: str) -> None:
    model, exe = Model(), br.Executor(mode)
    scope = model.ready(exe)
    one, other = model.prog.for_test(), model.prog.for_test()
    before = exe.run(other, scope, FEED, model.loss)
    with one:
        more = br.sum(one.var(model.logits.name))
    assert more.name in one.vars
    assert more.name not in other.vars
    assert more.name not in model.prog.for_test().vars
    assert np.isfinite(exe.run(one, scope, FEED, more))
    np.testing.assert_allclose(exe.run(other, scope, FEED, model.loss), before, 1e-6)


# ---- feeds and fetches -----------------------------------------------------------------------


def test_a_missing_label_leads_to_evaluation(mode: str) -> None:
    model, exe = Model(), br.Executor(mode)
    scope = model.ready(exe)
    with pytest.raises(br.FeedError, match=r"`y`.*") as caught:
        exe.run(model.prog, scope, {"x": X}, model.logits)
    assert "exe.evaluate(" in str(caught.value)
    for run in (exe.run, exe.evaluate):
        with pytest.raises(br.FeedError, match="`y`") as caught:
            run(model.prog, scope, {"x": X}, model.loss)
        assert "exe.evaluate(" not in str(caught.value)


def test_bad_input_is_refused(mode: str) -> None:
    model, exe = Model(), br.Executor(mode)
    scope = model.ready(exe)
    wrong: Any = 3
    for given, error in [
        ((wrong, scope, FEED), br.ProgramError),
        ((model.prog, wrong, FEED), br.ProgramError),
        ((model.prog, scope, wrong), br.FeedError),
        ((model.prog, scope, {"z": X}), br.FeedError),
        ((model.prog, scope, FEED, "nothing"), br.UnknownNameError),
        ((model.prog, br.Scope(), FEED, model.loss), br.UninitializedError),
    ]:
        with pytest.raises(error):
            exe.evaluate(*given)


def test_a_run_without_fetches_gives_what_the_program_gives(mode: str) -> None:
    model, exe = Model(), br.Executor(mode)
    scope = model.ready(exe)
    assert model.prog.fetches == (model.loss.name,)
    (loss,) = exe.evaluate(model.prog, scope, FEED)
    np.testing.assert_allclose(loss, exe.evaluate(model.prog, scope, FEED, model.loss))
    (trained,) = exe.run(model.prog, scope, FEED)
    assert np.isfinite(trained)
    assert exe.run(model.prog, scope, FEED, ()) == []
    prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x)  return y, x }")
    y, x = exe.run(prog, br.Scope(), {"x": [0.0, 1.0, 2.0]})
    np.testing.assert_allclose(y, np.tanh(x), 1e-6)


def test_several_devices_evaluate() -> None:
    model = Model()
    one = br.Executor()
    several = br.Executor(layout=br.Layout(br.Mesh({"data": 2}), {"batch": "data"}))
    found = []
    for exe in (one, several):
        scope = exe.init(model.prog, br.Scope(), seed=0)
        found.append(exe.evaluate(model.prog, scope, FEED, [model.loss, model.right.value]))
        assert scope["steps"] == 0
    np.testing.assert_allclose(*found, 1e-5)


# ---- fetches ---------------------------------------------------------------------------------


def test_declarations_are_fetched_and_metrics_name_their_variable(mode: str) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=br.init.ones())
        metric = br.metrics.mean(br.sum(w * br.data("x", ["n", 2])))
    exe, feed = br.Executor(mode=mode), {"x": np.ones((1, 2), "f4")}
    scope = exe.init(prog)
    assert exe.run(prog, scope, feed, fetch=prog.vars["w"]).tolist() == [1.0, 1.0]
    assert exe.run(prog, scope, feed, fetch=[prog.vars["w"]])[0].tolist() == [1.0, 1.0]
    with pytest.raises(br.ProgramError, match=r"`\.value`"):
        exe.run(prog, scope, feed, fetch=metric)
