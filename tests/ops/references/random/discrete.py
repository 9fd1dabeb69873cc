"""References of `braces.ops.random.discrete`, from the bits of `references.random`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.random.stateless import bits, in_each_trip, key_of, split, uniform


def chosen(key: Array, shape: Any, probability: float) -> Array:
    return uniform(key, shape, np.float32) < np.float32(probability)


def random_bernoulli(
    state: Array, *trips: Array, shape: Any, probability: float, salt: int
) -> Array:
    return chosen(key_of(state, salt, trips), shape, probability)


def random_randint(
    state: Array, *trips: Array, shape: Any, low: int, high: int, dtype: Any, salt: int
) -> Array:
    """A number of twice the width, modulo the number of integers."""
    width = max(8 * np.dtype(dtype).itemsize, 32)
    upper, lower = (
        bits(key, width, tuple(shape)).astype(object)
        for key in split(key_of(state, salt, trips))
    )
    wide = upper * 2**width + lower
    return np.asarray(low + wide % (high - low)).astype(dtype)


def gumbel(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Two draws where the first is below a half, for more bits near zero."""
    high, low = uniform(key, (2, *shape), dtype)
    info = np.finfo(dtype)
    fine = (high + np.asarray(2.0**-info.nmant, dtype) * low + info.tiny).astype(dtype)
    x = np.where(high >= 0.5, high, fine).astype(np.float64)
    return (-np.log(-np.log1p(-x))).astype(dtype)


def random_categorical(
    state: Array, logits: Array, *trips: Array, axis: int, salt: int
) -> Array:
    if not logits.size:
        return np.zeros(np.delete(logits.shape, axis), np.int64)
    noise = gumbel(key_of(state, salt, trips), logits.shape, logits.dtype)
    return (logits + noise).argmax(axis)


def random_permutation(state: Array, *trips: Array, size: int, salt: int) -> Array:
    """Sorted by random keys, as often as makes a tie in all of them unlikely."""
    key, found = key_of(state, salt, trips), np.arange(size)
    for _ in range(int(np.ceil(3 * np.log(max(1, size)) / np.log(2**32 - 1)))):
        key, other = split(key)
        found = found[np.argsort(bits(other, 32, (size,)), kind="stable")]
    return found


def dropout(
    state: Array, x: Array, *trips: Array, rate: float, training: bool, salt: int
) -> Array:
    x = floating(x)
    if not training or rate == 0:
        return x
    if rate == 1:
        return np.zeros_like(x)
    kept = chosen(key_of(state, salt, trips), x.shape, 1 - rate)
    return np.where(kept, x / np.asarray(1 - rate, x.dtype), 0).astype(x.dtype)


def of_bernoulli(attrs: Any) -> tuple[float, float] | None:
    p = attrs["probability"]
    return (p, np.sqrt(p * (1 - p))) if 0 < p < 1 else None


def of_integers(attrs: Any) -> tuple[float, float]:
    low, high = attrs["low"], attrs["high"]
    return (low + high - 1) / 2, np.sqrt(((high - low) ** 2 - 1) / 12)


REFERENCES = {
    "random_bernoulli": Reference(
        in_each_trip(random_bernoulli), smooth=False, moments=of_bernoulli
    ),
    "random_randint": Reference(
        in_each_trip(random_randint), smooth=False, moments=of_integers
    ),
    "random_categorical": Reference(in_each_trip(random_categorical, rows=1), smooth=False),
    "random_permutation": Reference(in_each_trip(random_permutation), smooth=False),
    "dropout": Reference(in_each_trip(dropout, rows=1)),
}
