"""References of `braces.ops.nn.local_response_norm`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, floating


def local_response_norm(x: Array, *, size: int, alpha: float, beta: float, k: float) -> Array:
    x = floating(x)
    out = np.zeros_like(x)
    for c in range(x.shape[1]):
        beside = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha / size * (beside**2).sum(1)) ** beta
    return out


REFERENCES = {"local_response_norm": Reference(local_response_norm)}
