"""Dataclasses and assertions of chex."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp

from suites.jax.library_cases.case import Cases, LibraryCase

X = jnp.array([[0.3, -1.2, 0.7], [1.1, 0.2, -0.4]])


@chex.dataclass(frozen=True)
class Carry:
    """The state of a loop."""

    position: Any
    velocity: Any
    count: Any


def _dataclass(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        velocity = carry.velocity - 0.1 * jnp.sin(carry.position)
        moved = carry.replace(position=carry.position + 0.1 * velocity, velocity=velocity)
        return moved.replace(count=carry.count + 1), moved.position.sum()

    return jax.lax.scan(step, Carry(position=x, velocity=jnp.zeros_like(x), count=0), None, 5)


def _mapped(x: Any) -> Any:
    carry = Carry(position=x, velocity=x * 2.0, count=jnp.arange(2))
    return jax.vmap(lambda one: one.replace(position=one.position * one.count))(carry)


def _static(x: Any) -> Any:
    chex.assert_shape(x, (2, 3))
    chex.assert_rank(x, 2)
    chex.assert_type(x, jnp.float32)
    chex.assert_equal_shape([x, 2.0 * x])
    chex.assert_trees_all_equal_shapes_and_dtypes({"x": x}, {"x": 2.0 * x})
    return jnp.tanh(x)


def _traced_once(x: Any) -> Any:
    return jax.jit(chex.assert_max_traces(lambda x: jnp.sin(x) * x, n=3))(x)


CASES: Cases = {
    "dataclass in a scan": LibraryCase(_dataclass, (X,)),
    "dataclass under vmap": LibraryCase(_mapped, (X,)),
    "static assertions": LibraryCase(_static, (X,)),
    "assert_max_traces": LibraryCase(_traced_once, (X,)),
}
