"""References of `braces.ops.elementwise.arithmetic`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from tests.ops.reference import Array, Reference, apart, floating, positive


def promote(*arrays: Array) -> tuple[Array, ...]:
    """Arrays in one dtype: a float wins over integers, whatever their sizes."""
    floats = [x.dtype for x in arrays if x.dtype.kind in "fc"]
    dtype = np.result_type(*(floats or arrays))
    return tuple(x.astype(dtype) for x in arrays)


def binary(function: Any, *, real: bool = False) -> Any:
    """A NumPy function of two arrays, on promoted ones; `real` makes floats of integers."""

    def reference(x: Array, y: Array) -> Array:
        x, y = promote(x, y)
        return function(floating(x), floating(y)) if real else function(x, y)

    return reference


def power(x: Array, y: Array) -> Array:
    if x.dtype.kind == "i" and y.dtype.kind == "i":
        return np.vectorize(lambda a, b: int(a) ** int(b), otypes=[x.dtype])(x, y)
    return binary(np.power)(x, y)


def natural(rng: Any, shape: Any, dtype: Any) -> Array:
    """Positive floats, small integers that are not negative."""
    if dtype.kind in "iu":
        return rng.integers(0, 4, shape).astype(dtype)
    return positive(rng, shape, dtype)


REFERENCES = {
    "add": Reference(binary(np.add)),
    "subtract": Reference(binary(np.subtract)),
    "multiply": Reference(binary(np.multiply)),
    "divide": Reference(binary(np.divide, real=True), inputs={"y": apart}),
    "floor_divide": Reference(binary(np.floor_divide), inputs={"x": apart, "y": positive}),
    "remainder": Reference(binary(np.remainder), inputs={"y": apart}, tolerance=1e-4),
    "pow": Reference(power, inputs={"x": natural, "y": natural}),
    "arctan2": Reference(binary(np.arctan2, real=True)),
    "hypot": Reference(binary(np.hypot, real=True)),
    "xlogy": Reference(binary(special.xlogy, real=True), inputs={"y": positive}),
    "xlog1py": Reference(binary(special.xlog1py, real=True), inputs={"y": positive}),
    "logaddexp": Reference(binary(np.logaddexp, real=True)),
    "cast": Reference(lambda x, dtype: x.astype(dtype), smooth=False),
    "stop_gradient": Reference(lambda x: x),
}
