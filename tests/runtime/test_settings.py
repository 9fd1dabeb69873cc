"""Global settings of JAX, such as those for debugging, change no program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br

pytestmark = pytest.mark.unoptimized

library: Any = jax
SETTINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "no jit": jax.disable_jit,
    "leaks": jax.checking_leaks,
    "64 bits": lambda: jax.enable_x64(True),
    "keys": lambda: library.threefry_partitionable(False),
}
X = np.sin(np.arange(24.0, dtype="f")).reshape(4, 2, 3)
FEED = {"x": X, "y": X[-1, :, :1]}


def trained(mode: str) -> list[Any]:
    """Layers, a loop, draws, gradients and updates, run twice."""
    prog = br.Program()
    with prog:
        x, y = br.data("x", ("t", 2, 3)), br.data("y", (2, 1))
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            h = net.add_memory(init=br.zeros((2, 4)))
            h.update(br.tanh(br.fc(row, 4) + h.pre(1)))
        last = br.dropout(rnn.final(h), 0.25)
        loss = br.mean(br.square(br.fc(last, 1) - y)) + br.mean(br.softmax(x) * 2)
        br.optimizer.adam(0.1).minimize(loss)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope, seed=3)
    return [exe.run(prog, scope, feed=FEED, fetch=[loss]) for _ in range(2)]


def model(w: Any, x: Any) -> Any:
    """A function of JAX that is written for all settings."""
    h = jax.nn.relu(jnp.einsum("tbi,ij->tbj", x, w))
    end, rows = lax.scan(
        lambda h, row: (jnp.tanh(h + row), h), jnp.zeros(h.shape[1:], h.dtype), h
    )
    n = lax.while_loop(lambda c: c.sum() < 3.0, lambda c: c * c + 1.0, end)
    return lax.cond(n.sum() > 0, jnp.sin, jnp.cos, n).sum() + (jnp.abs(rows) ** -2.5).max()


def read(mode: str) -> list[Any]:
    """A function of JAX and its gradient."""
    prog, values = br.from_jax(
        model, np.ones((3, 3), "f"), X, kinds={"w": "parameter"}, sizes={"x": ["t", "b", None]}
    )
    scope = br.Scope()
    scope.update(values)
    with prog:
        (grad,) = br.gradients(prog.var("out"), prog.var("w"))
    return br.Executor(mode=mode).run(prog, scope, feed={"x": X}, fetch=["out", grad])


def handed_to_jax(mode: str) -> list[Any]:
    """A program as a function of JAX."""
    del mode
    prog = br.Program()
    with prog:
        x = br.data("x", ("t", "b", 3))
        out = br.sum(br.tanh(x + br.ones((3,))) * br.arange(3))
    function = prog.to_jax(fetches=[out])
    results, _, _ = function({}, {"x": X})
    return results


usual = cache(lambda build, mode: build(mode))
"""The results of a program with default settings."""


@pytest.mark.parametrize("build", [trained, read, handed_to_jax])
@pytest.mark.parametrize("setting", SETTINGS)
def test_programs_give_the_same_under_any_setting_of_jax(
    setting: str, build: Callable[[str], list[Any]], mode: str
) -> None:
    expected = usual(build, mode)
    with SETTINGS[setting]():
        results = build(mode)
    for result, value in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-6)
