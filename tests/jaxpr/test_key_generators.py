"""Keys of any generator of JAX: the bits are those of JAX, on CPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random

import braces as br

pytestmark = pytest.mark.unoptimized
SEED = np.asarray(7, "i4")
Draw = Callable[[Any], Any]


def compare(function: Draw, mode: str, *arrays: Any) -> None:
    """Integers are equal, and floats up to rounding."""
    prog, _ = br.from_jax(function, *arrays)
    feed = dict(zip(prog.feeds, arrays, strict=True))
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, list(prog.fetches))
    for mine, theirs in zip(got, jax.tree.leaves(jax.jit(function)(*arrays)), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-6 * (mine.dtype.kind == "f"))


def keys_of(key: Any) -> list[Any]:
    """Keys derived from keys, one by one and by a batch of numbers."""
    several = random.split(key, (3, 1))
    folded = jax.vmap(jax.vmap(random.fold_in, (0, None)))(several, jnp.arange(3))
    shared = jax.vmap(random.fold_in, (None, 0))(key, jnp.arange(2))
    return [random.key_data(k) for k in (key, several, folded, shared)]


def draws_of(key: Any) -> list[Any]:
    """Draws of several widths, also from each key of a batch, and in a loop."""
    each = jax.vmap(lambda k: random.normal(k, (2,)))(random.split(key, 3))
    _, loop = lax.scan(lambda k, _: (random.split(k)[0], random.uniform(k)), key, None, 3)
    gamma = random.gamma(key, jnp.asarray([0.5, 2.0]))
    return [each, loop, gamma, random.bits(key, (5,), "uint8"), random.permutation(key, 9)]


@pytest.mark.parametrize("draw", [keys_of, draws_of])
@pytest.mark.parametrize("name", ["rbg", "unsafe_rbg"])
def test_keys_and_draws_are_those_of_jax(name: str, draw: Draw, mode: str) -> None:
    compare(lambda seed: draw(random.key(seed, impl=name)), mode, SEED)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_counters_of_philox_carry(width: int, mode: str) -> None:
    """Both the counter of 64 bits and that of 128 bits overflow."""

    def draw(key: Any, wide: Any) -> Any:
        bits = (lax.rng_bit_generator(k, (3, 7), f"uint{width}") for k in (key, wide))
        return [*bits]

    with jax.enable_x64(True):
        key = np.array([1, 2, 2**32 - 2, 2**32 - 1], "u4")
        compare(draw, mode, key, np.array([2**64 - 5, 2**64 - 2], "u8"))
