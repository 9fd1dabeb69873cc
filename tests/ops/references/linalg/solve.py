"""References of `braces.ops.linalg.solve`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.linalg.cholesky import definite, wide


def solve(a: Array, b: Array) -> Array:
    dtype = np.result_type(floating(a), floating(b))
    columns = b[:, None] if b.ndim == 1 else b
    made = np.linalg.solve(wide(a), wide(columns))
    return (made[..., 0] if b.ndim == 1 else made).astype(dtype)


def inv(x: Array) -> Array:
    return np.linalg.inv(wide(x)).astype(floating(x).dtype)


def slogdet(x: Array) -> tuple[Array, Array]:
    x = floating(x)
    sign, logabsdet = np.linalg.slogdet(wide(x))
    return np.asarray(sign).astype(x.dtype), np.asarray(logabsdet).astype(x.real.dtype)


REFERENCES = {
    "solve": Reference(solve, inputs={"a": definite}, tolerance=1e-4),
    "inv": Reference(inv, inputs={"x": definite}, tolerance=1e-4),
    "slogdet": Reference(slogdet, inputs={"x": definite}),
}
