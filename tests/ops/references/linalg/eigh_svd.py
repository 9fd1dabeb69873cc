"""References of `braces.ops.linalg.eigh_svd`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Generator, Reference, floating, numbers
from tests.ops.references.linalg.cholesky import definite, wide


def spread(rng: Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Matrices whose singular values are at least a half, and as far apart."""
    kind = np.dtype("c16" if np.dtype(dtype).kind == "c" else "f8")
    left, _ = np.linalg.qr(numbers(rng, (*shape[:-2], shape[-2], shape[-2]), kind))
    right, _ = np.linalg.qr(numbers(rng, (*shape[:-2], shape[-1], shape[-1]), kind))
    middle = np.zeros(shape[-2:])
    np.fill_diagonal(middle, 0.5 * (1 + np.arange(min(shape[-2:]))))
    return (left @ middle @ right).astype(dtype)


def symmetric(x: Array) -> Array:
    made = wide(x)
    return (made + np.swapaxes(made, -1, -2).conj()) / 2


def narrowed(x: Array, *found: Array) -> tuple[Array, ...]:
    dtype = floating(x).dtype
    kinds = [np.asarray(one) for one in found]
    real = np.zeros(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return tuple(one.astype(dtype if one.dtype.kind == "c" else real) for one in kinds)


def svd(x: Array, full_matrices: bool) -> tuple[Array, ...]:
    made = np.linalg.svd(wide(x), full_matrices=full_matrices)
    return narrowed(x, *made)


SPREAD = {"x": spread}
REFERENCES = {
    "eigh": Reference(
        lambda x: narrowed(x, *np.linalg.eigh(symmetric(x))),
        inputs={"x": definite},
        tolerance=1e-4,
    ),
    "eigvalsh": Reference(
        lambda x: narrowed(x, np.linalg.eigvalsh(symmetric(x)))[0], inputs={"x": definite}
    ),
    "svd": Reference(svd, inputs=SPREAD, tolerance=1e-4),
    "svdvals": Reference(
        lambda x: narrowed(x, np.linalg.svd(wide(x), compute_uv=False))[0],
        inputs=SPREAD,
    ),
}
