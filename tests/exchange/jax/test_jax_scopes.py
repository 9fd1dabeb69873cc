"""Named scopes and modules of JAX: plain blocks with the names of the source."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br

W = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)), "float32")
X = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3)), "float32")


class Linear:
    def __init__(self, weight: Any, bias: Any) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Any) -> Any:
        return x @ self.weight + self.bias


class Block:
    def __init__(self, weight: Any) -> None:
        self.up, self.down = Linear(weight, weight[0]), Linear(2 * weight, weight[1])

    def __call__(self, x: Any) -> Any:
        return x + self.down(jnp.tanh(self.up(x)))


class Model:
    def __init__(self) -> None:
        self.layers = [Block(W), Block(W.T)]
        self.head = self.layers[0].up

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return jnp.exp(self.head(x))


def blocks(program: Any) -> list[str]:
    return re.findall(r"= block\(.* as (\S+)", str(program))


def check(mode: str, function: Callable[..., Any], *examples: Any) -> Any:
    program, values = br.from_jax(function, *examples)
    scope = br.Scope()
    scope.update(values)
    feed = dict(zip(program.feeds, map(np.asarray, examples), strict=True))
    found = br.Executor(mode=mode).run(program, scope, feed=feed, fetch=[*program.fetches])
    for got, wanted in zip(found, jax.tree.leaves(function(*examples)), strict=True):
        np.testing.assert_allclose(got, wanted, 1e-5, 1e-6)
    return program


def two_scopes(w: Any, x: Any) -> Any:
    with jax.named_scope("encoder"):
        x = jnp.tanh(x @ w)
        with jax.named_scope("layers.0"):
            x = jnp.exp(x) + w.sum()
    with jax.named_scope("single"):
        x = jnp.sin(x)
    return jnp.mean(x)


def test_named_scopes_are_blocks(mode: str) -> None:
    program = check(mode, two_scopes, W, X)
    assert blocks(program) == ["encoder", "encoder/layers_0"]


def test_a_scope_around_the_whole_function_is_no_block(mode: str) -> None:
    def function(x: Any) -> Any:
        with jax.named_scope("all"), jax.named_scope("inner"):
            return jnp.tanh(jnp.exp(x))

    assert not blocks(check(mode, function, X))


def test_a_scope_with_one_scope_inside_is_one_block(mode: str) -> None:
    def function(x: Any) -> Any:
        with jax.named_scope("outer"), jax.named_scope("inner"):
            x = jnp.tanh(jnp.exp(x))
        return x + 1

    assert blocks(check(mode, function, X)) == ["outer"]


def test_gradients_of_jax_are_blocks_of_their_scopes(mode: str) -> None:
    def step(w: Any, x: Any) -> Any:
        value, grad = jax.value_and_grad(two_scopes)(w, x)
        return value, w - 0.1 * grad

    program = check(mode, step, W, X)
    names = blocks(program)
    assert {"encoder", "encoder/layers_0", "encoder_backward"} <= set(names)


def test_blocks_of_scopes_are_differentiated(mode: str) -> None:
    program, _ = br.from_jax(two_scopes, W, X)
    with program:
        (grad,) = br.gradients([program.var("out")], [program.var("w")])
    feed = {"w": np.asarray(W), "x": np.asarray(X)}
    found = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[grad])[0]
    np.testing.assert_allclose(found, jax.grad(two_scopes)(W, X), 1e-5)


def test_scopes_in_loops_and_branches_are_blocks(mode: str) -> None:
    def step(x: Any, _: Any) -> Any:
        with jax.named_scope("cell"):
            y = jnp.tanh(x) * 2
        return y - 1, None

    def function(x: Any) -> Any:
        x = jax.lax.scan(step, x, length=3)[0]
        return jax.lax.cond(x.sum() > 0, lambda x: step(x, 0)[0], lambda x: x, x)

    program = check(mode, function, X)
    assert "cell" in str(program)


def test_modules_are_blocks_named_by_their_paths(mode: str) -> None:
    model = Model()
    program = check(mode, lambda x: jnp.sum(model(x)), X)
    assert blocks(program)[:3] == ["model", "model/layers_0", "model/layers_0/up"]
    assert "model/layers_1/down" in blocks(program)


def test_a_module_that_is_called_is_the_program(mode: str) -> None:
    program = check(mode, Model(), X)
    assert blocks(program)[:2] == ["layers_0", "layers_0/up"]


def test_modules_are_unchanged_after_an_import() -> None:
    before = [kind.__call__ for kind in (Linear, Block, Model)]
    model = Model()

    def failing(x: Any) -> Any:
        raise ValueError(str(model(x).shape))

    with pytest.raises(br.BracesError):
        br.from_jax(failing, X)
    br.from_jax(model, X)
    assert [kind.__call__ for kind in (Linear, Block, Model)] == before


def test_custom_gradients_in_scopes_keep_their_gradient(mode: str) -> None:
    @jax.custom_vjp
    def scaled(x: Any) -> Any:
        with jax.named_scope("inside"):
            return jnp.sin(x) * 3

    scaled.defvjp(lambda x: (scaled(x), x), lambda x, g: (g * x * 5,))

    def function(x: Any) -> Any:
        with jax.named_scope("outside"):
            return jnp.sum(scaled(x) + x)

    program, _ = br.from_jax(lambda x: function(x) * 2, X)
    with program:
        (grad,) = br.gradients([program.var("out")], [program.var("x")])
    found = br.Executor(mode=mode).run(
        program, br.Scope(), feed={"x": np.asarray(X)}, fetch=[grad]
    )[0]
    np.testing.assert_allclose(found, jax.grad(lambda x: function(x) * 2)(X), 1e-5)


def test_names_of_deep_scopes_stay_within_the_limit(mode: str) -> None:
    def function(x: Any, depth: int = 8) -> Any:
        with jax.named_scope("a_scope_with_a_long_name_of_its_own"):
            x = jnp.tanh(x) + (function(x, depth - 1) if depth else 1)
        return x * 2

    assert 2 < len(blocks(check(mode, function, X))) < 8
