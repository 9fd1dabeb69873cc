"""Random draws of JAX: one operator each, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br

random: Any = jax.random
KEY = random.key(7)
KEYS = random.split(random.key(1), 4)
MEANS = jnp.arange(1.0, 9.0).reshape(4, 2) / 9

DRAWS: dict[str, tuple[str, Callable[..., Any]]] = {
    "normal": ("normal_of_key", lambda k: random.normal(k, (3, 2))),
    "half": ("normal_of_key", lambda k: random.normal(k, (3,), "bfloat16")),
    "uniform": ("uniform_of_key", lambda k: random.uniform(k, (3,), minval=-2, maxval=3)),
    "truncated": ("truncated_normal_of_key", lambda k: random.truncated_normal(k, -1, 2, (9,))),
    "bernoulli": ("bernoulli_of_key", lambda k: random.bernoulli(k, 0.3, (9,))),
    "randint": ("randint_of_key", lambda k: random.randint(k, (9,), -3, 1000)),
    "bytes": ("randint_of_key", lambda k: random.randint(k, (300,), 0, 256, "uint8")),
    "gumbel": ("gumbel_of_key", lambda k: random.gumbel(k, (3,))),
    "categorical": ("gumbel_of_key", lambda k: random.categorical(k, jnp.log(MEANS))),
    "exponential": ("exponential_of_key", lambda k: random.exponential(k, (3,))),
    "bits": ("bits_of_key", lambda k: random.bits(k, (3,), "uint16")),
    "split": ("split_key", lambda k: random.normal(random.split(k, 3)[1], (2,))),
    "fold in": ("fold_in_key", lambda k: random.uniform(random.fold_in(k, 5), (2,))),
    "gamma": ("gamma_of_key", lambda k: random.gamma(k, MEANS)),
    "permutation": ("bits_of_key", lambda k: random.permutation(k, 9)),
    "complex": ("uniform_of_key", lambda k: random.normal(k, (3,), "complex64").imag),
    "no numbers": ("normal_of_key", lambda k: random.normal(k, (0, 2)).sum()),
}


def words(value: Any) -> Any:
    is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return np.asarray(random.key_data(value) if is_key else value)


def check(mode: str, function: Callable[..., Any], *examples: Any, **options: Any) -> Any:
    """Import a function, and compare a run with JAX; return the program."""
    program, values = br.from_jax(function, *examples, **options)
    scope = br.Scope()
    scope.update(values)
    feed = dict(zip(program.feeds, map(words, examples), strict=True))
    found = br.Executor(mode=mode).run(program, scope, feed=feed, fetch=[*program.fetches])
    for got, wanted in zip(found, jax.tree.leaves(function(*examples)), strict=True):
        got, wanted = np.asarray(got), words(wanted)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got.astype(float), wanted.astype(float), 1e-6, 1e-6)
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, wanted)
    return program


def operators(program: Any) -> list[str]:
    return [op.type for op in program.block(0).ops]


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_is_one_operator_with_the_bits_of_jax(mode: str, name: str) -> None:
    operator, draw = DRAWS[name]
    program = check(mode, draw, KEY)
    assert operator in operators(program)
    assert len(program.block(0).ops) < 25


@pytest.mark.parametrize("name", ["normal", "uniform", "bernoulli", "randint", "split", "bits"])
def test_draws_of_many_keys_are_one_operator(mode: str, name: str) -> None:
    operator, draw = DRAWS[name]
    program = check(mode, jax.vmap(draw), KEYS)
    assert operator in operators(program)
    twice = check(mode, jax.vmap(jax.vmap(draw)), KEYS.reshape(2, 2))
    assert operator in operators(twice)


def test_parameters_of_many_keys_have_their_axes(mode: str) -> None:
    program = check(mode, jax.vmap(lambda k, p: random.bernoulli(k, p, (3, 2))), KEYS, MEANS)
    assert "bernoulli_of_key" in operators(program)
    check(mode, jax.vmap(lambda k, p: random.bernoulli(k, p, (3, 2)), (None, 0)), KEY, MEANS)
    check(mode, jax.vmap(lambda k: random.bernoulli(k, MEANS)), KEYS)


def test_a_variable_scale_or_bound_has_the_gradient_of_jax(mode: str) -> None:
    def loss(x: Any, key: Any) -> Any:
        normal = x[0] + x[1] * random.normal(key, (3,))
        uniform = random.uniform(key, (3,), minval=x[0], maxval=x[1])
        inside = random.truncated_normal(key, x[0], x[1], (3,))
        return jnp.sum(normal * uniform * inside)

    x = jnp.array([0.2, 1.5])
    program, _ = br.from_jax(loss, x, KEY)
    with program:
        (grad,) = br.gradients([program.var("out")], [program.var("x")])
    feed = {"x": np.asarray(x), "key": words(KEY)}
    found = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[grad])[0]
    np.testing.assert_allclose(found, jax.grad(loss)(x, KEY), 1e-5)


def test_a_shape_may_be_symbolic(mode: str) -> None:
    def noisy(x: Any, key: Any) -> Any:
        return x + random.normal(key, x.shape)

    x = jnp.ones((2, 3))
    program = check(mode, noisy, x, KEY, sizes={"x": ["batch", None]})
    assert "normal_of_key" in operators(program)
    (out,) = br.Executor(mode=mode).run(
        program, br.Scope(), feed={"x": np.ones((5, 3), "f"), "key": words(KEY)}, fetch=["out"]
    )
    np.testing.assert_allclose(out, noisy(jnp.ones((5, 3)), KEY), 1e-6)


def test_a_loop_draws_from_the_key_that_it_carries(mode: str) -> None:
    def walk(key: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            key, at = carry
            key, own = random.split(key)
            at = at + random.normal(own)
            return (key, at), at

        return jax.lax.scan(step, (key, 0.0), length=5)[1]

    assert len(str(check(mode, walk, KEY)).splitlines()) < 30


def test_a_function_of_the_same_name_stays_what_it_is(mode: str) -> None:
    @jax.jit
    def _normal(key: Any) -> Any:
        return random.uniform(key, (3,)) + 1

    assert "normal_of_key" not in str(check(mode, lambda key: _normal(key), KEY))


def test_a_dropout_step_draws_the_mask_of_jax(mode: str) -> None:
    def step(w: Any, x: Any, key: Any) -> Any:
        def loss(w: Any) -> Any:
            hidden = jnp.tanh(x @ w)
            kept = random.bernoulli(key, 0.8, hidden.shape)
            return jnp.mean(jnp.where(kept, hidden / 0.8, 0) ** 2)

        value, grad = jax.value_and_grad(loss)(w)
        return value, w - 0.1 * grad

    program = check(mode, step, MEANS.T, jnp.ones((3, 2)), KEY)
    assert operators(program).count("bernoulli_of_key") == 1


def test_draws_run_in_onnx_runtime(tmp_path: Path) -> None:
    runtime: Any = pytest.importorskip("onnxruntime")
    program, _ = br.from_jax(
        lambda k: (random.normal(k, (3,)), random.split(k), random.randint(k, (4,), 0, 9)), KEY
    )
    br.to_onnx(program, tmp_path / "draws.onnx")
    session = runtime.InferenceSession(str(tmp_path / "draws.onnx"))
    found = session.run(None, {session.get_inputs()[0].name: words(KEY)})
    wanted = random.normal(KEY, (3,)), words(random.split(KEY)), random.randint(KEY, (4,), 0, 9)
    for got, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got, float), np.asarray(value, float), 1e-5, 1e-6)
