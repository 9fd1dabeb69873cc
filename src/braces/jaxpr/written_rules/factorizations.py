"""Householder reflections, as LAPACK computes them.

A reflection is `I - tau v vᴴ`. Column `i` of a packed factorization has `v` below the diagonal;
its entry on the diagonal is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.lazy import jnp, lax

_np: Any = jnp
_lax: Any = lax


def packed_qr(e: Equation, x: Value) -> list[Value]:
    """The packed QR decomposition (`geqrf`): `R` and the reflections, and their factors."""
    return e.written(_reduce_columns, x)


def _reduce_columns(a: Any) -> tuple[Any, Any]:
    """Reflect the columns of matrices one after the other."""
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    places = _np.arange(rows)
    taus = _np.zeros((*a.shape[:-2], count), a.dtype)

    def step(at: Any, carried: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = carried
        column = _lax.dynamic_index_in_dim(a, at, a.ndim - 1, keepdims=False)
        v, tau, beta = _reflection(column, at)
        product = _np.einsum("...m,...mn->...n", v.conj(), a)
        reflected = a - _np.conj(tau)[..., None, None] * v[..., :, None] * product[..., None, :]
        is_right = _np.arange(columns) > at
        packed = _np.where(places > at, v, _np.where(places == at, beta[..., None], column))
        is_here = _np.arange(columns) == at
        a = _np.where(is_here, packed[..., None], _np.where(is_right, reflected, a))
        taus = _np.where(_np.arange(count) == at, tau[..., None], taus)
        return a, taus

    return _lax.fori_loop(0, count, step, (a, taus))


def _reflection(column: Any, at: Any) -> tuple[Any, Any, Any]:
    """Return the vector and factor that clear a column below a row, and the entry left."""
    places = _np.arange(column.shape[-1])
    zero = _np.zeros((), column.dtype)
    alpha = _np.where(places == at, column, zero).sum(-1)
    below = _np.where(places > at, column, zero)
    square = (below * below.conj()).real.sum(-1)
    is_done = (square == 0) & (alpha.imag == 0)
    norm = _np.sqrt(_np.where(is_done, 1, (alpha * alpha.conj()).real + square))
    beta = _np.where(alpha.real >= 0, -norm, norm).astype(column.dtype)
    safe_beta = _np.where(is_done, _np.ones((), column.dtype), beta)
    tau = _np.where(is_done, zero, (safe_beta - alpha) / safe_beta)
    scale = _np.where(is_done, _np.ones((), column.dtype), alpha - safe_beta)
    unit = _np.where(places == at, _np.ones((), column.dtype), zero)
    v = _np.where(places > at, below / scale[..., None], unit)
    return v, tau, _np.where(is_done, alpha, beta)


def product_of_reflections(e: Equation, x: Value, taus: Value) -> list[Value]:
    """The first columns of the product of the reflections of a packed QR decomposition."""
    return e.written(_multiply_reflections, x, taus)


def _multiply_reflections(a: Any, taus: Any) -> Any:
    """Apply the reflections to unit vectors, the last one first."""
    rows, columns = a.shape[-2:]
    count: int = taus.shape[-1]
    places = _np.arange(rows)

    def step(index: Any, q: Any) -> Any:
        at = count - 1 - index
        column = _lax.dynamic_index_in_dim(a, at, a.ndim - 1, keepdims=False)
        tau = _lax.dynamic_index_in_dim(taus, at, taus.ndim - 1, keepdims=False)
        zero, unit_entry = _np.zeros((), a.dtype), _np.ones((), a.dtype)
        v = _np.where(places > at, column, _np.where(places == at, unit_entry, zero))
        product = _np.einsum("...m,...mn->...n", v.conj(), q)
        return q - tau[..., None, None] * v[..., :, None] * product[..., None, :]

    unit = _np.broadcast_to(_np.eye(rows, columns, dtype=a.dtype), a.shape)
    return _lax.fori_loop(0, count, step, unit)


FACTORIZATIONS: Mapping[str, Rule] = {
    "geqrf": packed_qr,
    "householder_product": product_of_reflections,
}
