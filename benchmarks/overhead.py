"""The overhead of `exe.run` beside a `jax.jit` call, with NumPy arrays in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import braces as br
from benchmarks.case import OURS, Case, Comparison, Goal, check_close, clocked

TITLE = "one run of a small program beside the same function under jax.jit"
GOAL = Goal(1.2, 10e-6)
JAX = "jax.jit"


def cases(tiny: bool) -> list[Case]:
    """One operator, and one training step."""
    return [
        _case("tanh of 4 floats", *_one_operator()),
        _case("training step, 6 parameters donated", *_training_step(2 if tiny else 8)),
    ]


def _case(what: str, ours: Callable[[], Any], raw: Callable[[], Any]) -> Case:
    return Case(
        what=what,
        sides={OURS: clocked(ours), JAX: clocked(raw)},
        comparisons=[Comparison(OURS, JAX, GOAL)],
        agree=lambda: check_close([ours() for _ in range(5)], [raw() for _ in range(5)], 1e-5),
        warm=20,
    )


def _one_operator() -> tuple[Callable[[], Any], Callable[[], Any]]:
    value = np.linspace(-1, 1, 4, dtype="float32")
    with br.Program() as prog:
        out = br.tanh(br.data("x", [4]))
    exe, scope, jitted = br.Executor(), br.Scope(), jax.jit(jnp.tanh)

    def ours() -> Any:
        return exe.run(prog, scope, feed={"x": value}, fetch=[out])[0]

    return ours, lambda: np.asarray(jitted(value))


def _training_step(width: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Gradient descent on a network of three layers."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(4, n)).astype("float32") for n in (width, 1))
    shapes = [(width, width), (width,), (width, width), (width,), (width, 1), (1,)]
    values = {f"p{i}": rng.normal(size=s).astype("float32") for i, s in enumerate(shapes)}
    return _step_of_braces(values, x, y), _step_of_jax(values, x, y)


def _net(p: list[Any], x: Any, tanh: Callable[[Any], Any]) -> Any:
    return tanh(tanh(x @ p[0] + p[1]) @ p[2] + p[3]) @ p[4] + p[5]


def _step_of_braces(values: dict[str, Any], x: Any, y: Any) -> Callable[[], Any]:
    with br.Program() as prog:
        p = [br.parameter(name, value.shape) for name, value in values.items()]
        inputs, targets = br.data("x", ["rows", x.shape[1]]), br.data("y", ["rows", 1])
        loss = br.mean(br.square(_net(p, inputs, br.tanh) - targets))
        for param, grad in br.append_backward(loss).items():
            prog.update(param.name, (param - 0.01 * grad).name)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    for name, value in values.items():
        scope.var(name).set(value)
    return lambda: exe.run(prog, scope, feed={"x": x, "y": y}, fetch=[loss])[0]


def _step_of_jax(values: dict[str, Any], x: Any, y: Any) -> Callable[[], Any]:
    def loss_of(p: list[Any], x: Any, y: Any) -> Any:
        return jnp.mean((_net(p, x, jnp.tanh) - y) ** 2)

    def step(p: list[Any], x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(p, x, y)
        return jax.tree.map(lambda a, g: a - 0.01 * g, p, grads), loss

    jitted, state = jax.jit(step, donate_argnums=0), [[jnp.asarray(v) for v in values.values()]]

    def raw() -> Any:
        state[0], loss = jitted(state[0], x, y)
        return np.asarray(loss)

    return raw
