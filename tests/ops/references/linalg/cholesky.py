"""References of `braces.ops.linalg.cholesky`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Generator, Reference
from tests.ops.references.elementwise.unary import floating


def definite(rng: Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Symmetric matrices whose smallest eigenvalue is two or more."""
    half = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        half = half + 1j * rng.normal(size=shape)
    squared = half @ np.swapaxes(half, -1, -2).conj()
    return (squared + 2 * np.eye(shape[-1])).astype(dtype)


def wide(x: Array) -> Array:
    """The numbers in double precision."""
    return floating(x).astype("c16" if x.dtype.kind == "c" else "f8")


def cholesky(x: Array) -> Array:
    """NumPy's, of the symmetric part."""
    made = np.linalg.cholesky((wide(x) + np.swapaxes(wide(x), -1, -2).conj()) / 2)
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
