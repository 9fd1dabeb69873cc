"""Partial evaluation: what of a function depends on known inputs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from braces.lower.partial_evaluation import SplitFunction, split_function

X, W = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((4, 3), np.float32)
CONSTANT = np.arange(3.0, dtype=np.float32)


def halved(x: Any) -> Any:
    return jnp.sum(jax.lax.while_loop(lambda y: jnp.any(y > 1), lambda y: y / 2, x))


def uniform(seed: Any) -> Any:
    return jax.random.uniform(jax.random.key(seed))


nested = jax.jit(lambda x, w: (x @ jnp.transpose(w), jnp.sum(w)))

CASES: dict[str, tuple[Callable[[Any, Any], Any], int, int]] = {
    "transposed": (lambda x, w: x @ w.T, 1, 1),
    "inside a call": (lambda x, w: nested(x, w), 2, 2),
    "a call twice": (lambda x, w: nested(nested(x, w)[0] @ w, w), 4, 4),
    "passed": (lambda x, w: (w, x + 1), 0, 1),
    "broadcast": (lambda x, w: x + jnp.broadcast_to(jnp.sum(w), (9000,))[:, None, None], 1, 1),
    "a loop that may not end": (lambda x, w: x * halved(w), 0, 1),
    "with a constant": (lambda x, w: x * (w[0] * CONSTANT), 3, 1),
    "a key": (lambda x, w: x + uniform(w[0, 0].astype("uint32")), 3, 1),
    "nothing": (lambda x, w: x * 2, 0, 0),
    "a branch": (lambda x, w: jax.lax.cond(x[0, 0] > 1, lambda: w * 2, lambda: w), 0, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_compute_the_function(name: str) -> None:
    function, early, read = CASES[name]
    closed = jax.make_jaxpr(lambda x, w: function(x, w))(X, W)
    split = split_function(closed, [False, True])
    for left, right in zip(_joined(split, X, W), jaxpr_as_fun(closed)(X, W), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)
    assert len(split.early.jaxpr.eqns) >= early
    assert len(split.passed) == read


def test_effects_stay_in_the_run() -> None:
    def function(x: Any, w: Any) -> Any:
        jax.debug.callback(lambda _: None, w)
        return x + jnp.sum(w)

    split = split_function(jax.make_jaxpr(function)(X, W), [False, True])
    assert [eqn.primitive.name for eqn in split.early.jaxpr.eqns] == ["reduce_sum"]
    assert split.late.effects


def _joined(split: SplitFunction, x: Any, w: Any) -> list[Any]:
    computed = iter(jaxpr_as_fun(split.early)(w))
    values = [next(computed) if at is None else [w][at] for at in split.passed]
    return jaxpr_as_fun(split.late)(x, *values)
