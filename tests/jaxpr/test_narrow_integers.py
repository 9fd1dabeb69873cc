"""Integers of less than 8 bits, their bits, and integer arithmetic at its limits, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import braces as br

pytestmark = pytest.mark.unoptimized
RANDOM = np.random.default_rng(0)


def compare(function: Callable[..., Any], mode: str, *arrays: Any) -> None:
    prog, _ = br.from_jax(function, *arrays)
    feed = dict(zip(prog.feeds, arrays, strict=True))
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, list(prog.fetches))
    for mine, theirs in zip(got, jax.tree.leaves(jax.jit(function)(*arrays)), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, np.asarray(theirs))


def pairs(name: str) -> tuple[Any, Any]:
    """All pairs of numbers of a dtype."""
    info = ml_dtypes.iinfo(name)
    numbers = np.arange(int(info.min), int(info.max) + 1)
    return tuple(x.astype(name) for x in np.meshgrid(numbers, numbers, indexing="ij"))


def arithmetic(x: Any, y: Any) -> list[Any]:
    """Functions of two numbers, those that shift by `y` and divide by it among them."""
    functions = (
        lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.lt, lax.ge, lax.eq, lax.bitwise_and,
        lax.bitwise_or, lax.bitwise_xor, lax.shift_left, lax.shift_right_logical,
        lax.shift_right_arithmetic,
    )  # fmt: skip
    divisor = jnp.where(y == 0, jnp.ones_like(y), y)
    rest = (lax.div(x, divisor), lax.rem(x, divisor), lax.neg(x), lax.sign(x), lax.clz(x), ~x)
    return [*(function(x, y) for function in functions), *rest, x * 3 + 1, x**3]


def arrays_of(x: Any, y: Any) -> list[Any]:
    """Reductions, products and moves."""
    return [
        x.max(0), x.argmin(1), lax.cumsum(x, 1), jnp.sort(x, 1), x @ y,
        x.at[0].add(y[1]), x.at[jnp.asarray([1, 0])].set(y[:2]), jnp.concatenate([x, y]).T,
        lax.scan(lambda c, row: (c + row, c * row), x[0], y), jnp.where(x > y, x, -y),
        lax.conv_general_dilated(x[None, None], y[None, None, :3, :3], (1, 1), "SAME"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_arithmetic_wraps_around(name: str, mode: str) -> None:
    compare(arithmetic, mode, *pairs(name))


def test_functions_of_arrays(mode: str) -> None:
    compare(arrays_of, mode, *pairs("int4"))


def test_bits_are_counted_in_the_narrow_dtype(mode: str) -> None:
    """XLA counts the bits of int4 in 8 bits on CPUs."""
    x, _ = pairs("int4")
    prog, _ = br.from_jax(lax.population_count, x[:, 0])
    (got,) = br.Executor(mode=mode).run(prog, br.Scope(), {prog.feeds[0]: x[:, 0]})
    assert [int(n) for n in got] == [(n % 16).bit_count() for n in range(-8, 8)]


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("float32", "uint8", (2, 3)),
        ("uint8", "float32", (2, 4)),
        ("int32", "uint16", ()),
        ("float32", "uint4", (2,)),
        ("uint4", "int32", (2, 8)),
        ("uint8", "int4", (2,)),
        ("int4", "uint8", (3, 2)),
        ("int4", "uint4", (3,)),
        ("int2", "uint4", (5, 2)),
        ("bfloat16", "int2", (3,)),
    ],
)
def test_bits_of_another_width(
    source: str, target: str, shape: tuple[int, ...], mode: str
) -> None:
    x = RANDOM.integers(-2, 2, shape)
    x = x.astype(np.dtype(getattr(ml_dtypes, source, source)))
    compare(lambda x: lax.bitcast_convert_type(x, target), mode, x)


@pytest.mark.parametrize("name", ["i1", "u1", "i2", "i4", "u4", "i8"])
def test_integer_convolutions_are_exact(name: str, mode: str) -> None:
    limits = np.iinfo(name)
    x, weight = (
        RANDOM.integers(limits.min, limits.max, shape, dtype=name)
        for shape in ((1, 2, 4, 4), (3, 2, 3, 3))
    )
    with jax.enable_x64(True):
        compare(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"), mode, x, weight)


@pytest.mark.parametrize("name", ["i1", "u1", "i4", "u4"])
def test_division_by_zero_and_arithmetic_shifts(name: str, mode: str) -> None:
    limits = np.iinfo(name)
    x = np.array([limits.min, limits.max, 3, limits.max // 2 + 1, 0], name)

    def function(x: Any, y: Any) -> Any:
        shifted = lax.shift_right_arithmetic(x, jnp.full_like(x, 2))
        return lax.div(x, y), lax.rem(x, y), lax.div(x, jnp.full_like(x, 3)), shifted

    compare(function, mode, x, np.array([0, 0, 0, 2, 0], name))
