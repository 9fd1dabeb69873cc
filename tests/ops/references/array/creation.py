"""References of `braces.ops.array.creation`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference


def linspace(start: float, stop: float, num: int, endpoint: bool, dtype: Any) -> Array:
    return np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)


REFERENCES = {
    "constant": Reference(lambda value: value.array()),
    "full": Reference(lambda shape, value, dtype: np.full(shape, value, dtype)),
    "zeros_like": Reference(lambda x, dtype: np.zeros(x.shape, dtype or x.dtype)),
    "ones_like": Reference(lambda x, dtype: np.ones(x.shape, dtype or x.dtype)),
    "full_like": Reference(lambda x, value, dtype: np.full(x.shape, value, dtype or x.dtype)),
    "size": Reference(lambda value, dtype: np.asarray(value, dtype)),
    "arange": Reference(lambda start, stop, step, dtype: np.arange(start, stop, step, dtype)),
    "linspace": Reference(linspace),
    "eye": Reference(lambda n, m, k, dtype: np.eye(n, m, k, dtype)),
}
