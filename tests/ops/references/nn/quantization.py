"""References of `braces.ops.nn.quantization`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.ops.reference import Array, Reference, between, positive


def beside(x: Array, parameter: Array, axis: int | None, block: int) -> Array:
    """The scale or zero point of each number."""
    if axis is None:
        return np.broadcast_to(parameter, x.shape)
    at = axis % x.ndim
    places = np.indices(x.shape)
    if not block:
        return parameter[places[at]]
    places[at] //= block
    return parameter[tuple(places)]


def quantize(x: Array, scale: Array, zero: Any, dtype: Any, axis: Any, block: int) -> Array:
    found = x.astype("f8") / beside(x, scale, axis, block).astype("f8")
    if np.dtype(dtype).name.startswith("float"):
        limits = ml_dtypes.finfo(dtype)
        return np.clip(found, float(limits.min), float(limits.max)).astype("f4").astype(dtype)
    limits: Any = ml_dtypes.iinfo(dtype)
    found = np.rint(found)
    found = found if zero is None else found + beside(x, zero, axis, block).astype("f8")
    return np.clip(found, limits.min, limits.max).astype(dtype)


def dequantize(x: Array, scale: Array, zero: Any, axis: Any, block: int) -> Array:
    found = (
        x.astype("f8")
        if zero is None
        else x.astype("f8") - beside(x, zero, axis, block).astype("f8")
    )
    return (found * beside(x, scale, axis, block)).astype(scale.dtype)


SCALES = {"scale": positive, "zero_point": between(0, 9)}
REFERENCES = {
    "quantize": Reference(quantize, inputs=SCALES),
    "dequantize": Reference(dequantize, inputs=SCALES),
}
