"""JAX: masks in scans of fixed lengths, because `while_loop` has no reverse-mode gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.anew import function_anew
from benchmarks.trees.task import MOST_TRIPS, NOTHING, STILL, Task, Values


def jitted(task: Task) -> Callable[[], list[Any]]:
    """The loss, its gradients, and the gradients of the sum of their squares, under one jit."""
    both, steps = _both(task), task.feed["steps"]
    with jax.enable_x64(True):
        p = {name: jnp.asarray(value) for name, value in task.values.items()}

    def run() -> list[Any]:
        with jax.enable_x64(True):
            second, (loss, first) = both(p, steps)
        found = [loss, *(first[name] for name in p), *(second[name] for name in p)]
        return [np.asarray(value) for value in found]

    return run


def compiling(task: Task) -> Callable[[], None]:
    """From a new function to its executable."""
    anew = function_anew(lambda: _both(task), task.values, task.feed["steps"])

    def run() -> None:
        with jax.enable_x64(True):
            anew()

    return run


def _both(task: Task) -> Any:
    def loss_of(p: Values, steps: Any) -> Any:
        return jnp.sum(roots(task, p, steps) ** 2 * task.weights)

    def squares(p: Values, steps: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(p, steps)
        return sum(jnp.sum(grad**2) for grad in grads.values()), (loss, grads)

    return jax.jit(jax.grad(squares, has_aux=True))


def roots(task: Task, p: Values, steps: Any) -> Any:
    """The converged roots, which later iterations do not change."""

    def trip(carry: Any, _: None) -> Any:
        return jax.lax.cond(carry[1] > STILL, again, lambda carry: carry, carry), None

    def again(carry: Any) -> Any:
        context, _ = carry
        after = jax.vmap(partial(one_tree, task, p))(steps, context @ p["read"])
        return after, jnp.abs(after - context).max()

    start = jnp.zeros((task.rows, task.width), p["emb"].dtype)
    first = start, jnp.asarray(1e9, start.dtype)
    return jax.lax.scan(trip, first, None, length=MOST_TRIPS)[0][0]


def one_tree(task: Task, p: Values, steps: Any, read: Any) -> Any:
    """The root of a tree: both cases of each step, and a selection."""

    def take(carry: Any, step: Any) -> Any:
        stack, top = carry
        shifted = jnp.tanh(p["emb"][step] + read)
        reduced = jnp.tanh(jnp.concatenate([stack[top - 2], stack[top - 1]]) @ p["join"])
        shifts, place = step >= 0, jnp.where(step >= 0, top, top - 2)
        put = stack.at[place].set(jnp.where(shifts, shifted, reduced))
        ended = step == NOTHING
        return (jnp.where(ended, stack, put), jnp.where(ended, top, place + 1)), None

    start = jnp.zeros((task.depth, task.width), read.dtype), jnp.asarray(0, "int32")
    return jax.lax.scan(take, start, steps)[0][0][0]
