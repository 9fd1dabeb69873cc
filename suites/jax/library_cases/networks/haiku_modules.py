"""Modules of Haiku: parameters, state, random numbers and training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

from suites.jax.library_cases.case import Cases, LibraryCase, initialized

KEY = jax.random.PRNGKey(3)
_RANDOM = np.random.default_rng(3)
ROWS = jnp.asarray(_RANDOM.normal(size=(4, 6)), "float32")
IMAGES = jnp.asarray(_RANDOM.normal(size=(2, 8, 8, 3)), "float32")
TIMES = jnp.asarray(_RANDOM.normal(size=(5, 2, 6)), "float32")
TOKENS = jnp.array([[1, 3, 2, 0], [4, 4, 1, 2]])


def applied(build: Callable[..., Any], *inputs: Any) -> Callable[[], LibraryCase]:
    """A transformed function: results and next state from parameters, state and inputs."""

    def case() -> LibraryCase:
        network = hk.transform_with_state(build)

        def init(*inputs: Any) -> Any:
            parameters, state = network.init(KEY, *inputs)
            return {"params": parameters, "state": state}

        variables = initialized(init, *inputs)

        def function(parameters: Any, state: Any, *inputs: Any) -> Any:
            return network.apply(parameters, state, KEY, *inputs)

        return LibraryCase(function, (variables["params"], variables["state"], *inputs))

    return case


def _mlp(x: Any) -> Any:
    return hk.nets.MLP([8, 8, 3], activation=jax.nn.silu)(x, 0.2, hk.next_rng_key())


def _convolutional(x: Any) -> Any:
    x = hk.Conv2D(4, 3, stride=2)(x)
    x = hk.BatchNorm(True, True, 0.9)(x, is_training=True)
    x = hk.max_pool(jax.nn.relu(x), (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return hk.Linear(3)(hk.Flatten()(x))


def _upsampled(x: Any) -> Any:
    x = hk.Conv2DTranspose(2, 3, stride=2)(x)
    return hk.avg_pool(hk.InstanceNorm(True, True)(x), 2, 2, "SAME")


def _transformer(tokens: Any) -> Any:
    mask = jnp.tril(jnp.ones((1, 1, 4, 4)))
    x = hk.Embed(6, 8)(tokens)
    x = x + hk.get_parameter("positions", (4, 8), init=hk.initializers.TruncatedNormal(0.1))
    for _ in range(2):
        normed = hk.LayerNorm(-1, True, True)(x)
        attention = hk.MultiHeadAttention(
            2, 4, model_size=8, w_init=hk.initializers.VarianceScaling()
        )
        x = x + hk.dropout(hk.next_rng_key(), 0.1, attention(normed, normed, normed, mask=mask))
        normed = hk.LayerNorm(-1, True, True)(x)
        x = x + hk.Linear(8)(jax.nn.gelu(hk.Linear(16)(normed)))
    return hk.Linear(6)(x)


def _transformer_step() -> LibraryCase:
    network, optimizer = hk.transform(_transformer), optax.adamw(1e-2)
    parameters = initialized(lambda: {"params": network.init(KEY, TOKENS)})["params"]

    def loss_of(parameters: Any) -> Any:
        logits = network.apply(parameters, KEY, TOKENS)[:, :-1]
        labels = TOKENS[:, 1:]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(parameters: Any, state: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(parameters)
        updates, state = optimizer.update(grads, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    return LibraryCase(step, (parameters, optimizer.init(parameters)), 1e-3)


def _recurrent(core: Callable[..., Any]) -> Callable[..., Any]:
    def unrolled(x: Any) -> Any:
        module = core(5)
        return hk.dynamic_unroll(module, x, module.initial_state(x.shape[1]))

    return unrolled


def _scanned(x: Any) -> Any:
    layer = hk.Linear(6)
    return hk.scan(lambda carry, row: (layer(carry) + row, carry.sum()), x[0], x)


def _stacked(x: Any) -> Any:
    layer = hk.remat(lambda x: jnp.tanh(hk.Linear(6)(x)))
    return hk.experimental.layer_stack(3)(layer)(x)


def _quantized(x: Any) -> Any:
    quantizer = hk.nets.VectorQuantizerEMA(6, 5, 0.25, 0.9)
    found = quantizer(x, is_training=True)
    return found["quantize"], found["loss"], found["perplexity"]


def _spectral(x: Any) -> Any:
    weight = hk.get_parameter("w", (6, 4), init=hk.initializers.Orthogonal())
    return x @ hk.SpectralNorm()(weight)


def _averaged(x: Any) -> Any:
    return hk.ExponentialMovingAverage(0.9)(hk.Linear(3)(x))


def _residual(x: Any) -> Any:
    network = hk.nets.ResNet(
        (1, 1, 1, 1), 3, channels_per_group=(4, 4, 8, 8), bottleneck=False,
        use_projection=(True, True, True, True), resnet_v2=True,
    )  # fmt: skip
    return network(x, is_training=True)


CASES: Cases = {
    "MLP with dropout": applied(_mlp, ROWS),
    "convolution, BatchNorm and pooling": applied(_convolutional, IMAGES),
    "transposed convolution": applied(_upsampled, IMAGES),
    "transformer": applied(_transformer, TOKENS),
    "transformer training step": _transformer_step,
    "LSTM": applied(_recurrent(hk.LSTM), TIMES),
    "GRU": applied(_recurrent(hk.GRU), TIMES),
    "VanillaRNN": applied(_recurrent(hk.VanillaRNN), TIMES),
    "scan": applied(_scanned, TIMES[:, 0]),
    "layer_stack of remat": applied(_stacked, ROWS),
    "VectorQuantizerEMA": applied(_quantized, ROWS),
    "SpectralNorm": applied(_spectral, ROWS),
    "ExponentialMovingAverage": applied(_averaged, ROWS),
    "GroupNorm": applied(lambda x: hk.GroupNorm(3, axis=slice(1, None))(x), IMAGES),
    "ResNet": applied(_residual, IMAGES),
}
