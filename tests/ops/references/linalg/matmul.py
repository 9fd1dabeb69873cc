"""References of `braces.ops.linalg.matmul`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def outer(x: Array, y: Array) -> Array:
    return x[:, None] * y[None, :]


REFERENCES = {
    "transpose": Reference(np.transpose),
    "matrix_transpose": Reference(lambda x: np.swapaxes(x, -1, -2)),
    "matmul": Reference(np.matmul),
    "dot": Reference(np.dot),
    "outer": Reference(outer),
    "tensordot": Reference(np.tensordot),
}
