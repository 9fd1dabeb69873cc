"""References of `braces.ops.elementwise.unary`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, apart, floating, positive


def real(function: Any) -> Any:
    """A NumPy function of floats."""
    return lambda x: function(floating(x))


def rounded(function: Any) -> Any:
    """A NumPy function that rounds floats and leaves integers alone."""
    return lambda x: x if x.dtype.kind in "iu" else function(x)


def sign(x: Array) -> Array:
    return ((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)).astype(x.dtype)


def some(rng: Any, shape: Any, dtype: Any) -> Array:
    """Numbers to round, halves among them."""
    numbers = rng.integers(-8, 9, shape) / 2
    return numbers.astype(dtype)


REFERENCES = {
    "negative": Reference(np.negative),
    "abs": Reference(np.abs, inputs={"x": apart}),
    "sign": Reference(sign),
    "square": Reference(np.square),
    "reciprocal": Reference(real(np.reciprocal), inputs={"x": positive}),
    "sqrt": Reference(real(np.sqrt), inputs={"x": positive}),
    "rsqrt": Reference(real(lambda x: 1 / np.sqrt(x)), inputs={"x": positive}),
    "exp": Reference(real(np.exp)),
    "expm1": Reference(real(np.expm1)),
    "log": Reference(real(np.log), inputs={"x": positive}),
    "log1p": Reference(real(np.log1p), inputs={"x": positive}),
    "log2": Reference(real(np.log2), inputs={"x": positive}),
    "floor": Reference(rounded(np.floor), inputs={"x": some}),
    "ceil": Reference(rounded(np.ceil), inputs={"x": some}),
    "trunc": Reference(rounded(np.trunc), inputs={"x": some}),
    "round": Reference(rounded(np.round), inputs={"x": some}),
}
