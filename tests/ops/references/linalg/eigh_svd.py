"""References of `braces.ops.linalg.eigh_svd`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Generator, Reference, floating
from tests.ops.references.linalg.cholesky import definite


def spread(rng: Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Matrices whose singular values are at least a half, and as far apart."""
    left, _ = np.linalg.qr(rng.normal(size=(*shape[:-2], shape[-2], shape[-2])))
    right, _ = np.linalg.qr(rng.normal(size=(*shape[:-2], shape[-1], shape[-1])))
    middle = np.zeros(shape[-2:])
    np.fill_diagonal(middle, 0.5 * (1 + np.arange(min(shape[-2:]))))
    return (left @ middle @ right).astype(dtype)


def symmetric(x: Array) -> Array:
    wide = floating(x).astype("f8")
    return (wide + np.swapaxes(wide, -1, -2)) / 2


def narrowed(x: Array, *found: Array) -> tuple[Array, ...]:
    return tuple(np.asarray(one).astype(floating(x).dtype) for one in found)


def svd(x: Array, full_matrices: bool) -> tuple[Array, ...]:
    made = np.linalg.svd(floating(x).astype("f8"), full_matrices=full_matrices)
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
        lambda x: narrowed(x, np.linalg.svd(floating(x).astype("f8"), compute_uv=False))[0],
        inputs=SPREAD,
    ),
}
