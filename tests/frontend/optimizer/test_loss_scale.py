"""Loss scaling for float16: the rule of the paper; without overflow, equal to no scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError
from tests.frontend.optimizer.steps import BATCHES, FIRST, assert_same, fit, train
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

opt = br.optimizer


def by_hand(bad: Sequence[bool], first: float, interval: int) -> list[tuple[float, int]]:
    """Scale and good steps after each run, by the rule of the paper."""
    scale, good, found = first, 0, list[tuple[float, int]]()
    for is_bad in bad:
        good = 0 if is_bad else good + 1
        scale *= 0.5 if is_bad else 2.0 if good == interval else 1.0
        good %= interval
        found.append((scale, good))
    return found


@pytest.mark.parametrize("mode", ["interpret", thorough("compile")])
def test_where_all_fits_the_steps_are_those_without(mode: str) -> None:
    scaled = train(fit(opt.dynamic_loss_scale(opt.adam(0.1), growth_interval=2)), mode)
    plain = train(fit(opt.adam(0.1)), mode)
    assert_same(scaled, plain, 1e-12)
    steps = [(float(a["loss_scale/scale"]), int(a["loss_scale/good_steps"])) for a in scaled]
    assert steps == by_hand([False] * 7, 2.0**15, 2)


@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_a_bad_step_moves_nothing_and_halves_the_scale(mode: str) -> None:
    hole = np.full((4, 3), np.nan), BATCHES[0][1]
    batches = [*BATCHES[:2], hole, hole, *BATCHES[2:5]]
    course = opt.linear_schedule(0.125, 0.0, 8)
    made = opt.dynamic_loss_scale(opt.adam(course), 8.0, 2)
    found = train(fit(made), mode, batches)
    assert_same(found[2:4], [{n: found[1][n] for n in (*FIRST, "adam/count", "adam/mu/w")}] * 2)
    bad = [False, False, True, True, False, False, False]
    steps = [(float(a["loss_scale/scale"]), int(a["loss_scale/good_steps"])) for a in found]
    assert steps == by_hand(bad, 8.0, 2)
    good = train(fit(opt.adam(course)), mode, [b for b in batches if b is not hole])
    assert_same(found[-1:], [{n: good[-1][n] for n in (*FIRST, "adam/count")}], 1e-12)


def tiny(made: Any) -> tuple[br.Program, br.Var]:
    """A loss whose gradients by a product are too small for float16."""
    with br.Program() as prog:
        x = br.data("x", [2, 2])
        w = br.parameter("w", [2, 2], init=1.0)
        pairs = made.minimize(br.sum(br.tanh(x @ w)) * 1e-9)
    return prog, pairs[prog.var("w")]


@pytest.mark.parametrize("mode", ["compile"])
def test_small_gradients_reach_the_parameters_in_float16(mode: str) -> None:
    half = br.passes.mixed_precision("float16")
    feed, found = {"x": np.full((2, 2), 0.125, "f4")}, dict[str, Any]()
    scaled = opt.dynamic_loss_scale(opt.sgd(1e6))
    for name, made in {"scaled": scaled, "plain": opt.sgd(1e6)}.items():
        prog, grad = tiny(made)
        exe, scope = br.Executor(mode=mode, passes=(*br.passes.default, half)), br.Scope()
        exe.init(prog, scope)
        found[name] = exe.run(prog, scope, feed, grad)
        assert np.all(np.isfinite(scope.var("w").value))
    true = 2 * 0.125 * 1e-9 / np.cosh(0.25) ** 2
    np.testing.assert_allclose(found["scaled"], true, 2e-3)
    np.testing.assert_array_equal(found["plain"], 0.0)


def test_a_scale_that_is_too_large_falls_until_gradients_fit() -> None:
    half = br.passes.mixed_precision("float16")
    prog, _ = tiny(opt.dynamic_loss_scale(opt.sgd(1e3), 2.0**50))
    exe, scope = br.Executor(passes=(*br.passes.default, half)), br.Scope()
    exe.init(prog, scope)
    moved = list[bool]()
    for _ in range(8):
        before = scope.var("w").value
        exe.run(prog, scope, {"x": np.full((2, 2), 0.125, "f4")})
        moved.append(bool(np.any(scope.var("w").value != before)))
    assert moved == sorted(moved)
    assert not moved[0]
    assert moved[-1]
    assert scope.var("sgd/total_notfinite").value == moved.count(False)


# ---- what is refused -------------------------------------------------------------------------


def test_what_cannot_be_scaled_is_refused() -> None:
    def scaled() -> Any:
        return opt.dynamic_loss_scale(opt.adam())

    def applied() -> None:
        with br.Program():
            w = br.parameter("w", [2])
            scaled().apply_gradients({w: w * 1.0})

    cases: list[tuple[str, Callable[[], Any]]] = [
        (
            "chain does not support an optimizer with loss scaling",
            lambda: opt.chain(opt.clip_by_value(1.0), scaled()),
        ),
        (
            "multi_steps does not support an optimizer with loss",
            lambda: opt.multi_steps(scaled(), 2),
        ),
        (
            "dynamic_loss_scale does not support an optimizer with loss",
            lambda: opt.dynamic_loss_scale(scaled()),
        ),
        (
            "partition does not support an optimizer with loss",
            lambda: opt.partition({1: scaled()}, lambda p: 1),
        ),
        ("apply_gradients does not support an optimizer with loss", applied),
        ("growth_interval=0", lambda: opt.dynamic_loss_scale(opt.adam(), growth_interval=0)),
        (
            "dynamic_loss_scale: expected an optimizer, got 0.1",
            lambda: opt.dynamic_loss_scale(*[0.1]),
        ),
    ]
    for text, build in cases:
        with pytest.raises(ProgramError, match=text) as info:
            build()
        assert "test_loss_scale.py:" in str(info.value)
