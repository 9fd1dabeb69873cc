"""Modules of Flax: `flax.linen` with collections, and `flax.nnx` with states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from flax.training.train_state import TrainState

from suites.jax.library_cases.case import Cases, LibraryCase, initialized

KEY = jax.random.PRNGKey(5)
_RANDOM = np.random.default_rng(5)
ROWS = jnp.asarray(_RANDOM.normal(size=(4, 6)), "float32")
IMAGES = jnp.asarray(_RANDOM.normal(size=(2, 8, 8, 3)), "float32")
TIMES = jnp.asarray(_RANDOM.normal(size=(2, 5, 6)), "float32")
TOKENS = jnp.array([[1, 3, 2, 0], [4, 4, 1, 2]])
LABELS = jnp.array([0, 2, 1, 1])


# ---- linen -----------------------------------------------------------------------------------


def linen(build: Callable[[], Any], *inputs: Any, **options: Any) -> Callable[[], LibraryCase]:
    """A module: results and changed collections from variables and inputs."""

    def case() -> LibraryCase:
        module = build()
        rngs = {"params": KEY, "dropout": jax.random.PRNGKey(1)}
        variables = initialized(lambda *inputs: module.init(rngs, *inputs, **options), *inputs)

        def function(variables: Any, *inputs: Any) -> Any:
            mutable = [name for name in variables if name != "params"]
            return module.apply(variables, *inputs, rngs=rngs, mutable=mutable, **options)

        return LibraryCase(function, (variables, *inputs))

    return case


class Convolutional(nn.Module):
    """Convolutions with batch normalization and dropout."""

    @nn.compact
    def __call__(self, x: Any, train: bool = True) -> Any:
        """The logits of images."""
        x = nn.Conv(4, (3, 3), strides=(2, 2))(x)
        x = nn.relu(nn.BatchNorm(not train, momentum=0.9)(x))
        x = nn.max_pool(x, (2, 2), (2, 2)).reshape((x.shape[0], -1))
        return nn.Dense(3)(nn.Dropout(0.3, deterministic=not train)(x))


class Transformer(nn.Module):
    """Two blocks of attention with a causal mask."""

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        """The logits of the next tokens."""
        mask, embed = nn.make_causal_mask(tokens), nn.Embed(6, 8)
        x = embed(tokens)
        for _ in range(2):
            x = x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=mask)
            x = x + nn.Dense(8)(nn.gelu(nn.Dense(16)(nn.RMSNorm()(x))))
        return embed.attend(x)


class Decoder(nn.Module):
    """Attention that decodes with a cache, one token a call."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """The next row."""
        return nn.MultiHeadDotProductAttention(2, decode=True)(x, x)


class Layers(nn.Module):
    """A scan over layers, each rematerialized."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """The last carry, and the sums."""

        class Layer(nn.Module):
            @nn.compact
            def __call__(self, carry: Any, _: Any) -> Any:
                return jnp.tanh(nn.Dense(6)(carry)), carry.sum()

        over: Any = nn.scan(
            nn.remat(Layer), variable_axes={"params": 0}, split_rngs={"params": True}, length=3
        )
        return over()(x, None)


class Normalized(nn.Module):
    """Normalizations of weights and groups."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """The normalized rows."""
        x = nn.WeightNorm(nn.Dense(6))(x)
        x = nn.SpectralNorm(nn.Dense(6))(x, update_stats=True)
        return nn.GroupNorm(num_groups=2)(x)


def _ensemble() -> Any:
    return nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})(3)


def _train_state() -> LibraryCase:
    module = Convolutional()
    variables = initialized(lambda: module.init(KEY, IMAGES, False))

    def step(state: Any, statistics: Any, images: Any) -> Any:
        def loss_of(parameters: Any) -> Any:
            logits, changed = module.apply(
                {"params": parameters, "batch_stats": statistics}, images,
                rngs={"dropout": KEY}, mutable=["batch_stats"],
            )  # fmt: skip
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, LABELS[:2])
            return loss.mean(), changed["batch_stats"]

        (loss, statistics), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads), statistics, loss

    state = TrainState.create(apply_fn=None, params=variables["params"], tx=optax.adam(0.01))
    return LibraryCase(step, (state, variables["batch_stats"], IMAGES), 1e-3)


# ---- nnx -------------------------------------------------------------------------------------


def with_state(build: Callable[[Any], Any], *inputs: Any) -> Callable[[], LibraryCase]:
    """A module: results and its next state from its state and inputs."""

    def case() -> LibraryCase:
        graph, state = nnx.split(build(nnx.Rngs(0)))

        def function(state: Any, *inputs: Any) -> Any:
            module = nnx.merge(graph, state)
            results = module(*inputs)
            return results, nnx.state(module)

        return LibraryCase(function, (state, *inputs))

    return case


class Images(nnx.Module):
    """Convolutions with batch normalization and dropout."""

    def __init__(self, rngs: Any) -> None:
        """Create the layers."""
        self.conv = nnx.Conv(3, 4, (3, 3), strides=2, rngs=rngs)
        self.norm = nnx.BatchNorm(4, momentum=0.9, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.out = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        """The logits of images."""
        x = nnx.relu(self.norm(self.conv(x)))
        return self.out(self.dropout(x.mean((1, 2))))


class Block(nnx.Module):
    """A block of attention."""

    def __init__(self, rngs: Any) -> None:
        """Create the layers."""
        self.embed = nnx.Embed(6, 8, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, rngs=rngs, decode=False)
        self.mix = nnx.LinearGeneral(8, (2, 4), rngs=rngs)

    def __call__(self, tokens: Any) -> Any:
        """The rows of tokens."""
        x = self.embed(tokens)
        x = x + self.attention(self.norm(x), mask=nnx.make_causal_mask(tokens))
        return self.mix(x)


def _stack(rngs: Any) -> Any:
    @nnx.split_rngs(splits=3)
    @nnx.vmap(in_axes=0, out_axes=0)
    def create(rngs: Any) -> Any:
        return nnx.Linear(6, 6, rngs=rngs)

    layers = create(rngs)

    class Stack(nnx.Module):
        def __init__(self) -> None:
            self.layers = layers

        def __call__(self, x: Any) -> Any:
            @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
            def run(x: Any, layer: Any) -> Any:
                return jnp.tanh(layer(x))

            return run(x, self.layers)

    return Stack()


def _optimizer_step() -> LibraryCase:
    model = Images(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def step(state: Any, images: Any) -> Any:
        model, optimizer = nnx.merge(graph, state)

        def loss_of(model: Any) -> Any:
            losses = optax.softmax_cross_entropy_with_integer_labels(model(images), LABELS[:2])
            return losses.mean()

        loss, grads = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, grads)
        return loss, nnx.state((model, optimizer))

    return LibraryCase(step, (state, IMAGES), 1e-3)


CASES: Cases = {
    "linen Conv, BatchNorm and Dropout": linen(Convolutional, IMAGES),
    "linen inference": linen(Convolutional, IMAGES, train=False),
    "linen transformer": linen(Transformer, TOKENS),
    "linen decoding with a cache": linen(Decoder, TIMES[:, :1]),
    "linen LSTM": linen(lambda: nn.RNN(nn.OptimizedLSTMCell(5)), TIMES),
    "linen Bidirectional GRU": linen(
        lambda: nn.Bidirectional(nn.RNN(nn.GRUCell(4)), nn.RNN(nn.GRUCell(4))), TIMES
    ),
    "linen scan of remat": linen(Layers, ROWS),
    "linen vmap": linen(_ensemble, TIMES),
    "linen WeightNorm, SpectralNorm and GroupNorm": linen(Normalized, ROWS),
    "linen ConvTranspose": linen(lambda: nn.ConvTranspose(2, (3, 3), (2, 2)), IMAGES),
    "linen training step": _train_state,
    "nnx Conv, BatchNorm and Dropout": with_state(Images, IMAGES),
    "nnx attention": with_state(Block, TOKENS),
    "nnx LSTM": with_state(lambda rngs: nnx.RNN(nnx.LSTMCell(6, 5, rngs=rngs)), TIMES),
    "nnx scan of layers": with_state(_stack, ROWS),
    "nnx Optimizer step": _optimizer_step,
}
