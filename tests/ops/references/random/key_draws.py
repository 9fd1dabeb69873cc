"""References of `braces.ops.random.key_draws`: distributions of Threefry bits, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from tests.ops.reference import Array, Reference, between
from tests.ops.references.random.key_bits import in_each_key
from tests.ops.references.random.stateless import bits, normal, split, uniform


def uniform_of_key(key: Array, *, shape: Any, low: float, high: float, dtype: Any) -> Array:
    return uniform(key, shape, dtype, low, high)


def truncated_normal_of_key(
    key: Array, *, shape: Any, low: float, high: float, dtype: Any
) -> Array:
    ends = (special.erf(np.asarray(x, dtype) / np.sqrt(2)).astype(dtype) for x in (low, high))
    drawn = uniform(key, shape, dtype, *ends).astype(np.float64)
    return np.clip(np.sqrt(2) * special.erfinv(drawn), low, high).astype(dtype)


def bernoulli_of_key(key: Array, p: Array, *, shape: Any) -> Array:
    return uniform(key, shape, p.dtype) < p


def randint_of_key(key: Array, low: Array, high: Array, *, shape: Any, dtype: Any) -> Array:
    width = 8 * np.dtype(dtype).itemsize
    words = [bits(k, width, shape).astype(object) for k in split(key)]
    whole = words[0] * 2**width + words[1]
    span = np.maximum(np.asarray(high, object) - np.asarray(low, object), 1)
    return np.asarray(whole % span + np.asarray(low, object)).astype(dtype).reshape(shape)


def normal_of_key(key: Array, *, shape: Any, dtype: Any) -> Array:
    return normal(key, shape, dtype)


def gumbel_of_key(key: Array, *, shape: Any, dtype: Any) -> Array:
    drawn = uniform(key, shape, dtype, np.finfo(dtype).tiny, 1).astype(np.float64)
    return (-np.log(-np.log(drawn))).astype(dtype)


def exponential_of_key(key: Array, *, shape: Any, dtype: Any) -> Array:
    return (-np.log1p(-uniform(key, shape, dtype).astype(np.float64))).astype(dtype)


REFERENCES = {
    "uniform_of_key": Reference(in_each_key(uniform_of_key), smooth=False),
    "truncated_normal_of_key": Reference(
        in_each_key(truncated_normal_of_key), smooth=False, tolerance=1e-4
    ),
    "bernoulli_of_key": Reference(
        in_each_key(bernoulli_of_key), inputs={"p": between(0, 1)}, smooth=False
    ),
    "randint_of_key": Reference(
        in_each_key(randint_of_key),
        inputs={"low": between(0, 5), "high": between(4, 90)},
        smooth=False,
    ),
    "normal_of_key": Reference(in_each_key(normal_of_key), smooth=False, tolerance=1e-4),
    "gumbel_of_key": Reference(in_each_key(gumbel_of_key), smooth=False, tolerance=1e-4),
    "exponential_of_key": Reference(
        in_each_key(exponential_of_key), smooth=False, tolerance=1e-4
    ),
}
