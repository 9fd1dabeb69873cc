"""Wrappers of optimizers: steps and state names equal those of optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import braces as br
from braces.errors import BracesError, ProgramError
from tests.frontend.optimizer.steps import (
    BATCHES,
    FIRST,
    assert_same,
    by_optax,
    fit,
    loss_of,
    train,
)
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

opt = br.optimizer
COURSE = (0.125, 0.0, 4)  # exact in the float32 that schedules compute in
HOLE = (np.full((4, 3), np.inf), BATCHES[0][1])
BROKEN = [*BATCHES[:2], HOLE, BATCHES[2], HOLE, HOLE, *BATCHES[3:]]


def accumulated(made: Any, every: int, **options: Any) -> Any:
    """Optax's accumulation, in the dtype of the parameters."""
    steps = optax.MultiSteps(made, every, accumulator_dtype=jnp.float64, **options)
    return steps.gradient_transformation()


PAIRS: dict[str, Callable[[], tuple[Any, Callable[[], Any], Any]]] = {
    "accumulated": lambda: (
        opt.multi_steps(opt.adam(0.1), every=3),
        lambda: accumulated(optax.adam(0.1), 3),
        BATCHES,
    ),
    "summed": lambda: (
        opt.multi_steps(opt.momentum(0.1), 2, use_grad_mean=False),
        lambda: accumulated(optax.sgd(0.1, 0.9), 2, use_grad_mean=False),
        BATCHES,
    ),
    "accumulated by a schedule": lambda: (
        opt.multi_steps(opt.sgd(opt.linear_schedule(*COURSE)), every=2),
        lambda: accumulated(optax.sgd(optax.linear_schedule(*COURSE)), 2),
        BATCHES,
    ),
    "an accumulated chain": lambda: (
        opt.multi_steps(
            opt.chain(opt.clip_by_global_norm(0.5), opt.adamw(opt.linear_schedule(*COURSE))), 3
        ),
        lambda: accumulated(
            optax.chain(
                optax.clip_by_global_norm(0.5), optax.adamw(optax.linear_schedule(*COURSE))
            ),
            3,
        ),
        BATCHES,
    ),
    "accumulated in a chain": lambda: (
        opt.chain(opt.clip_by_value(0.3), opt.multi_steps(opt.adam(0.1), 2)),
        lambda: optax.chain(optax.clip(0.3), accumulated(optax.adam(0.1), 2)),
        BATCHES,
    ),
    "finite only": lambda: (
        opt.apply_if_finite(opt.sgd(opt.linear_schedule(0.125, 0.0, 8))),
        lambda: optax.apply_if_finite(optax.sgd(optax.linear_schedule(0.125, 0.0, 8)), 100),
        BROKEN,
    ),
    "finite for a while": lambda: (
        opt.apply_if_finite(opt.adam(0.1), max_consecutive_errors=1),
        lambda: optax.apply_if_finite(optax.adam(0.1), 1),
        BROKEN,
    ),
    "finite and accumulated": lambda: (
        opt.apply_if_finite(opt.multi_steps(opt.adam(0.1), 2)),
        lambda: optax.apply_if_finite(accumulated(optax.adam(0.1), 2), 100),
        BROKEN,
    ),
}


@pytest.mark.parametrize(
    "name",
    [n if n in ("accumulated by a schedule", "finite only") else thorough(n) for n in PAIRS],
)
def test_steps_are_those_of_optax(name: str, mode: str) -> None:
    ours, theirs, batches = PAIRS[name]()
    assert_same(train(fit(ours), mode, batches), by_optax(theirs, batches=batches))


@pytest.mark.parametrize("reset", [False, thorough(True)])
def test_lookahead_goes_a_part_of_the_way(mode: str, reset: bool) -> None:
    found = train(fit(opt.lookahead(opt.adam(0.1), 3, 0.4, reset_state=reset)), mode)
    with jax.enable_x64(True):
        tx = optax.lookahead(optax.adam(0.1), 3, 0.4, reset)
        params = optax.LookaheadParams.init_synced(jax.tree.map(jnp.asarray, FIRST))
        state = tx.init(params)
        for got, (x, y) in zip(found, BATCHES, strict=True):
            grads = jax.grad(loss_of)(params.fast, x, y)
            updates, state = tx.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            for name in FIRST:
                np.testing.assert_allclose(got[name], params.fast[name], 1e-9)
                np.testing.assert_allclose(got[f"adam/slow/{name}"], params.slow[name], 1e-9)


