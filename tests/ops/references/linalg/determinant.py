"""References of `braces.ops.linalg.determinant`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, floating


def det(x: Array) -> Array:
    x = floating(x)
    return np.asarray(np.linalg.det(x)).astype(x.dtype)


REFERENCES = {"det": Reference(det)}
