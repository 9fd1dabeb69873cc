"""References of `braces.ops.linalg.eig`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.linalg.cholesky import definite, wide


def eig(x: Array, left: bool) -> tuple[Array, ...]:
    """Eigenvalues in NumPy's order, which is LAPACK's; left vectors are those of x^H."""
    dtype = np.result_type(floating(x), "c8")
    values, right = np.linalg.eig(wide(x))
    if left:
        right = np.linalg.inv(right).conj().swapaxes(-1, -2)
        right = right / np.linalg.norm(right, axis=-2, keepdims=True)
    return values.astype(dtype), right.astype(dtype)


def tridiagonal_solve(lower: Array, middle: Array, upper: Array, b: Array) -> Array:
    """The matrix in full, solved as any other."""
    size = middle.shape[-1]
    rows = np.arange(size)
    full = np.zeros((*middle.shape, size), wide(middle).dtype)
    full[..., rows, rows] = middle
    full[..., rows[1:], rows[:-1]] = lower[..., 1:]
    full[..., rows[:-1], rows[1:]] = upper[..., :-1]
    return np.linalg.solve(full, wide(b)).astype(floating(b).dtype)


REFERENCES = {
    "eig": Reference(eig, inputs={"x": definite}, tolerance=1e-4),
    "tridiagonal_solve": Reference(tridiagonal_solve, tolerance=1e-3),
}