# ---- what is kept ----------------------------------------------------------------------------


def test_what_is_wrapped_is_called_as_it_is_alone() -> None:
    alone = set(fit(opt.adam(0.1)).vars) - {"loss"}
    persistable = {info.name for info in fit(opt.adam(0.1)).persistables}
    assert persistable <= alone
    both = opt.multi_steps(opt.apply_if_finite(opt.adam(0.1)), 2)
    kept = {info.name for info in fit(both).persistables}
    steps = {"mini_step", "gradient_step", "acc_grads/w", "acc_grads/b"}
    finite = {"notfinite_count", "last_finite", "total_notfinite"}
    assert kept - persistable == {f"adam/{name}" for name in steps | finite}
    assert persistable <= kept


def test_a_schedule_counts_the_steps_that_were_taken() -> None:
    course = opt.linear_schedule(1.0, 0.0, 10)
    found = train(fit(opt.multi_steps(opt.sgd(course, name="fit"), every=3)))
    assert [int(after["fit/count"]) for after in found] == [0, 0, 1, 1, 1, 2, 2]
    rates = [float(after["fit/learning_rate"]) for after in found]
    np.testing.assert_allclose(rates, [1.0, 1.0, 1.0, 0.9, 0.9, 0.9, 0.8])
    found = train(fit(opt.apply_if_finite(opt.adam(course))), batches=BROKEN)
    assert [int(after["adam/count"]) for after in found] == [1, 2, 2, 3, 3, 3, 4, 5, 6, 7]
    assert "adam/count_1" not in found[0]


def test_learning_rates_of_what_is_wrapped_are_set_in_the_scope(mode: str) -> None:
    prog = fit(opt.multi_steps(opt.sgd(0.1), every=1), "float32")
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    scope.var("sgd/learning_rate").set(0.0)
    x, y = BATCHES[0]
    exe.run(prog, scope, {"x": x.astype("f4"), "y": y.astype("f4")})
    np.testing.assert_array_equal(scope.var("w").value, FIRST["w"].astype("f4"))


def test_half_floats_are_accumulated_in_whole_ones() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=1.0, dtype="bfloat16")
        opt.multi_steps(opt.sgd(0.1), every=2).minimize(br.sum(w * w))
    assert prog.vars["sgd/acc_grads/w"].dtype.name == "float32"


# ---- what is refused -------------------------------------------------------------------------


def refused(error: type[BracesError], text: str, build: Callable[[], Any]) -> None:
    with pytest.raises(error, match=text) as info:
        build()
    assert "test_optimizer_wrappers.py:" in str(info.value)


def test_wrappers_refuse_what_they_cannot_wrap() -> None:
    refused(
        ProgramError,
        "multi_steps: expected an optimizer, got 0.1",
        lambda: opt.multi_steps(0.1, 2),
    )
    refused(
        ProgramError, "lookahead: expected an optimizer", lambda: opt.lookahead(optax.sgd(0.1))
    )
    refused(
        ProgramError, "every of 1 or more, got 0", lambda: opt.multi_steps(opt.adam(), every=0)
    )
    refused(
        ProgramError, "sync_period of 1 or more, got 0", lambda: opt.lookahead(opt.adam(), 0)
    )
    refused(
        ProgramError, "errors of 0 or more, got -1", lambda: opt.apply_if_finite(opt.adam(), -1)
    )
    refused(
        ProgramError, "invalid argument every=", lambda: opt.multi_steps(opt.adam(), every="x")
    )


def test_what_is_wrapped_descends_once() -> None:
    two = opt.multi_steps(opt.chain(opt.adam(), opt.sgd(0.1)), 2)
    for text, made in (
        ("exactly one learning rate, got 2", two),
        ("exactly one learning rate, got none", opt.multi_steps(opt.clip_by_value(0.1), 2)),
        (
            "exactly one learning rate, got 2",
            opt.chain(opt.sgd(0.1), opt.lookahead(opt.sgd(0.1))),
        ),
    ):
        with pytest.raises(ProgramError, match=text):
            fit(made)
