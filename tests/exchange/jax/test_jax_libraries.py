"""Models of Equinox and Flax become programs, if these packages are installed.

`pip install --group jax-libraries` brings them; nothing else here needs them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.from_jax import hold

pytestmark = [
    pytest.mark.unoptimized,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
KEY = jax.random.PRNGKey(0)
X = np.random.default_rng(0).normal(size=(4, 3)).astype("f")
IMAGES = np.random.default_rng(1).normal(size=(2, 8, 8, 1)).astype("f")
IDS = np.array([[1, 5, 3], [2, 9, 0]], "i4")
BATCH = {"x": ["batch", None]}


def test_equinox_perceptron(mode: str) -> None:
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 8, 2, key=KEY)
    hold(lambda model, x: jax.vmap(model)(x), model, X, sizes=BATCH, mode=mode, second=True)


def test_equinox_gru(mode: str) -> None:
    eqx = pytest.importorskip("equinox")

    def rnn(cell: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = cell(x, h)
            return h, h

        return jax.lax.scan(step, jnp.zeros(5), xs)[1]

    hold(rnn, eqx.nn.GRUCell(3, 5, key=KEY), X, sizes={"xs": ["t", None]}, mode=mode)


def test_equinox_transformer(mode: str) -> None:
    eqx = pytest.importorskip("equinox")
    parts = (
        eqx.nn.Embedding(11, 8, key=KEY),
        eqx.nn.LayerNorm(8),
        eqx.nn.MultiheadAttention(2, 8, key=KEY),
        eqx.nn.MLP(8, 8, 16, 1, activation=jax.nn.gelu, key=KEY),
        eqx.nn.Dropout(0.25),
    )

    def block(parts: Any, ids: Any, key: Any) -> Any:
        table, norm, attend, mlp, drop = parts
        h = jax.vmap(table)(ids)
        n, mask = jax.vmap(norm)(h), jnp.tril(jnp.ones((3, 3), bool))
        h = h + drop(attend(n, n, n, mask=mask), key=key)
        return h + jax.vmap(mlp)(jax.vmap(norm)(h))

    hold(block, parts, IDS[0], np.asarray(KEY), mode=mode)


def test_equinox_convolutions(mode: str) -> None:
    eqx = pytest.importorskip("equinox")
    layers = [
        eqx.nn.Conv2d(1, 4, 3, padding=1, key=KEY),
        eqx.nn.Lambda(jax.nn.relu),
        eqx.nn.MaxPool2d(2, 2),
        eqx.nn.AvgPool2d(2, 2),
    ]
    images = np.moveaxis(IMAGES, -1, 1)
    hold(lambda m, x: jax.vmap(m)(x), eqx.nn.Sequential(layers), images, mode=mode)


def test_flax_perceptron_and_nnx(mode: str) -> None:
    linen, nnx = pytest.importorskip("flax.linen"), pytest.importorskip("flax.nnx")
    model = linen.Sequential([linen.Dense(8), linen.relu, linen.LayerNorm(), linen.Dense(2)])
    hold(lambda p, x: model.apply(p, x), model.init(KEY, X), X, sizes=BATCH, mode=mode)
    definition, state = nnx.split(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
    hold(lambda state, x: nnx.merge(definition, state)(x), state, X, sizes=BATCH, mode=mode)


def test_flax_lstm(mode: str) -> None:
    linen = pytest.importorskip("flax.linen")
    model, seqs = linen.RNN(linen.OptimizedLSTMCell(5)), X.reshape(2, 2, 3)
    params = model.init(KEY, seqs)
    hold(
        lambda params, x: model.apply(params, x),
        params, seqs, sizes={"x": ["batch", None, None]}, mode=mode,
    )  # fmt: skip


def test_flax_transformer(mode: str) -> None:
    linen = pytest.importorskip("flax.linen")
    table, attend = linen.Embed(11, 8), linen.MultiHeadDotProductAttention(2)
    h = jnp.zeros((2, 3, 8))
    params = {"table": table.init(KEY, IDS), "attend": attend.init(KEY, h)}

    def model(params: Any, ids: Any) -> Any:
        h = table.apply(params["table"], ids)
        return h + attend.apply(params["attend"], h, mask=linen.make_causal_mask(ids))

    hold(model, params, IDS, sizes={"ids": ["batch", None]}, mode=mode)


def test_flax_convolutions(mode: str) -> None:
    linen = pytest.importorskip("flax.linen")
    conv, norm = linen.Conv(4, (3, 3)), linen.BatchNorm(use_running_average=True)
    params = {"conv": conv.init(KEY, IMAGES), "norm": norm.init(KEY, jnp.zeros((2, 8, 8, 4)))}

    def model(params: Any, x: Any) -> Any:
        x = linen.relu(norm.apply(params["norm"], conv.apply(params["conv"], x)))
        return linen.avg_pool(linen.max_pool(x, (2, 2), strides=(2, 2)), (2, 2))

    hold(model, params, IMAGES, sizes={"x": ["batch", None, None, None]}, mode=mode)
