"""Transformations of optax as parts of programs: the same numbers, as ordinary operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.lax import rng_uniform

import braces as br
from braces.errors import BracesError, ProgramError, ShapeError
from tests.support.call_counts import calls_of

pytestmark = pytest.mark.unoptimized

opt = br.optimizer
X = np.random.default_rng(0).normal(size=(6, 3)).astype("f4")
Y = np.random.default_rng(1).normal(size=(6, 2)).astype("f4")
W = np.random.default_rng(2).normal(size=(3, 2)).astype("f4")
B = np.array([0.5, -0.25], "f4")
STEPS = 5


def fit(made: Any) -> tuple[br.Program, br.Var]:
    """A program that fits a line."""
    with br.Program() as prog:
        x, y = br.data("x", ["rows", 3]), br.data("y", ["rows", 2])
        w, b = br.parameter("w", [3, 2], init=W), br.parameter("b", [2], init=B)
        loss = br.mean(br.square(x @ w + b - y))
        made.minimize(loss)
    return prog, loss


def path_of(prog: br.Program, mode: str = "compile", steps: int = STEPS) -> dict[str, Any]:
    """All that outlives some runs."""
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    for _ in range(steps):
        exe.run(prog, scope, {"x": X, "y": Y})
    return {name: scope.var(name).value for name in scope.names()}


def by_optax(made: Any, steps: int = STEPS) -> Any:
    """The parameters after some steps of optax alone."""

    def loss(params: Any) -> Any:
        return jnp.mean(jnp.square(X @ params["w"] + params["b"] - Y))

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = tx.update(grads, state, params, value=value)
        return optax.apply_updates(params, updates), state

    with jax.enable_x64(True):
        tx = optax.with_extra_args_support(made)
        params = {"w": jnp.asarray(W), "b": jnp.asarray(B)}
        state = tx.init(params)
        for _ in range(steps):
            params, state = step(params, state)
        return jax.tree.map(np.asarray, params)


class Remembered(NamedTuple):
    """The state of a transformation of a user."""

    before: Any
    seen: Any


def steadied(weight: float) -> Any:
    """A transformation as users write them: gradients averaged with the ones before."""

    def init(params: Any) -> Remembered:
        return Remembered(jax.tree.map(jnp.zeros_like, params), jnp.zeros([], jnp.int32))

    def update(updates: Any, state: Remembered, params: Any = None) -> Any:
        del params
        first = state.seen == 0
        mixed = jax.tree.map(
            lambda g, b: jnp.where(first, g, weight * g + (1 - weight) * b),
            updates,
            state.before,
        )
        return mixed, Remembered(updates, state.seen + 1)

    return optax.GradientTransformation(init, update)


TRANSFORMATIONS: dict[str, Callable[[], Any]] = {
    "adafactor": lambda: optax.adafactor(0.1, min_dim_size_to_factor=2),
    "novograd": lambda: optax.novograd(0.05),
    "rprop": lambda: optax.rprop(0.05),
    "muon": lambda: optax.contrib.muon(0.05),
    "prodigy": lambda: optax.contrib.prodigy(0.5),
    "schedule inside": lambda: optax.adam(optax.cosine_decay_schedule(0.1, 5)),
    "two counts": lambda: optax.chain(optax.scale_by_adam(), optax.adam(0.05)),
    "accumulated": lambda: optax.MultiSteps(optax.adam(0.1), 3).gradient_transformation(),
    "finite only": lambda: optax.apply_if_finite(optax.sgd(0.1, 0.9), 3),
    "masked": lambda: optax.masked(optax.sgd(0.1), {"w": True, "b": False}),
    "by label": lambda: optax.multi_transform(
        {"a": optax.adam(0.1), "s": optax.sgd(0.1)}, {"w": "a", "b": "s"}
    ),
    "clipped by unit": lambda: optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(0.1)),
    "by the loss": lambda: optax.polyak_sgd(),
    "on a plateau": lambda: optax.chain(
        optax.sgd(0.3), optax.contrib.reduce_on_plateau(patience=1, cooldown=1)
    ),
    "a few steps": lambda: optax.conditionally_transform(optax.scale(-0.1), lambda n: n < 3),
    "averaged": lambda: optax.chain(optax.sgd(0.1), optax.ema(0.5)),
    "of a user": lambda: optax.chain(steadied(0.7), optax.sgd(0.1)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_steps_are_those_of_optax(name: str, mode: str) -> None:
    made = TRANSFORMATIONS[name]
    prog, _ = fit(opt.from_optax(made()))
    found, expected = path_of(prog, mode), by_optax(made())
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, 1e-5, 1e-6)


def test_a_chain_may_hold_both() -> None:
    prog, _ = fit(opt.chain(opt.clip_by_global_norm(0.5), opt.from_optax(optax.adam(0.1))))
    expected = by_optax(optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1)))
    np.testing.assert_allclose(path_of(prog)["w"], expected["w"], 1e-5, 1e-6)


def test_it_is_traced_once_and_never_called_again() -> None:
    calls = list[str]()

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        calls.append("update")
        return jax.tree.map(lambda g: -0.1 * g, updates), state

    prog, _ = fit(opt.from_optax(optax.GradientTransformation(optax.init_empty_state, update)))
    path_of(br.Program.from_bytes(prog.to_bytes()))
    assert calls == ["update"]


def test_what_parameters_share_is_computed_once() -> None:
    prog, _ = fit(opt.adam(0.1))
    kinds = [op.type for op in prog.block(1).ops]
    assert (kinds.count("pow"), kinds.count("sqrt")) == (2, 2)


def test_building_takes_a_few_thousand_calls_for_each_parameter() -> None:
    """Adam for a hundred parameters takes a quarter of a second: one trace serves them all."""

    def appended(count: int) -> tuple[int, int]:
        with br.Program() as prog:
            params = [br.parameter(f"p{i}", [4]) for i in range(count)]
            grads = {p: p * 0.5 for p in params}
        calls = calls_of(lambda: opt.adam(0.1).apply_gradients(grads))
        return len(prog.block(1).ops), calls

    appended(1)
    (few, calls), (many, more_calls) = appended(10), appended(30)
    assert many - few == 20 * 15
    assert (more_calls - calls) / 20 < 8000


# ---- what is kept ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("of a user", "before/w before/b seen"),
        ("schedule inside", "count mu/w mu/b nu/w nu/b count_1"),
        ("two counts", "count mu/w mu/b nu/w nu/b count_1 mu_1/w mu_1/b nu_1/w nu_1/b"),
    ],
)
def test_states_are_called_as_optax_reaches_them(name: str, wanted: str) -> None:
    prog, _ = fit(opt.from_optax(TRANSFORMATIONS[name](), name="mine"))
    kept = {info.name for info in prog.persistables} - {"w", "b"}
    assert kept == {f"mine/{one}" for one in wanted.split()}


def test_a_state_may_begin_with_the_first_values_of_parameters(mode: str) -> None:
    def init(params: Any) -> Any:
        return {"anchor": params}

    def update(updates: Any, state: Any, params: Any) -> Any:
        pull = jax.tree.map(
            lambda g, p, a: -0.1 * (g + p - a), updates, params, state["anchor"]
        )
        return pull, state

    with br.Program() as prog:
        w = br.parameter("w", [3], init=br.init.normal())
        opt.from_optax(optax.GradientTransformation(init, update)).minimize(br.sum(w * w))
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=3)
    first = scope.var("w").value
    np.testing.assert_array_equal(scope.var("optax/anchor/w").value, first)
    exe.run(prog, scope)
    np.testing.assert_allclose(scope.var("w").value, 0.8 * first, 1e-6)
    np.testing.assert_array_equal(scope.var("optax/anchor/w").value, first)


def test_injected_hyperparameters_are_read_and_set_in_the_scope(mode: str) -> None:
    prog, _ = fit(opt.from_optax(optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)))
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    rate = scope.var("optax/hyperparams/learning_rate")
    assert rate.value == np.float32(0.1)
    rate.set(0.0)
    exe.run(prog, scope, {"x": X, "y": Y})
    np.testing.assert_array_equal(scope.var("w").value, W)


# ---- learning rates of ours ------------------------------------------------------------------


def test_what_makes_a_transformation_takes_a_learning_rate_of_ours(mode: str) -> None:
    ours, theirs = (
        fit(opt.adam(0.1, name="a"))[0],
        fit(opt.from_optax(optax.adam, 0.1, name="a"))[0],
    )
    assert str(ours) == str(theirs)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(theirs, scope)
    scope.var("a/learning_rate").set(0.0)
    exe.run(theirs, scope, {"x": X, "y": Y})
    np.testing.assert_array_equal(scope.var("w").value, W)


def test_a_schedule_reads_the_count_that_is_kept_or_else_its_own() -> None:
    course = opt.linear_schedule(0.1, 0.0, 4)
    for made in (optax.adam, optax.sgd):
        prog, _ = fit(opt.from_optax(made, course, name="a"))
        found, expected = path_of(prog), by_optax(made(optax.linear_schedule(0.1, 0.0, 4)))
        assert found["a/count"] == STEPS
        np.testing.assert_allclose(found["w"], expected["w"], 1e-5, 1e-6)


def test_a_step_of_a_users_own_has_a_gradient_by_its_learning_rate(mode: str) -> None:
    def made(rate: Any) -> Any:
        return optax.chain(steadied(0.7), optax.scale_by_trust_ratio(), optax.sgd(rate))

    with br.Program() as prog:
        w = br.parameter("w", [3, 2], init=W)
        rate = br.data("rate", [])
        loss = br.sum(br.square(w) * br.exp(w))
        pairs = br.append_backward(loss)
        after = opt.from_optax(made, rate).apply_gradients(pairs)[w]
        hyper = br.gradients(br.sum(br.square(after)), [rate, w])
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    found = exe.run(prog, scope, {"rate": 0.1}, hyper)

    def outer(rate: Any, w: Any) -> Any:
        grads = jax.grad(lambda w: jnp.sum(jnp.square(w) * jnp.exp(w)))({"w": w}["w"])
        tx = made(rate)
        updates, _ = tx.update({"w": grads}, tx.init({"w": w}), {"w": w})
        return jnp.sum(jnp.square(w + updates["w"]))

    for got, want in zip(found, jax.grad(outer, (0, 1))(0.1, W), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), 1e-4, 1e-5)


# ---- what is refused -------------------------------------------------------------------------


def refused(error: type[BracesError], text: str, build: Callable[[], Any]) -> str:
    """Return the error; the program is unchanged."""
    with br.Program() as prog:
        w = br.parameter("w", [2], init=[1.0, 2.0])
        loss = br.sum(br.square(w))
    before = str(prog), str(prog.startup)
    with pytest.raises(error, match=text) as info, prog:
        build().minimize(loss)
    assert (str(prog), str(prog.startup)) == before
    assert "test_from_optax.py:" in str(info.value)
    return str(info.value)


def updating(update: Callable[..., Any], init: Any = None) -> Any:
    """An optimizer of this `update`."""
    started = init or optax.init_empty_state
    return opt.from_optax(optax.GradientTransformation(started, update))


def test_what_is_no_transformation_is_refused() -> None:
    refused(
        ProgramError,
        "expected an optax.GradientTransformation",
        lambda: opt.from_optax(optax.adam),
    )
    refused(
        ProgramError, "expected an optax.GradientTransformation", lambda: opt.from_optax(0.1)
    )
    refused(ProgramError, "exactly one learning rate, got 2", lambda: opt.chain(
        opt.from_optax(optax.adam, 0.1), opt.sgd(0.1)))  # fmt: skip


def test_what_there_is_no_operator_for_is_refused_by_name() -> None:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        return jax.tree.map(lambda g: g * rng_uniform(0.0, 1.0, ()), updates), state

    said = refused(ProgramError, "`rng_uniform`", lambda: updating(update))
    assert "The optimizer `optax`" in said


def test_a_transformation_that_asks_for_values_is_refused() -> None:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        return (updates if updates["w"].sum() > 0 else params), state

    said = refused(ProgramError, "cannot be traced", lambda: updating(update))
    assert "jnp.where" in said


def test_a_transformation_keeps_shapes() -> None:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        return jax.tree.map(lambda g: g[:1], updates), state

    refused(ShapeError, "changes the shape", lambda: updating(update))

    def grow(updates: Any, state: Any, params: Any = None) -> Any:
        return updates, jnp.zeros([3])

    refused(ShapeError, "changes the shape", lambda: updating(grow, lambda p: jnp.zeros([2])))


def test_a_transformation_keeps_the_same_things() -> None:
    def more(updates: Any, state: Any, params: Any = None) -> Any:
        return updates, {**state, "norm": optax.tree.norm(updates)}

    refused(ProgramError, "tree structure of its state", lambda: updating(more, lambda p: {}))


def test_schedules_of_jax_and_of_operators_are_distinguished() -> None:
    said = refused(
        ProgramError, "schedule", lambda: opt.sgd(optax.cosine_decay_schedule(0.1, 5))
    )
    assert "br.optimizer.Schedule" in said


def test_a_state_cannot_begin_with_a_learning_rate_that_only_a_run_knows() -> None:
    def made(rate: Any) -> Any:
        return optax.GradientTransformation(lambda p: rate * 2, lambda u, s, p=None: (u, s))

    refused(
        ProgramError,
        "the startup program does not set",
        lambda: opt.from_optax(made, opt.constant_schedule(0.1)),
    )
