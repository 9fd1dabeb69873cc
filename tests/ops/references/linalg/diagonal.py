"""References of `braces.ops.linalg.diagonal`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def diag(x: Array, k: int) -> Array:
    """By loops: NumPy refuses diagonals that lie outside of the matrix."""
    if x.ndim == 1:
        out = np.zeros((len(x) + abs(k),) * 2, x.dtype)
        for i, value in enumerate(x):
            out[i - min(k, 0), i + max(k, 0)] = value
        return out
    rows, columns = x.shape
    found = [x[i, i + k] for i in range(rows) if 0 <= i + k < columns]
    return np.array(found, x.dtype)


REFERENCES = {
    "tril": Reference(np.tril),
    "triu": Reference(np.triu),
    "diag": Reference(diag),
}
