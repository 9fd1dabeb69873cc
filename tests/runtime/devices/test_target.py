"""Choices that depend on the machine are made during lowering, and change no result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.lower.checks.check_codes import STOP_CHECK, start_state
from braces.lower.xla.block_lowering import Lowerer
from braces.lower.xla.concrete_attributes import Sizes
from braces.runtime.plan.plan import Plan
from braces.target import CPU, OTHER, TARGETS, target_of

pytestmark = pytest.mark.unoptimized

ROWS, FEATURES = 40, 32


CHANGES: list[dict[str, Any]] = [
    {},
    {"shares": OTHER.shares, "little": 0},
    {"little": 0},
    {"little": 10**6},
]
"""The alternative values of a target."""


def branching() -> tuple[br.Program, br.Var, list[br.Var | None]]:
    """A row-wise branch with a product, and its gradient."""
    with br.Program() as prog:
        x = br.data("x", ["b", FEATURES])
        branch = br.create_if_else(br.data("mask", ["b"], dtype="bool"))
        w = br.data("w", [FEATURES, FEATURES])
        with branch.true_block() as yes:
            yes.add_output(br.tanh(yes.add_input(x) @ w))
        with branch.false_block() as no:
            no.add_output(no.add_input(x) * 0.5)
        out = branch()
        return prog, out, br.gradients([br.sum(br.square(out))], [x, w])


def code(platform: str) -> str:
    """What XLA is given for the branch on a platform that need not be here."""
    prog, out, _ = branching()
    plan = Plan.of(prog.definition, [out.name])
    lowerer = Lowerer(Sizes(b=ROWS), plan.sites, target=target_of(platform))

    def function(x: Any, mask: Any, w: Any) -> Any:
        env = {"x": x, "mask": mask, "w": w}
        lowerer.run(plan.body, env, "", start_state([*plan.sites, STOP_CHECK]))
        return env[out.name]

    x, w = np.ones((ROWS, FEATURES), "f4"), np.ones((FEATURES, FEATURES), "f4")
    arrays = x, np.ones(ROWS, bool), w
    with jax.enable_x64(True):
        traced = jax.jit(function).trace(*arrays)
        return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_a_row_wise_branch_has_as_many_copies_as_its_target_wants(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_of(platform)
    copies = len(target.shares) + 2  # all but one, and all
    assert code(platform).count("stablehlo.while") == copies + 1  # one case has little to do
    monkeypatch.setitem(TARGETS, platform, replace(target, little=0))
    assert code(platform).count("stablehlo.while") == 2 * copies
    monkeypatch.setitem(TARGETS, platform, replace(target, little=10**6))
    assert code(platform).count("stablehlo.while") == 2


def test_every_target_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    prog, out, slopes = branching()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype("f4")
    w = (rng.normal(size=(FEATURES, FEATURES)) / FEATURES).astype("f4")
    executors = [br.Executor(mode="interpret")]
    for changes in CHANGES:
        monkeypatch.setitem(TARGETS, "cpu", replace(CPU, **changes))
        executors.append(br.Executor())
        feed = {"x": x, "w": w, "mask": np.ones(ROWS, bool)}
        executors[-1].run(prog, br.Scope(), feed=feed, fetch=[out, *slopes])
    for chosen in (0, 1, 3, 10, 11, 39, 40):
        feed = {"x": x, "w": w, "mask": rng.permutation(ROWS) < chosen}
        first, *others = (
            exe.run(prog, br.Scope(), feed=feed, fetch=[out, *slopes]) for exe in executors
        )
        for other in others:
            for one, two in zip(first, other, strict=True):
                np.testing.assert_allclose(one, two, rtol=2e-5, atol=1e-6)
