"""JAX: a scan with everything in it, and one in the style of an expert."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.anew import function_anew
from benchmarks.recurrent.cells import Maths, all_in, step
from benchmarks.recurrent.task import RATE, Cell, Task


def norm(x: Any, scale: Any, shift: Any) -> Any:
    """Mean 0 and variance 1 along the last axis, then scaled and shifted."""
    return jax.nn.standardize(x, epsilon=1e-5) * scale + shift


MATHS = Maths(jax.nn.sigmoid, jnp.tanh, lambda x, count: jnp.split(x, count, axis=-1), norm)


def everything_in_it(task: Task) -> Callable[[], float]:
    """The scan with the same step as the program of Braces."""
    values = task.gate_by_gate() if task.cell.by_gate else task.values()
    return training_step(partial(_all_in, task.cell), values, *task.feeds().values())


def as_a_good_user(task: Task) -> Callable[[], float]:
    """A scan with only the recurrent part, and one product for all gates."""
    return training_step(partial(_good, task.cell), task.values(), *task.feeds().values())


def _all_in(cell: Cell, p: Any, ids: Any, labels: Any) -> Any:
    def body(state: Any, given: Any) -> Any:
        one, label = given
        state = tuple(all_in(MATHS, cell, p["emb"][one], state, p))
        return state, losses(state[0] @ p["wo"] + p["bo"], label)

    return jax.lax.scan(body, _start(cell, p, ids), (ids, labels))[1].mean()


def _good(cell: Cell, p: Any, ids: Any, labels: Any) -> Any:
    def body(state: Any, x: Any) -> Any:
        state = tuple(step(MATHS, cell, x, state, p))
        return state, state[0]

    _, hs = jax.lax.scan(body, _start(cell, p, ids), p["emb"][ids] @ p["wx"] + p["b"])
    return losses(hs @ p["wo"] + p["bo"], labels).mean()


def _start(cell: Cell, p: Any, ids: Any) -> Any:
    return (jnp.zeros((ids.shape[1], p["wo"].shape[0])),) * cell.memories


def losses(logits: Any, labels: Any) -> Any:
    """Cross-entropies of labels along the last axis."""
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


def training_step(loss: Callable[..., Any], values: Any, *given: Any) -> Callable[[], float]:
    """Value, gradient and update in one jitted function, with donated parameters."""
    jitted, state = _updating(loss), [jax.tree.map(jnp.array, values)]

    def run() -> float:
        state[0], value = jitted(state[0], *given)
        return float(jax.block_until_ready((state[0], value))[1])

    return run


def _updating(loss: Callable[..., Any]) -> Any:
    def update(p: Any, *given: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, *given)
        return jax.tree.map(lambda x, g: x - RATE * g, p, grads), value

    return jax.jit(update, donate_argnums=0)


def compiling(task: Task) -> Callable[[], None]:
    """From a new function, in the style of an expert, to its executable."""
    given = task.values(), *task.feeds().values()
    return function_anew(lambda: _updating(partial(_good, task.cell)), *given)
