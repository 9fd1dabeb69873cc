"""Models written in plain JAX become programs: values, gradients, second order, both modes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import braces as br
from tests.support.from_jax import close, hold

pytestmark = pytest.mark.unoptimized


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("f") * np.float32(0.5)


def mlp(layers: Any, x: Any) -> Any:
    for layer in layers[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


LAYERS = [{"w": drawn(3, 5), "b": drawn(5)}, {"w": drawn(5, 2), "b": drawn(2)}]


def norm(p: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]


def transformer(p: Any, ids: Any) -> Any:
    h = p["table"][ids] + p["places"][: ids.shape[1]]
    n = norm(p["norm"], h)
    q, k, v = (jnp.einsum("btd,dhk->bthk", n, p[name]) for name in "qkv")
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / np.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones((ids.shape[1], ids.shape[1]), bool))
    mixed = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    h = h + jnp.einsum("bhts,bshk,hkd->btd", mixed, v, p["out"])
    return jax.nn.log_softmax(jax.nn.gelu(h @ p["up"]) @ p["down"])


TRANSFORMER = {
    "table": drawn(7, 4), "places": drawn(5, 4), "norm": {"scale": drawn(4), "bias": drawn(4)},
    "q": drawn(4, 2, 2), "k": drawn(4, 2, 2), "v": drawn(4, 2, 2), "out": drawn(2, 2, 4),
    "up": drawn(4, 8), "down": drawn(8, 7),
}  # fmt: skip


def gru(p: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        r, z = jnp.split(jax.nn.sigmoid(x @ p["wi"] + h @ p["wh"]), 2)
        n = jnp.tanh(x @ p["ni"] + r * (h @ p["nh"]))
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(step, jnp.zeros(4), xs)[1]


GRU = {"wi": drawn(3, 8), "wh": drawn(4, 8), "ni": drawn(3, 4), "nh": drawn(4, 4)}


def convolved(p: Any, x: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=numbers)
    x = lax.reduce_window(
        jax.nn.relu(x), -np.float32(np.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )
    return x.reshape(x.shape[0], -1) @ p["out"]


def solved(p: Any, start: Any) -> Any:
    """A differential equation, by steps of Bogacki and Shampine that a PI rule sizes."""

    def slope(y: Any) -> Any:
        return jnp.tanh(p["w"] @ y) - y

    def trip(state: Any) -> Any:
        t, y, h, before, count = state
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + 3 * h / 4 * k2)
        ahead = y + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
        wrong = h * (-5 / 72 * k1 + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * slope(ahead))
        error = jnp.maximum(jnp.sqrt(jnp.mean((wrong / (1e-4 + 1e-3 * jnp.abs(y))) ** 2)), 1e-6)
        good = error <= 1.0
        factor = jnp.clip(0.9 * error**-0.23 * before**0.13, 0.2, 5.0)
        t, y = jnp.where(good, t + h, t), jnp.where(good, ahead, y)
        size = jnp.minimum(h * factor, jnp.maximum(2.0 - t, 1e-6))
        return t, y, size, jnp.where(good, error, before), count + 1

    init = (0.0, start, 0.1, 1.0, 0)
    return lax.while_loop(lambda s: (s[0] < 2.0 - 1e-5) & (s[4] < 200), trip, init)[1]


def test_a_perceptron_to_the_second_order(mode: str) -> None:
    prog = hold(mlp, LAYERS, drawn(4, 3), sizes={"x": ["batch", None]}, mode=mode, second=True)
    assert str(prog.var("out").type) == "f32[batch,2]"


def test_a_transformer_with_a_batch_of_any_size(mode: str) -> None:
    ids = np.array([[1, 5, 3, 0], [2, 6, 0, 6]], "i4")
    prog = hold(transformer, TRANSFORMER, ids, sizes={"ids": ["batch", None]}, mode=mode)
    assert str(prog.var("out").type) == "f32[batch,4,7]"


def test_a_gru_over_any_number_of_steps(mode: str) -> None:
    prog = hold(gru, GRU, drawn(6, 3), sizes={"xs": ["t", None]}, mode=mode)
    assert str(prog.var("out").type) == "f32[t,4]"


def test_convolutions_and_pools(mode: str) -> None:
    params = {"w": drawn(3, 3, 2, 3), "out": drawn(12, 2)}
    hold(convolved, params, drawn(2, 4, 4, 2), sizes={"x": ["batch", *[None] * 3]}, mode=mode)


def test_a_step_that_asks_jax_for_gradients_of_pools(mode: str) -> None:
    def step(p: Any, x: Any) -> Any:
        grads = jax.grad(lambda q: jnp.sum(convolved(q, x) ** 2))(p)
        return jax.tree.map(lambda value, grad: value - 0.1 * grad, p, grads)["w"]

    params = {"w": drawn(3, 3, 2, 3), "out": drawn(12, 2)}
    hold(step, params, drawn(2, 4, 4, 2), mode=mode)


def test_an_adaptive_solver_and_its_gradient_which_jax_has_not(mode: str) -> None:
    params, start = {"w": drawn(3, 3)}, np.ones(3, "f")
    prog = hold(solved, params, start, mode=mode, gradient=False)
    with prog:
        (grad,) = br.gradients(br.sum(prog.var("out")), prog.var("p.w"))
    scope = br.Scope()
    scope.update({"p.w": params["w"]})
    exe = br.Executor(mode=mode)
    (got,) = exe.run(prog, scope, feed={"start": start}, fetch=[grad])
    for at in ((0, 1), (2, 2)):
        moved = [params["w"].copy(), params["w"].copy()]
        moved[0][at] += 1e-2
        moved[1][at] -= 1e-2
        high, low = (float(jnp.sum(solved({"w": w}, start))) for w in moved)
        np.testing.assert_allclose(got[at], (high - low) / 2e-2, rtol=0.05, atol=2e-3)


def test_a_training_step_of_optax_goes_on_as_in_jax(mode: str) -> None:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))

    def step(params: Any, state: Any, x: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: jnp.mean(mlp(p, x) ** 2))(params)
        moves, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, moves), state, loss

    params, state, x = LAYERS, optimizer.init(LAYERS), drawn(4, 3)
    prog, values = br.from_jax(
        step,
        params,
        state,
        x,
        sizes={"x": ["batch", None]},
        kinds={"state": "state"},
        updates={"params": 0, "state": 1},
    )
    scope, exe = br.Scope(), br.Executor(mode=mode)
    scope.update(values)
    for rows in (x, x[:2], x):
        (loss,) = exe.run(prog, scope, feed={"x": rows}, fetch=["out.2"])
        params, state, wanted = jax.jit(step)(params, state, rows)
        close([loss], [wanted])
    kept = [scope.find_var(info.name).value for info in prog.parameters]
    close(kept, jax.tree.leaves(params))
