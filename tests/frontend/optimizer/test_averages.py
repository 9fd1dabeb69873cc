"""Averages of parameters, and programs that read them, or other values, in their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest

import braces as br
from braces.errors import BracesError
from tests.frontend.optimizer.steps import BATCHES, FIRST, assert_same, train
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

opt = br.optimizer


def averaged(**options: Any) -> tuple[br.Program, dict[br.Var, br.Var]]:
    """A program that fits a line, and averages what it does."""
    with br.Program() as prog:
        x, y = br.data("x", ["rows", 3], "float64"), br.data("y", ["rows", 2], "float64")
        w, b = (br.parameter(n, v.shape, init=v, dtype="float64") for n, v in FIRST.items())
        guess = br.add(x @ w, b, name="guess")
        pairs = opt.adam(0.1).minimize(br.mean(br.square(guess - y), name="loss"))
        averages = opt.ema(pairs, **options)
    return prog, averages


@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_averages_are_those_of_optax(mode: str) -> None:
    for debias in (True, False):
        prog, averages = averaged(decay=0.75, debias=debias)
        assert {p.name: a.name for p, a in averages.items()} == {"w": "ema/w", "b": "ema/b"}
        found = train(prog, mode)
        tx = optax.ema(0.75, debias)
        state: Any = tx.init(FIRST) if debias else optax.EmaState(count=0, ema=FIRST)
        for after in found:
            wanted: Any
            wanted, state = tx.update({name: after[name] for name in FIRST}, state)
            assert_same([{n: after[f"ema/{n}"] for n in FIRST}], [wanted], 1e-6)
        assert found[-1]["ema/count"] == len(BATCHES)


def test_without_a_decay_it_is_the_mean() -> None:
    found = train(averaged(decay=None, name="mean")[0])
    mean = np.mean([after["w"] for after in found], 0)
    np.testing.assert_allclose(found[-1]["mean/w"], mean, 1e-12)


def test_a_saved_model_has_the_averages(mode: str, tmp_path: Path) -> None:
    prog, averages = averaged(decay=0.5)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    for x, y in BATCHES[:3]:
        exe.run(prog, scope, {"x": x, "y": y})
    feed = {"x": BATCHES[3][0]}
    wanted = feed["x"] @ scope.var("ema/w").value + scope.var("ema/b").value
    for values in (averages, {"w": "ema/w", "b": averages[prog.var("b")]}, "ema"):
        test = prog.for_test(values=values)
        np.testing.assert_allclose(exe.run(test, scope, feed, "guess"), wanted, 1e-12)
        assert not test.updates
    small = br.prune(prog.for_test(values="ema"), "guess")
    assert {info.name for info in small.persistables} == {"ema/w", "ema/b"}
    path = tmp_path / "line.braces"
    br.save_model(path, prog.for_test(values=averages), scope, ["x"], "guess")
    np.testing.assert_allclose(br.load_model(path, mode=mode).run(feed), wanted, 1e-12)


# ---- values in the place of parameters -------------------------------------------------------


def test_a_value_may_be_computed_of_the_parameter_itself(mode: str) -> None:
    """Of schedule-free steps: what is tested is not what moves."""
    with br.Program() as prog:
        w = br.parameter("w", [2], init=[1.0, -2.0], dtype="float64")
        loss = br.sum(br.square(w))
        made = opt.schedule_free(opt.adam(0.1, b1=0.0), b1=0.75)
        made.minimize(loss)
        inner = br.exp(w)
        with br.block("tested"):
            x = (w - 0.25 * prog.var("adam/z/w")) / 0.75
        test = prog.for_test(values={w: x})
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    for _ in range(3):
        exe.run(prog, scope)
    moved, z = scope.var("w").value, scope.var("adam/z/w").value
    wanted = (moved - 0.25 * z) / 0.75
    found = exe.run(test, scope, {}, [loss, inner, x])
    for got, want in zip(found, (np.sum(wanted**2), np.exp(wanted), wanted), strict=True):
        np.testing.assert_allclose(got, want, 1e-12)


def test_values_are_read_in_loops_and_branches(mode: str) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=[1.0, 2.0])
        other = br.parameter("other", [2], init=[3.0, 5.0])
        rnn = br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            memory = net.add_memory(init=br.constant([0.0, 0.0]))
            memory.update(memory + w)
            net.add_output(memory.pre(1) + w)
        y = rnn()
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    found = exe.run(prog.for_test(values={w: other}), scope, {}, y)
    np.testing.assert_array_equal(found, np.outer([1.0, 2.0, 3.0], [3.0, 5.0]))


# ---- what is refused -------------------------------------------------------------------------


def test_what_has_no_average_is_refused() -> None:
    prog, averages = averaged()
    w, b = averages
    with prog:
        fed = br.cast(br.sum(prog.var("x")), "int32")
    with br.Program():
        alone = br.parameter("w", [2])
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("0 <= decay < 1, got 1.0", lambda: opt.ema([w], decay=1.0)),
        ("has no update to average", lambda: opt.ema([alone])),
        ("ema: expected parameters, got", lambda: opt.ema(["w"])),
        ("variables `ema/…` exist already", lambda: opt.ema([w], name="ema")),
        ("between `w` and its replacement", lambda: prog.for_test(values={w: b})),
        ("depends on the data `x`", lambda: prog.for_test(values={"adam/count": fed})),
        ("`loss` is not a parameter or state", lambda: prog.for_test(values={"loss": w})),
        ("unknown variable `v`", lambda: prog.for_test(values={"v": w})),
        ("the prefix `mean/`", lambda: prog.for_test(values="mean")),
    ]
    before = str(prog)
    for text, build in cases:
        with pytest.raises(BracesError, match=text):
            build()
    assert str(prog) == before
