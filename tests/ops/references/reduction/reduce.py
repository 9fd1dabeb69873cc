"""References of `braces.ops.reduction.reduce`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, apart, floating


def total(function: Any) -> Any:
    """A sum or product; small integers and bools give int64."""

    def reference(x: Array, axis: Any, keepdims: bool) -> Array:
        dtype = np.int64 if x.dtype.kind in "bi" else x.dtype
        return function(x, axis=axis, keepdims=keepdims, dtype=dtype)

    return reference


def of_floats(function: Any) -> Any:
    """A NumPy function of floats, along axes."""

    def reference(x: Array, **attrs: Any) -> Array:
        x = floating(x)
        return np.asarray(function(x, **attrs)).astype(x.dtype)

    return reference


REFERENCES = {
    "sum": Reference(total(np.sum)),
    "mean": Reference(of_floats(np.mean)),
    "prod": Reference(total(np.prod)),
    "max": Reference(np.max, inputs={"x": apart}, empty=False),
    "min": Reference(np.min, inputs={"x": apart}, empty=False),
    "any": Reference(np.any),
    "all": Reference(np.all),
}
