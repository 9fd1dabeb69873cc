"""References of `braces.ops.linalg.cholesky`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Generator, Reference
from tests.ops.references.elementwise.unary import floating


def definite(rng: Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Symmetric matrices whose smallest eigenvalue is two or more."""
    half = rng.normal(size=shape)
    return (half @ np.swapaxes(half, -1, -2) + 2 * np.eye(shape[-1])).astype(dtype)


def cholesky(x: Array) -> Array:
    """NumPy's, of the symmetric part."""
    wide = floating(x).astype("f8")
    made = np.linalg.cholesky((wide + np.swapaxes(wide, -1, -2)) / 2)
    return made.astype(floating(x).dtype)


def triangular_solve(
    a: Array, b: Array, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Array:
    """The triangle alone, solved as any matrix is."""
    part = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        eye = np.eye(a.shape[-1], dtype=a.dtype)
        part = part * (1 - eye) + eye
    part = np.swapaxes(part, -1, -2) if transpose_a else part
    return np.linalg.solve(part, b)


REFERENCES = {
    "cholesky": Reference(cholesky, inputs={"x": definite}),
    "triangular_solve": Reference(triangular_solve, inputs={"a": definite}, tolerance=1e-4),
}
