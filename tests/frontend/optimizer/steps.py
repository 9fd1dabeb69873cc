"""One small problem, trained by a program and by optax alone, on a batch for each step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import braces as br

Values = dict[str, Any]

_rng = np.random.default_rng(7)
FIRST: Values = {"w": _rng.normal(size=(3, 2)), "b": np.array([0.5, -0.25])}
BATCHES = [(_rng.normal(size=(4, 3)), _rng.normal(size=(4, 2))) for _ in range(7)]


def fit(made: Any, dtype: str = "float64") -> br.Program:
    """A program that fits a line by an optimizer of ours."""
    with br.Program() as prog:
        x, y = br.data("x", ["rows", 3], dtype), br.data("y", ["rows", 2], dtype)
        w, b = (br.parameter(n, v.shape, init=v, dtype=dtype) for n, v in FIRST.items())
        made.minimize(br.mean(br.square(x @ w + b - y), name="loss"))
    return prog


def train(
    prog: br.Program, mode: str = "interpret", batches: Sequence[Any] = BATCHES
) -> list[Values]:
    """All that outlives a run, after each; half way all goes through a file's bytes."""
    exe, scope, found = br.Executor(mode=mode), br.Scope(), list[Values]()
    exe.init(prog, scope)
    dtype = prog.vars["x"].dtype.name
    for at, (x, y) in enumerate(batches):
        if at == len(batches) // 2:
            prog = br.Program.from_bytes(prog.to_bytes())
            kept, scope = {n: scope.var(n).value for n in scope.names()}, br.Scope()
            scope.update(kept)
        exe.run(prog, scope, {"x": x.astype(dtype), "y": y.astype(dtype)})
        found.append({name: scope.var(name).value for name in scope.names()})
    return found


def loss_of(params: Any, x: Any, y: Any) -> Any:
    """The loss of the program, in JAX."""
    return jnp.mean(jnp.square(x @ params["w"] + params["b"] - y))


def by_optax(
    make: Callable[[], Any], dtype: str = "float64", batches: Sequence[Any] = BATCHES
) -> list[Values]:
    """The parameters after each step of optax alone."""
    found = list[Values]()
    with jax.enable_x64(True):
        tx = optax.with_extra_args_support(make())
        params = {name: jnp.asarray(value, dtype) for name, value in FIRST.items()}
        state = tx.init(params)
        step = jax.jit(lambda params, state, x, y: _step(tx, params, state, x, y))
        for x, y in batches:
            params, state = step(params, state, x.astype(dtype), y.astype(dtype))
            found.append({name: np.asarray(value) for name, value in params.items()})
    return found


def _step(tx: Any, params: Any, state: Any, x: Any, y: Any) -> Any:
    value, grads = jax.value_and_grad(loss_of)(params, x, y)
    takes = inspect.signature(tx.update).parameters
    given = {"value": value} if "extra_args" in takes or "value" in takes else {}
    updates, state = tx.update(grads, state, params, **given)
    return optax.apply_updates(params, updates), state


def assert_same(found: Sequence[Values], wanted: Sequence[Values], rtol: float = 1e-9) -> None:
    """Each value that is wanted is there after each step."""
    for step, (got, want) in enumerate(zip(found, wanted, strict=True)):
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol, rtol, err_msg=f"{name}, {step}")
