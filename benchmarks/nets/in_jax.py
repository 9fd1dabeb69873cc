"""The nets for JAX and optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from benchmarks.anew import function_anew
from benchmarks.nets.data import RATE, Arrays, Cnn, Mlp, Net, Transformer, first_values

NORM_EPSILON = 1e-5


def step_function(net: Net) -> tuple[Callable[..., Any], optax.GradientTransformation]:
    """Value, gradient and update in one function without jit, and its optimizer."""
    optimizer, logits = optax.adam(RATE), LOGITS[type(net)]

    def loss_of(params: Arrays, x: Any, y: Any) -> Any:
        losses = optax.softmax_cross_entropy_with_integer_labels(logits(net, params, x), y)
        return losses.mean()

    def step(params: Arrays, state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    return step, optimizer


def start(net: Net) -> tuple[Callable[..., Any], Arrays, Any]:
    """The function of a step, the initial parameters, and the initial optimizer state."""
    step, optimizer = step_function(net)
    params = {name: jnp.asarray(value) for name, value in first_values(net).items()}
    return step, params, optimizer.init(params)


def train_step(net: Net) -> Callable[[], float]:
    """One step of Adam under one jit with donated buffers; returns the loss before it."""
    (step, *state), batch = start(net), net.batch()
    jitted = _jitted(step)

    def run() -> float:
        *state[:], loss = jitted(*state, batch["x"], batch["y"])
        return float(jax.block_until_ready((state, loss))[1])

    return run


def compiling(net: Net) -> Callable[[], None]:
    """From a new function to its executable."""
    (_, *state), batch = start(net), net.batch()
    return function_anew(lambda: _jitted(step_function(net)[0]), *state, batch["x"], batch["y"])


def _jitted(step: Callable[..., Any]) -> Any:
    return jax.jit(step, donate_argnums=(0, 1))


# ---- nets ------------------------------------------------------------------------------------


def product(p: Arrays, name: str, x: Any) -> Any:
    """A fully connected layer."""
    return x @ p[f"{name}.w"] + p[f"{name}.b"]


def mlp(net: Mlp, p: Arrays, x: Any) -> Any:
    """Three products."""
    x = jax.nn.relu(product(p, "fc0", x))
    return product(p, "fc2", jax.nn.relu(product(p, "fc1", x)))


def cnn(net: Cnn, p: Arrays, x: Any) -> Any:
    """Channels last, the fastest layout of XLA on a CPU."""
    for name in ("conv0", "conv1"):
        convolved = jax.lax.conv_general_dilated(
            x, p[f"{name}.w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(convolved + p[f"{name}.b"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return product(p, "fc", x.reshape(x.shape[0], -1))


def transformer(net: Transformer, p: Arrays, x: Any) -> Any:
    """A function for each layer, called in a Python loop."""
    h = p["words.w"][x] + p["positions"]
    for i in range(net.layers):
        h = h + attention(net, p, f"layer{i}", norm(p, f"layer{i}/norm0", h))
        up = product(p, f"layer{i}/up", norm(p, f"layer{i}/norm1", h))
        h = h + product(p, f"layer{i}/down", jax.nn.gelu(up))
    return product(p, "logits", norm(p, "norm", h))


def norm(p: Arrays, name: str, x: Any) -> Any:
    """Mean 0 and variance 1, scaled and shifted."""
    x = jax.nn.standardize(x, epsilon=NORM_EPSILON)
    return x * p[f"{name}.scale"] + p[f"{name}.bias"]


def attention(net: Transformer, p: Arrays, layer: str, x: Any) -> Any:
    """Causal attention."""
    rows, length, width = x.shape
    qkv = product(p, f"{layer}/qkv", x).reshape(rows, length, 3, net.heads, width // net.heads)
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return product(p, f"{layer}/out", mixed.reshape(rows, length, width))


LOGITS: dict[type[Any], Callable[..., Any]] = {Mlp: mlp, Cnn: cnn, Transformer: transformer}
