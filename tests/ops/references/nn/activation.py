"""References of activations and shrinking activations, from the formulas of their sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.elementwise.unary import real

ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805


def gelu(x: Array, approximate: bool) -> Array:
    x = floating(x)
    if approximate:
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    normal = np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2))
    return x * (1 + normal) / 2


def elu(x: Array, alpha: float) -> Array:
    x = floating(x)
    return np.where(x > 0, x, alpha * np.expm1(x)).astype(x.dtype)


def leaky_relu(x: Array, negative_slope: float) -> Array:
    x = floating(x)
    return np.where(x >= 0, x, negative_slope * x).astype(x.dtype)


def celu(x: Array, alpha: float) -> Array:
    x = floating(x)
    return np.where(x > 0, x, alpha * np.expm1(x / alpha)).astype(x.dtype)


def shrunk(x: Array, threshold: float, by: float) -> Array:
    x = floating(x)
    return np.where(np.abs(x) > threshold, x - np.sign(x) * by, 0).astype(x.dtype)


def glu(x: Array, axis: int) -> Array:
    a, b = np.split(floating(x), 2, axis=axis)
    return a / (1 + np.exp(-b))


def wide(rng: Any, shape: Any, dtype: Any) -> Array:
    """Numbers that reach all pieces of a function made of lines."""
    return np.asarray(rng.normal(size=shape) * 4).astype(dtype)


REFERENCES = {
    "relu": Reference(lambda x: np.maximum(x, x.dtype.type(0))),
    "relu6": Reference(real(lambda x: np.clip(x, 0, 6)), inputs={"x": wide}),
    "leaky_relu": Reference(leaky_relu),
    "hard_sigmoid": Reference(real(lambda x: np.clip(x + 3, 0, 6) / 6), inputs={"x": wide}),
    "hard_tanh": Reference(real(lambda x: np.clip(x, -1, 1)), inputs={"x": wide}),
    "elu": Reference(elu),
    "selu": Reference(lambda x: floating(x).dtype.type(SCALE) * elu(x, ALPHA)),
    "gelu": Reference(gelu),
    "silu": Reference(real(lambda x: x / (1 + np.exp(-x)))),
    "mish": Reference(real(lambda x: x * np.tanh(np.log1p(np.exp(x))))),
    "softplus": Reference(real(lambda x: np.log1p(np.exp(x)))),
    "softsign": Reference(real(lambda x: x / (1 + np.abs(x)))),
    "glu": Reference(glu),
    "celu": Reference(celu),
    "hard_shrink": Reference(lambda x, threshold: shrunk(x, threshold, 0)),
    "softshrink": Reference(lambda x, threshold: shrunk(x, threshold, threshold)),
    "tanhshrink": Reference(real(lambda x: x - np.tanh(x))),
    "hard_swish": Reference(real(lambda x: x * np.clip(x + 3, 0, 6) / 6), inputs={"x": wide}),
    "log_sigmoid": Reference(real(lambda x: -np.log1p(np.exp(-x)))),
}
