"""References of `braces.ops.linalg.einsum`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def einsum(*xs: Array, equation: str) -> Array:
    return np.asarray(np.einsum(equation, *xs))


REFERENCES = {"einsum": Reference(einsum)}
