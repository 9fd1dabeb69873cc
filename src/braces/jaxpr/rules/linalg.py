"""Rules of primitives on matrices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.jaxpr.core.custom_derivatives import (
    has_own_gradient,
    standing,
    with_gradient_of_jax,
)
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype
from braces.lazy import extend, jax, jnp, lax

_jax: Any = jax
_np: Any = jnp
_lax: Any = lax


def _matrix(e: Equation, x: Value) -> Var:
    """A matrix of real numbers."""
    found = e.lift(x)
    if found.dtype.kind == "c":
        e.refuse("of complex numbers")
    return found


def _mirrored(x: Var, lower: bool = True) -> Var:
    """The symmetric matrix of one triangle, which is all that JAX reads."""
    kept, other = ("tril", "triu") if lower else ("triu", "tril")
    beside = one(other, one("matrix_transpose", one(kept, x)), k=1 if lower else -1)
    return one(kept, x) + beside


def _plain(e: Equation, *names: str) -> None:
    """Refuse what is asked for in these parameters."""
    for name in names:
        if e.params[name]:
            e.refuse(f"with {name}={e.params[name]}")


def cholesky(e: Equation, x: Value) -> Var:
    """The triangular factor of a matrix, of which JAX reads the lower triangle."""
    return one("cholesky", _mirrored(_matrix(e, x)))


def triangular_solve(e: Equation, a: Value, b: Value) -> Var:
    """The solution of triangular equations, from the right as that of transposed ones."""
    left, right, params = _matrix(e, a), _matrix(e, b), e.params
    attrs = {"lower": params["lower"], "unit_diagonal": params["unit_diagonal"]}
    if params["left_side"]:
        return one("triangular_solve", left, right, transpose_a=params["transpose_a"], **attrs)
    turned = one("matrix_transpose", right)
    made = one("triangular_solve", left, turned, transpose_a=not params["transpose_a"], **attrs)
    return one("matrix_transpose", made)


def eigh(e: Equation, x: Value) -> tuple[Var, Var]:
    """Eigenvectors and eigenvalues of a matrix, of which JAX reads one triangle."""
    _plain(e, "subset_by_index")
    whole = _mirrored(_matrix(e, x), e.params["lower"])
    made = apply("eigh", {"x": (whole,)})
    return made["eigenvectors"][0], made["eigenvalues"][0]


def svd(e: Equation, x: Value) -> list[Var]:
    """Singular values, and their vectors where they are asked for."""
    _plain(e, "subset_by_index")
    matrix = _matrix(e, x)
    if not e.params["compute_uv"]:
        return [one("svdvals", matrix)]
    made = apply("svd", {"x": (matrix,)}, {"full_matrices": e.params["full_matrices"]})
    return [made[slot][0] for slot in ("s", "u", "vh")]


def qr(e: Equation, x: Value) -> list[Var]:
    """An orthogonal matrix and a triangle."""
    _plain(e, "pivoting")
    mode = "complete" if e.params["full_matrices"] else "reduced"
    made = apply("qr", {"x": (_matrix(e, x),)}, {"mode": mode})
    return [made[slot][0] for slot in ("q", "r")]


def lu(e: Equation, x: Value) -> list[Var]:
    """Two triangles in one matrix, and how rows were exchanged."""
    made = apply("lu", {"x": (_matrix(e, x),)})
    return [made[slot][0] for slot in ("lu", "pivots", "permutation")]


def order_of_pivots(e: Equation, pivots: Value) -> list[Value]:
    """Where each row came from, of rows that were exchanged one after the other."""
    size = e.params["permutation_size"]

    def exchanged(pivots: Any) -> Any:
        rows = _lax.broadcasted_iota(np.int32, (*pivots.shape[:-1], size), pivots.ndim - 1)
        at = rows
        for k in range(pivots.shape[-1]):
            other = at == pivots[..., k : k + 1]
            there = _np.where(other, rows, 0).sum(-1, dtype=np.int32)[..., None]
            rows = _np.where(at == k, there, _np.where(other, rows[..., k : k + 1], rows))
        return rows

    return e.written(exchanged, pivots)


def solved(e: Equation, *values: Value) -> list[Value]:
    """Equations of any kind: what solves them, in their place.

    The gradient of a solution follows from the equations, by solving transposed ones: what
    solves them may take steps, or factors that are held fast.
    """
    known = standing(e, values)
    if known is not None:
        return known
    lengths, jaxprs = e.params["const_lengths"], e.params["jaxprs"]
    consts, before = sum(lengths), lengths.matvec + lengths.vecmat
    given = [*values[before : before + lengths.solve], *values[consts:]]
    found = e.call(jaxprs.solve, given)
    if not has_own_gradient(e, values) or e.runner.whole is None:
        return found
    if jaxprs.transpose_solve is not None:
        return with_gradient_of_jax(e, e.runner, values, found)
    try:
        return with_gradient_of_jax(e, e.runner, values, found, partial(_transposable, e))
    except ProgramError:
        raise ProgramError(
            f"{e.runner.what} solves equations without `transpose_solve`, and JAX cannot "
            "transpose its `solve`: give `transpose_solve` or `symmetric`, or solve for "
            "jax.lax.stop_gradient of the arguments."
        ) from None


def _transposable(e: Equation, *arguments: Any) -> Any:
    """Solve the equations, and transposed ones by the transpose of what solves them."""
    lengths, jaxprs = e.params["const_lengths"], e.params["jaxprs"]
    ends = np.cumsum([lengths.matvec, lengths.vecmat, lengths.solve]).tolist()
    of_matrix, of_solve = arguments[: ends[0]], arguments[ends[1] : ends[2]]
    right, as_function = list(arguments[ends[2] :]), cast("Any", extend).jaxpr_as_fun

    def multiply(x: Any) -> Any:
        return as_function(jaxprs.matvec)(*of_matrix, *x)

    def solve(_: Any, b: Any) -> Any:
        return as_function(jaxprs.solve)(*of_solve, *b)

    def solve_transposed(_: Any, b: Any) -> Any:
        (made,) = _jax.linear_transpose(partial(solve, None), b)(b)
        return made

    return _lax.custom_linear_solve(multiply, right, solve, solve_transposed)


def symmetric_product(e: Equation, x: Value, c: Value) -> Var:
    """A matrix times itself, transposed, and another one."""
    matrix, other = _matrix(e, x), _matrix(e, c)
    alpha, beta = (np.asarray(e.params[name], e.dtype) for name in ("alpha", "beta"))
    made = (matrix @ one("matrix_transpose", matrix)) * e.lift(alpha)
    return made + other * e.lift(beta) if beta else made


# ---- Fourier transforms ----------------------------------------------------------------------


def transform(e: Equation, x: Value) -> Var:
    """A discrete Fourier transform along the last axes."""
    kind, lengths = e.params["fft_type"].name, e.params["fft_lengths"]
    sizes, others = e.sizes(lengths), tuple(range(-len(lengths), -1))
    var = e.lift(x)
    if kind == "RFFT":
        var = one("rfft", var, n=sizes[-1], axis=-1)
        return in_dtype(one("fftn", var, axes=others) if others else var, e.dtype)
    if kind == "IRFFT":
        var = one("ifftn", var, axes=others) if others else var
        return in_dtype(one("irfft", var, n=sizes[-1], axis=-1), e.dtype)
    op_type = "fftn" if kind == "FFT" else "ifftn"
    return in_dtype(one(op_type, var, axes=(*others, -1)), e.dtype)


LINEAR_ALGEBRA: Mapping[str, Rule] = {
    "cholesky": cholesky,
    "custom_linear_solve": solved,
    "eigh": eigh,
    "fft": transform,
    "lu": lu,
    "lu_pivots_to_permutation": order_of_pivots,
    "qr": qr,
    "svd": svd,
    "symmetric_product": symmetric_product,
    "triangular_solve": triangular_solve,
}
