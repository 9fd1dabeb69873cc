"""References of `braces.ops.reduction.sort`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, apart


def argsort(x: Array, axis: int, descending: bool) -> Array:
    """Stable in both directions."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - backwards


def sort(x: Array, axis: int, descending: bool) -> Array:
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


def topk(x: Array, k: int, axis: int) -> tuple[Array, Array]:
    indices = np.take(argsort(x, axis, True), range(k), axis)
    return np.take_along_axis(x, indices, axis), indices


def running(function: Any) -> Any:
    """Running totals, from either end."""

    def reference(x: Array, axis: int | None, reverse: bool) -> Array:
        axis = axis or 0
        dtype = np.int64 if x.dtype.kind in "bi" else x.dtype
        if reverse:
            return np.flip(function(np.flip(x, axis), axis=axis, dtype=dtype), axis)
        return function(x, axis=axis, dtype=dtype)

    return reference


REFERENCES = {
    "argmax": Reference(np.argmax, empty=False),
    "argmin": Reference(np.argmin, empty=False),
    "sort": Reference(sort, inputs={"x": apart}),
    "argsort": Reference(argsort),
    "topk": Reference(topk, inputs={"x": apart}, empty=False),
    "cumsum": Reference(running(np.cumsum)),
    "cumprod": Reference(running(np.cumprod)),
}
