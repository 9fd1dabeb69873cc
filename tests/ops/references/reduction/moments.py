"""References of `braces.ops.reduction.moments`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference
from tests.ops.references.reduction.reduce import of_floats


def variance(x: Array, axis: Any, keepdims: bool, correction: float) -> Array:
    return np.var(x, axis=axis, keepdims=keepdims, ddof=correction)


def norm(x: Array, axis: Any, keepdims: bool) -> Array:
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


REFERENCES = {
    "var": Reference(of_floats(variance)),
    "std": Reference(of_floats(lambda x, **attrs: np.sqrt(variance(x, **attrs)))),
    "norm": Reference(of_floats(norm)),
}
