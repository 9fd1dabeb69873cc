"""The other side of `first_step`: JAX and optax, initialisation and step each under one jit."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.first_step_data import HIDDEN, SHAPES, Arrays, batch


def train(model: str, values: Arrays | None = None, steps: int = 1) -> list[Any]:
    """Initialise and train; return the loss of each step."""
    images, labels = batch(model)
    optimizer = optax.adam(1e-3)

    def init(seed: int) -> Any:
        params = parameters(model, jax.random.key(seed))
        return params, optimizer.init(params)

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        logits = NETS[model](params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    params, state = jax.jit(init)(0)
    if values is not None:
        params = jax.tree.map(jnp.asarray, values)
    jitted, losses = jax.jit(step, donate_argnums=(0, 1)), []
    for _ in range(steps):
        params, state, loss = jitted(params, state, images, labels)
        losses.append(np.asarray(loss))
    return losses


def parameters(model: str, key: Any) -> Any:
    """Glorot's uniform for matrices, zeros for the rest."""
    shapes = SHAPES[model]
    keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
    return {name: _first(keys[name], shape) for name, shape in shapes.items()}


def _first(key: Any, shape: tuple[int, ...]) -> Any:
    if len(shape) < 2:
        return jnp.zeros(shape)
    limit = math.sqrt(6 / sum(shape))
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def mlp(p: Any, x: Any) -> Any:
    """Three layers."""
    h = jnp.tanh(x @ p["fc1.w"] + p["fc1.b"])
    h = jnp.tanh(h @ p["fc2.w"] + p["fc2.b"])
    return h @ p["out.w"] + p["out.b"]


def rnn(p: Any, x: Any) -> Any:
    """One step for each row of the image."""

    def step(h: Any, row: Any) -> Any:
        return jnp.tanh(row @ p["in.w"] + p["in.b"] + h @ p["h.w"]), None

    h, _ = jax.lax.scan(step, jnp.zeros((x.shape[0], HIDDEN)), x.swapaxes(0, 1))
    return h @ p["out.w"] + p["out.b"]


NETS = {"mlp": mlp, "rnn": rnn}
