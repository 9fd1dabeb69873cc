"""Line-search optimizers: equal to optax, with the loss as a program, loops included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import minimize

import braces as br
from braces.errors import BracesError
from braces.extend.programs import all_ops
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

opt = br.optimizer
rng = np.random.default_rng(3)
X = rng.normal(size=(12, 3))
Y = (X @ np.array([2.0, -1.0, 0.5]) + rng.normal(size=12) > 0).astype("f8")
START = {"b": np.array(0.25), "w": np.array([0.5, -1.0, 2.0])}
STEPS = 4
CURVE = {"w": np.array([-1.0, 2.0])}


def rosenbrock(made: Any) -> br.Program:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=CURVE["w"], dtype="float64")
        x, y = w[0], w[1]
        made.minimize(br.square(1.0 - x) + 100.0 * br.square(y - br.square(x)))
    return prog


def rosenbrock_of(params: Any) -> Any:
    x, y = params["w"]
    return jnp.square(1.0 - x) + 100.0 * jnp.square(y - jnp.square(x))


def logistic(made: Any) -> br.Program:
    """Rows one by one, in a loop; with a penalty."""
    with br.Program() as prog:
        x, y = br.data("x", ["n", 3], "float64"), br.data("y", ["n"], "float64")
        b, w = (br.parameter(n, v.shape, init=v, dtype="float64") for n, v in START.items())
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            total = net.add_memory(init=br.constant(0.0, "float64"))
            logit = br.sum(net.add_input(x) * w) + b
            row = net.add_input(y)
            total.update(total + br.log(1.0 + br.exp(logit)) - row * logit)
            net.add_output(logit)
        logits = rnn()
        loss = br.add(rnn.final(total), br.sum(br.square(w)) + 0.0 * br.sum(logits))
        made.minimize(loss)
    return prog


def logistic_of(params: Any) -> Any:
    logits = X @ params["w"] + params["b"]
    losses = jnp.log(1.0 + jnp.exp(logits)) - Y * logits
    return jnp.sum(losses) + jnp.sum(jnp.square(params["w"]))


def run(prog: br.Program, mode: str, steps: int) -> list[dict[str, Any]]:
    """Return the state after each run; it is serialized after half of the runs."""
    exe, scope, found = br.Executor(mode=mode), br.Scope(), list[dict[str, Any]]()
    exe.init(prog, scope)
    feed = {name: value for name, value in (("x", X), ("y", Y)) if name in prog.vars}
    for at in range(steps):
        if at == steps // 2:
            kept, prog = {n: scope.var(n).value for n in scope.names()}, br.Program.from_bytes(
                prog.to_bytes()
            )  # fmt: skip
            scope = br.Scope()
            scope.update(kept)
        exe.run(prog, scope, feed)
        found.append({name: scope.var(name).value for name in scope.names()})
    return found


def by_optax(tx: Any, loss: Any, first: Any, steps: int) -> list[Any]:
    found = list[Any]()
    with jax.enable_x64(True):
        params = jax.tree.map(jnp.asarray, first)
        state = tx.init(params)

        @jax.jit
        def step(params: Any, state: Any) -> Any:
            value, grad = jax.value_and_grad(loss)(params)
            updates, state = tx.update(
                grad, state, params, value=value, grad=grad, value_fn=loss
            )
            return optax.apply_updates(params, updates), state

        for _ in range(steps):
            params, state = step(params, state)
            found.append(jax.tree.map(np.asarray, params))
    return found


def searched(steps: int = 20) -> Any:
    return optax.scale_by_zoom_linesearch(steps, initial_guess_strategy="one")


def backtracking() -> Any:
    return optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(15))


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "lbfgs": (opt.lbfgs, optax.lbfgs),
    "of short memory": (
        lambda: opt.lbfgs(0.5, 2, max_linesearch_steps=5),
        lambda: optax.lbfgs(0.5, 2, linesearch=searched(5)),
    ),
    "without a search": (
        lambda: opt.lbfgs(1e-3, linesearch=False, scale_init_precond=False),
        lambda: optax.lbfgs(1e-3, scale_init_precond=False, linesearch=None),
    ),
    "by a schedule": (
        lambda: opt.lbfgs(opt.linear_schedule(0.5, 1.0, 4)),
        lambda: optax.lbfgs(optax.linear_schedule(0.5, 1.0, 4)),
    ),
    "in a chain": (
        lambda: opt.chain(opt.add_decayed_weights(0.0), opt.lbfgs()),
        lambda: optax.chain(optax.add_decayed_weights(0.0), optax.lbfgs()),
    ),
    "backtracking": (lambda: opt.from_optax(backtracking()), backtracking),
    "wrapped": (
        lambda: opt.apply_if_finite(opt.lbfgs()),
        lambda: optax.apply_if_finite(optax.lbfgs(), 9),
    ),
}


@pytest.mark.parametrize(
    "name", ["lbfgs", *(thorough(name) for name in PAIRS if name != "lbfgs")]
)
def test_steps_are_those_of_optax(name: str, mode: str) -> None:
    ours, theirs = PAIRS[name]
    found = run(rosenbrock(ours()), mode, STEPS)
    for after, wanted in zip(
        found, by_optax(theirs(), rosenbrock_of, CURVE, STEPS), strict=True
    ):
        np.testing.assert_allclose(after["w"], wanted["w"], 1e-6)


@pytest.mark.thorough
def test_a_loss_may_have_loops(mode: str) -> None:
    found = run(logistic(opt.lbfgs()), mode, 8)
    wanted = by_optax(optax.lbfgs(), logistic_of, START, 8)
    for after, want in zip(found, wanted, strict=True):
        for name in START:
            np.testing.assert_allclose(after[name], want[name], 1e-6, 1e-8)
    with jax.enable_x64(True):
        best = minimize(
            lambda v: float(logistic_of({"b": v[0], "w": v[1:]})), np.zeros(4), tol=1e-12
        )
    np.testing.assert_allclose(found[-1]["w"], best.x[1:], 1e-4)


@pytest.mark.thorough
def test_it_comes_to_the_minimum_of_scipy(mode: str) -> None:
    def valley(v: Any) -> Any:
        return (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2

    best = minimize(valley, CURVE["w"], method="L-BFGS-B", options={"ftol": 1e-15})
    after = run(rosenbrock(opt.lbfgs()), mode, 50)[-1]
    np.testing.assert_allclose(after["w"], best.x, 1e-4)
    np.testing.assert_allclose(after["w"], 1.0, 1e-8)


@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_a_loss_may_have_a_loop_of_unknown_trips(mode: str) -> None:
    """x^2 halved until it is below 1, and what that takes: the gradient goes through."""

    def program() -> br.Program:
        with br.Program() as prog:
            w = br.parameter("w", [2], init=[3.0, -1.0], dtype="float64")
            loop = br.create_while()
            with loop.block() as block:
                value = block.add_memory(init=br.sum(br.square(w - 0.25)))
                value.update(value * 0.5)
                block.set_condition(value.pre(1) > 1.0)
            opt.lbfgs().minimize(loop.final(value) + br.sum(br.square(w)))
        return prog

    def loss(params: Any) -> Any:
        total = jnp.sum(jnp.square(params["w"] - 0.25))
        trips = jnp.maximum(jnp.ceil(jnp.log2(jax.lax.stop_gradient(total))), 0.0)
        return total * 0.5**trips + jnp.sum(jnp.square(params["w"]))

    found = run(program(), mode, 4)
    wanted = by_optax(optax.lbfgs(), loss, {"w": np.array([3.0, -1.0])}, 4)
    for after, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(after["w"], want["w"], 1e-6, 1e-9)


def test_what_does_not_depend_on_parameters_is_computed_once() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        mask = br.random.bernoulli([3], 0.5)
        whitened = br.tanh(br.exp(x) * br.cast(mask, "float32"))
        w = br.parameter("w", [3], init=1.0)
        opt.lbfgs().minimize(br.sum(br.square(whitened @ w - 1.0)))
    types = [op.type for _, op in all_ops(prog.definition.main)]
    assert types.count("exp") == types.count("tanh") == 1
    assert sum("matmul" in one for one in types) > 2
    assert {"loop", "block"} <= set(types)


@pytest.mark.thorough
def test_it_may_stand_in_a_plain_block(mode: str) -> None:
    ends = list[Any]()
    for boxed in (True, False):
        with br.Program() as prog:
            w = br.parameter("w", [2], init=CURVE["w"], dtype="float64")
            scaled = w * 2.0
            if boxed:
                with br.block("fit"):
                    opt.lbfgs().minimize(br.sum(br.exp(scaled) - w))
            else:
                opt.lbfgs().minimize(br.sum(br.exp(scaled) - w))
        ends.append(run(prog, mode, 4)[-1]["w"])
    np.testing.assert_allclose(ends[0], ends[1], 1e-9)


@pytest.mark.parametrize("mode", ["interpret"])
def test_it_may_move_a_group(mode: str) -> None:
    """What others move is fixed while it searches."""

    def program(made: Any) -> br.Program:
        with br.Program() as prog:
            w = br.parameter("w", [2], init=CURVE["w"], dtype="float64")
            v = br.parameter("v", [2], init=1.0, dtype="float64")
            made.minimize(br.sum(br.exp(w) - w) + br.sum(br.square(v)))
        return prog

    groups = {"w": opt.lbfgs(), "v": opt.sgd(0.25)}
    found = run(program(opt.partition(groups, lambda p: p.name)), mode, 2)
    alone = run(program(opt.partition({**groups, "v": None}, lambda p: p.name)), mode, 2)
    for after, want, v in zip(found, alone, (0.5, 0.25), strict=True):
        np.testing.assert_allclose(after["w"], want["w"], 1e-12)
        np.testing.assert_allclose(after["v"], v)


# ---- what is refused -------------------------------------------------------------------------


def test_what_a_search_cannot_do_is_refused() -> None:
    def drawing() -> None:
        with br.Program():
            w = br.parameter("w", [3], init=1.0)
            opt.lbfgs().minimize(br.sum(br.dropout(br.square(w), 0.5)))

    def applied() -> None:
        with br.Program():
            w = br.parameter("w", [3], init=1.0)
            opt.lbfgs().apply_gradients({w: w * 2.0})

    cases: list[tuple[str, Callable[[], Any]]] = [
        ("`dropout_0` draws new random", drawing),
        ("requires the loss", applied),
        ("requires a learning rate or a line search", lambda: opt.lbfgs(linesearch=False)),
        ("memory_size=0", lambda: opt.lbfgs(memory_size=0)),
    ]
    for text, build in cases:
        with pytest.raises(BracesError, match=text) as info:
            build()
        assert "test_lbfgs.py:" in str(info.value)
