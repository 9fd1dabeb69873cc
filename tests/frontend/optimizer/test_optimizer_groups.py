"""Groups of parameters: an optimizer for each, in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest

import braces as br
from braces.errors import BracesError
from tests.frontend.optimizer.steps import BATCHES, FIRST, assert_same, by_optax, fit, train
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

opt = br.optimizer
LABELS = {"w": "matrix", "b": "bias"}


def label(param: br.Var) -> str:
    return LABELS[param.name]


def both(matrix: Any, bias: Any) -> Any:
    return opt.partition({"matrix": matrix, "bias": bias}, label)


def theirs(matrix: Any, bias: Any) -> Any:
    return optax.partition({"matrix": matrix, "bias": bias}, LABELS)


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "two": (
        lambda: both(opt.adamw(0.1), opt.sgd(opt.linear_schedule(0.125, 0.0, 4))),
        lambda: theirs(optax.adamw(0.1), optax.sgd(optax.linear_schedule(0.125, 0.0, 4))),
    ),
    "after clipping all": (
        lambda: opt.chain(opt.clip_by_global_norm(0.5), both(opt.adam(0.1), opt.adam(0.2))),
        lambda: optax.chain(
            optax.clip_by_global_norm(0.5), theirs(optax.adam(0.1), optax.adam(0.2))
        ),
    ),
    "chains, of which one waits": (
        lambda: both(
            opt.chain(opt.clip_by_global_norm(0.5), opt.momentum(0.1)),
            opt.multi_steps(opt.adam(0.1), 2),
        ),
        lambda: theirs(
            optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1, 0.9)),
            optax.MultiSteps(
                optax.adam(0.1), 2, accumulator_dtype="float64"
            ).gradient_transformation(),
        ),
    ),
    "wrapped": (
        lambda: opt.multi_steps(
            both(opt.adam(opt.linear_schedule(0.5, 0, 4)), opt.sgd(0.1)), 2
        ),
        lambda: optax.MultiSteps(
            theirs(optax.adam(optax.linear_schedule(0.5, 0, 4)), optax.sgd(0.1)),
            2,
            accumulator_dtype="float64",
        ).gradient_transformation(),
    ),
}


@pytest.mark.parametrize(
    "name", ["wrapped", *(thorough(name) for name in PAIRS if name != "wrapped")]
)
def test_steps_are_those_of_optax(name: str, mode: str) -> None:
    ours, made = PAIRS[name]
    assert_same(train(fit(ours()), mode), by_optax(made))


def test_what_groups_keep_is_called_by_their_labels() -> None:
    prog = fit(both(opt.adam(0.1), opt.multi_steps(opt.momentum(0.1, name="slow"), 2)))
    kept = {info.name for info in prog.persistables} - set(FIRST)
    matrix = {f"matrix/{name}" for name in ("learning_rate", "count", "mu/w", "nu/w")}
    slow = {"learning_rate", "trace/b", "mini_step", "gradient_step", "acc_grads/b"}
    assert kept == matrix | {f"slow/{name}" for name in slow}
    twice = fit(opt.partition({1: opt.sgd(0.1), 2: opt.sgd(0.2)}, lambda p: p.ndim))
    assert {"sgd/learning_rate", "sgd_1/learning_rate"} <= set(twice.vars)


def test_a_group_without_an_optimizer_stays(mode: str) -> None:
    prog = fit(opt.chain(opt.clip_by_global_norm(0.5), both(opt.sgd(0.1), None)))
    assert set(prog.updates) == {"w"}
    after = train(prog, mode, BATCHES[:2])[-1]
    np.testing.assert_array_equal(after["b"], FIRST["b"])
    made = opt.partition(
        {"all": opt.adam(), "none": None, "void": opt.sgd(0.1)}, lambda p: "all"
    )
    assert not any("void" in name or "none" in name for name in fit(made).vars)


def test_groups_take_gradients_of_ones_own() -> None:
    with br.Program() as prog:
        w, b = (br.parameter(n, v.shape, init=v, dtype="float64") for n, v in FIRST.items())
        after = both(opt.sgd(0.5), None).apply_gradients({w: w * 2.0, b: b * 2.0})
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(prog, scope)
    assert list(after) == [w]
    np.testing.assert_array_equal(exe.run(prog, scope, fetch=after[w]), FIRST["w"] * 0.0)


def test_one_group_is_pruned_from_a_step() -> None:
    prog = fit(both(opt.adam(0.1), opt.momentum(0.1)))
    small = br.prune(prog, ["loss", "b"])
    assert set(small.updates) == {"b", "bias/trace/b"}
    assert {p.name for p in small.persistables} >= {"b", "bias/trace/b", "bias/learning_rate"}
    assert not any("matrix" in info.name for info in small.persistables)


# ---- what is refused -------------------------------------------------------------------------


def refused(text: str, build: Callable[[], Any]) -> None:
    with pytest.raises(BracesError, match=text) as info:
        build()
    assert "test_optimizer_groups.py:" in str(info.value) or "steps.py:" in str(info.value)


def test_labels_without_optimizers_are_refused() -> None:
    refused("unknown label 'bias' of parameter `b`", lambda: fit(
        opt.partition({"matrix": opt.sgd(0.1)}, label)))  # fmt: skip
    refused("expected an optimizer for the label 'x'", lambda: opt.partition(
        {"x": 0.1}, label))  # fmt: skip
    refused("partition: expected a dict of optimizers", lambda: opt.partition({}, label))
    refused("exactly one learning rate, got 2", lambda: fit(
        opt.chain(opt.sgd(0.1), both(opt.sgd(0.1), opt.sgd(0.1)))))  # fmt: skip
    refused(
        "exactly one learning rate, got none",
        lambda: fit(both(opt.clip_by_value(0.1), opt.sgd(0.1))),
    )
    refused("does not depend on a trainable parameter", lambda: fit(both(None, None)))
