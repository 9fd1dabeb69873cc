"""Householder reflections, as LAPACK computes them.

A reflection is `I - tau v vᴴ`. Column `i` of a packed factorization has `v` below the diagonal;
its entry on the diagonal is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.linalg import qr
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
    if not count:
        return a, taus

    def step(at: Any, carried: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = carried
        column = _lax.dynamic_index_in_dim(a, at, a.ndim - 1, keepdims=False)
        v, tau, beta = _reflection(column, at)
        reflected = _reflect(a, v, _np.conj(tau))
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
        return _reflect(q, v, tau)

    unit = _np.broadcast_to(_np.eye(rows, columns, dtype=a.dtype), a.shape)
    return _lax.fori_loop(0, count, step, unit) if count else unit


def pivoted_qr(e: Equation, x: Value) -> Value | Sequence[Value]:
    """The QR decomposition, with the columns in decreasing order if they are pivoted."""
    if not e.params["pivoting"]:
        return qr(e, x)
    (order,) = e.written(_order_columns, x)
    (permuted,) = e.written(_take_columns, x, order)
    return [*qr(e, permuted), order]


def _take_columns(x: Any, order: Any) -> Any:
    return _np.take_along_axis(x, order[..., None, :], axis=-1)


def _order_columns(a: Any) -> Any:
    """Return the order of columns in which each has the largest remainder (`geqp3`)."""
    rows, columns = a.shape[-2:]
    places, names = _np.arange(rows)[:, None], _np.arange(columns, dtype=np.int32)
    order = _np.broadcast_to(names, (*a.shape[:-2], columns))
    if not min(rows, columns):
        return order

    def step(at: Any, carried: tuple[Any, Any]) -> tuple[Any, Any]:
        a, order = carried
        below = _np.where(places >= at, (a * a.conj()).real, 0).sum(-2)
        best = _np.argmax(_np.where(names >= at, below, -1), axis=-1)[..., None]
        order = _exchange(order, names, at, best)
        a = _exchange(a, names, at, best[..., None])
        column = _lax.dynamic_index_in_dim(a, at, a.ndim - 1, keepdims=False)
        v, tau, _ = _reflection(column, at)
        return _reflect(a, v, _np.conj(tau)), order

    return _lax.fori_loop(0, min(rows, columns), step, (_lax.stop_gradient(a), order))[1]


def _exchange(x: Any, names: Any, at: Any, best: Any) -> Any:
    """Exchange two columns, the second one by its index in each matrix."""
    zero = _np.zeros((), x.dtype)
    first = _np.where(names == at, x, zero).sum(-1, keepdims=True, dtype=x.dtype)
    second = _np.where(names == best, x, zero).sum(-1, keepdims=True, dtype=x.dtype)
    return _np.where(names == at, second, _np.where(names == best, first, x))


def _reflect(a: Any, v: Any, tau: Any) -> Any:
    """Return `(I - tau v vᴴ) a`."""
    product = _np.einsum("...m,...mn->...n", v.conj(), a)
    return a - tau[..., None, None] * v[..., :, None] * product[..., None, :]


FACTORIZATIONS: Mapping[str, Rule] = {
    "geqrf": packed_qr,
    "householder_product": product_of_reflections,
    "qr": pivoted_qr,
}
