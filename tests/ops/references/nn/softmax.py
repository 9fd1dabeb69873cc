"""References of `braces.ops.nn.softmax`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.reduction.reduce import of_floats


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(floating(x))
    return powers / powers.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Array:
    x = floating(x)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


def logsumexp(x: Array, axis: Any, keepdims: bool) -> Array:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


REFERENCES = {
    "softmax": Reference(softmax),
    "log_softmax": Reference(log_softmax),
    "logsumexp": Reference(of_floats(logsumexp)),
}
