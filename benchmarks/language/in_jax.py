"""JAX: the whole loop under one jit, or a jitted step in a Python loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.anew import function_anew
from benchmarks.language.task import START, Task, Values

FIRST = np.array([START], "int32")


def whole_loop(task: Task) -> Callable[[], list[int]]:
    """A `lax.while_loop` that writes into a buffer for the maximum number of words."""
    jitted, p = _saying(task), jax.tree.map(jnp.asarray, task.values)

    def run() -> list[int]:
        count, said = jitted(p, FIRST)
        return np.asarray(said)[: int(count)].tolist()

    return run


def compiling(task: Task) -> Callable[[], None]:
    """From a new function of the whole loop to its executable."""
    return function_anew(lambda: _saying(task), task.values, FIRST)


def _saying(task: Task) -> Any:
    def goes_on(carry: Any) -> Any:
        count, word, _, _ = carry
        return (count < task.limit) & (word[0] != task.last_word)

    def say(p: Values, first: Any) -> Any:
        def body(carry: Any) -> Any:
            count, word, memories, said = carry
            word, memories = step(task, p, word, memories)
            return count + 1, word, memories, said.at[count].set(word[0])

        start = (0, first, _zeros(task), jnp.zeros(task.limit, "int32"))
        count, _, _, said = jax.lax.while_loop(goes_on, body, start)
        return count, said

    return jax.jit(say)


def step_loop(task: Task) -> Callable[[], list[int]]:
    """A jitted step with donated memories; Python tests each word."""
    p = jax.tree.map(jnp.asarray, task.values)
    jitted = jax.jit(partial(step, task), donate_argnums=2)

    def run() -> list[int]:
        word, memories, said = jnp.array([START], "int32"), _zeros(task), list[int]()
        while len(said) < task.limit and (not said or said[-1] != task.last_word):
            word, memories = jitted(p, word, memories)
            said.append(int(word[0]))
        return said

    return run


def step(task: Task, p: Values, word: Any, memories: Sequence[Any]) -> tuple[Any, Any]:
    """The next word."""
    after = CELLS[task.cell](p, p["emb"][word], *memories)
    return (after[0] @ p["wo"] + p["bo"]).argmax(-1).astype("int32"), after


def _zeros(task: Task) -> tuple[Any, ...]:
    return tuple(jnp.zeros((1, task.hidden)) for _ in range(task.memories))


def _lstm(p: Values, x: Any, h: Any, c: Any) -> tuple[Any, ...]:
    i, f, g, o = jnp.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru(p: Values, x: Any, h: Any) -> tuple[Any, ...]:
    xr, xz, xn = jnp.split(x @ p["wx"] + p["b"], 3, axis=-1)
    hr, hz, hn = jnp.split(h @ p["wh"], 3, axis=-1)
    z = jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * (hn + p["bn"]))
    return ((1 - z) * n + z * h,)


CELLS: dict[str, Callable[..., tuple[Any, ...]]] = {"lstm": _lstm, "gru": _gru}
