"""Equinox: a model of one sequence, whose cell is in a scan, under `jax.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from benchmarks.recurrent.cells import step
from benchmarks.recurrent.in_jax import MATHS, losses, training_step
from benchmarks.recurrent.task import GRU, LSTM, Cell, Task, Values


class OwnCell(eqx.Module):
    """A cell that Equinox lacks."""

    p: dict[str, jax.Array]
    cell: Cell = eqx.field(static=True)

    def __call__(self, x: Any, state: Any) -> Any:
        """One step of one row."""
        return tuple(step(MATHS, self.cell, x @ self.p["wx"] + self.p["b"], state, self.p))


class Tagger(eqx.Module):
    """From the ids of one sequence to its logits."""

    emb: eqx.nn.Embedding
    cell: Any
    out: eqx.nn.Linear
    memories: int = eqx.field(static=True)
    bare: bool = eqx.field(static=True)
    """Whether the state is the array alone, as in a GRU of Equinox."""

    def __call__(self, ids: Any) -> Any:
        """The logits of every step."""

        def body(state: Any, x: Any) -> Any:
            state = self.cell(x, state)
            return state, state if self.bare else state[0]

        zeros = jnp.zeros(self.out.in_features)
        start = zeros if self.bare else (zeros,) * self.memories
        return jax.vmap(self.out)(jax.lax.scan(body, start, jax.vmap(self.emb)(ids))[1])


def usual(task: Task) -> Callable[[], float]:
    """The model under `vmap`; only the parameters of the task are trained."""
    params, static = eqx.partition(_model(task), eqx.is_array)
    frozen = params.cell.bias_n if task.cell is GRU else None

    def loss(p: Any, ids: Any, labels: Any) -> Any:
        if frozen is not None:
            p = eqx.tree_at(lambda model: model.cell.bias_n, p, frozen)
        logits = jax.vmap(eqx.combine(p, static))(ids)
        return losses(logits, labels).mean()

    return training_step(loss, params, *(value.T.copy() for value in task.feeds().values()))


def _model(task: Task) -> Tagger:
    s, values, key = task.sizes, task.arranged(_order(task.cell)), jax.random.key(0)
    out = eqx.tree_at(
        lambda linear: (linear.weight, linear.bias),
        eqx.nn.Linear(s.h, s.v, key=key),
        (jnp.array(values["wo"].T), jnp.array(values["bo"])),
    )
    embedding = eqx.nn.Embedding(weight=jnp.array(values["emb"]))
    cell = _cell(task, values, key)
    return Tagger(embedding, cell, out, task.cell.memories, task.cell is GRU)


def _order(cell: Cell) -> str:
    return "ifuo" if cell is LSTM else cell.gates


def _cell(task: Task, values: Values, key: Any) -> Any:
    s = task.sizes
    if task.cell not in (LSTM, GRU):
        names = ("wx", "wh", "b", *task.cell.vectors)
        return OwnCell({name: jnp.array(values[name]) for name in names}, task.cell)
    kind = eqx.nn.LSTMCell if task.cell is LSTM else eqx.nn.GRUCell
    weights = [jnp.array(values["wx"].T), jnp.array(values["wh"].T), jnp.array(values["b"])]
    made = eqx.tree_at(
        lambda c: (c.weight_ih, c.weight_hh, c.bias), kind(s.d, s.h, key=key), weights
    )
    if task.cell is GRU:
        made = eqx.tree_at(lambda c: c.bias_n, made, jnp.zeros(s.h))
    return made
