"""Next values are chosen where they are made, and a failed run keeps none of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.lower.xla.commit import find_early_updates
from braces.runtime.plan.plan import Plan


def places_of(prog: br.Program, *fetches: str) -> dict[str, dict[str, str]]:
    plan = Plan.of(prog.definition, fetches)
    found = find_early_updates(plan.body, plan.updates, list(plan.sites))
    return {path: dict(names) for path, names in found.items()}


def trained(step: Any) -> tuple[br.Program, br.Var]:
    """A table that is looked up, which may fail, and a layer; 6 parameters."""
    with br.Program() as prog:
        ids, labels = (br.data(name, ["rows"], dtype="int32") for name in ("ids", "labels"))
        h = br.fc(br.embedding(ids, [40, 24], name="table"), 56, act="tanh", name="in")
        logits = br.fc(h, 48, act="tanh", name="middle") @ br.parameter("out", [48, 8])
        loss = br.softmax_cross_entropy(logits, labels)
        step.minimize(loss)
    return prog, loss


FEED = {"ids": np.array([1, 5, 39], "int32"), "labels": np.array([0, 7, 3], "int32")}


def test_adam_is_committed_where_its_values_are_made() -> None:
    prog, loss = trained(br.optimizer.adam(1e-2))
    committed = [
        name for names in places_of(prog, loss.name).values() for name in names.values()
    ]
    assert sorted(committed) == sorted(prog.updates)


def test_a_training_step_copies_no_more_than_one_that_cannot_fail() -> None:
    """XLA copies what it must read once more after it wrote over it."""
    prog, loss = trained(br.optimizer.adam(1e-2))
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    exe.run(prog, scope, feed=FEED, fetch=loss)
    plans = exe._plans.by_program[prog][1].values()
    (made,) = [one for plan in plans for one in plan.executables.values()]
    copied = [line for line in made.code.as_text().splitlines() if " copy(" in line]
    moments = 2 * len(prog.parameters)
    assert len(copied) < moments, copied


@pytest.mark.parametrize("wrong", [{"ids": 40}, {"labels": 8}])
@pytest.mark.parametrize("optimizer", ["adam", "momentum", "amsgrad", "sgd"])
@pytest.mark.unoptimized
def test_a_failed_step_keeps_all_that_there_was(
    mode: str, optimizer: str, wrong: dict[str, int]
) -> None:
    prog, loss = trained(getattr(br.optimizer, optimizer)(1e-2))
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    exe.run(prog, scope, feed=FEED, fetch=loss)
    before = {name: scope.var(name).value for name in scope.names()}
    bad = {n: np.array([1, 2, wrong.get(n, 3)], "int32") for n in FEED}
    with pytest.raises(br.IndexRangeError):
        exe.run(prog, scope, feed=bad, fetch=loss)
    for name, value in before.items():
        np.testing.assert_array_equal(scope.var(name).value, value, err_msg=name)
    exe.run(prog, scope, feed=FEED, fetch=loss)
    assert any((scope.var(name).value != value).any() for name, value in before.items())


def test_what_is_made_before_a_failure_is_chosen_at_the_end(mode: str) -> None:
    with br.Program() as prog:
        i, x = br.data("i", [], dtype="int32"), br.data("x", [4])
        early, late = br.state("early", [], init=1.0), br.state("late", [], init=1.0)
        prog.update("early", (early * 2.0).name)
        picked = br.take(x, i, axis=0)
        prog.update("late", (late * 3.0).name)
    chosen = places_of(prog, picked.name).values()
    assert [name for names in chosen for name in names.values()] == ["late"]
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    feed = {"x": np.arange(4, dtype="float32")}
    with pytest.raises(br.IndexRangeError):
        exe.run(prog, scope, feed={**feed, "i": 7}, fetch=picked)
    assert [float(scope.var(n).value) for n in ("early", "late")] == [1.0, 1.0]
    assert float(exe.run(prog, scope, feed={**feed, "i": 3}, fetch=picked)) == 3.0
    assert [float(scope.var(n).value) for n in ("early", "late")] == [2.0, 3.0]


def test_one_value_for_two_names_is_chosen_for_each(mode: str) -> None:
    """Also where a block gives it out under two names."""
    with br.Program() as prog:
        i, x = br.data("i", [], dtype="int32"), br.data("x", [4])
        a, b = br.state("a", [], init=1.0), br.state("b", [], init=2.0)
        c, d = br.state("c", [], init=3.0), br.state("d", [], init=4.0)
        picked = br.take(x, i, axis=0)
        both = a + b
        prog.update("a", both.name)
        prog.update("b", both.name)
        prog.update("c", "d")
        with br.block("step"):
            inside = c * d
        prog.update("d", inside.name)
    chosen = places_of(prog, picked.name)
    assert [(path.split("/")[0], set(n.values())) for path, n in chosen.items()] == [
        ("step", {"d"})
    ]
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    feed = {"x": np.arange(4, dtype="float32")}
    with pytest.raises(br.IndexRangeError):
        exe.run(prog, scope, feed={**feed, "i": 7}, fetch=picked)
    assert [float(scope.var(n).value) for n in "abcd"] == [1.0, 2.0, 3.0, 4.0]
    exe.run(prog, scope, feed={**feed, "i": 1}, fetch=picked)
    assert [float(scope.var(n).value) for n in "abcd"] == [3.0, 3.0, 4.0, 12.0]


def test_lists_and_loops_may_still_tell_something() -> None:
    """What is made before them is chosen when they have told it."""
    with br.Program() as prog:
        n = br.data("n", [], dtype="int64")
        w = br.parameter("w", [2], init=np.full(2, 0.9))
        early = br.state("early", [], init=0.0)
        prog.update("early", (early + 1.0).name)
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0))
            v = body.add_memory(init=br.constant([1.0, 2.0]))
            body.set_condition(i < n)
            v.update(v * w)
            i.update(i + 1)
        br.optimizer.adam(0.1).minimize(br.sum(loop.final(v)))
    chosen = {name for names in places_of(prog).values() for name in names.values()}
    assert "early" not in chosen
    assert {"w"} < chosen
