"""Rules of linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.jaxpr.core.custom_derivatives import (
    attach_jax_gradient,
    enclosing_results,
    has_custom_gradient,
    refuse_arguments,
    with_jax_derivative,
)
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype
from braces.lazy import extend, jax, jnp, lax

_jax: Any = jax
_np: Any = jnp
_lax: Any = lax


def _conjugated(x: Var) -> Var:
    """Return the complex conjugate; real numbers are unchanged."""
    return emit("conj", x) if x.dtype.kind == "c" else x


def _symmetrize(x: Var, lower: bool = True) -> Var:
    """Return the symmetric or Hermitian matrix of one triangle; JAX reads only that."""
    triangle, other = ("tril", "triu") if lower else ("triu", "tril")
    transposed = _conjugated(emit("matrix_transpose", emit(triangle, x)))
    return emit(triangle, x) + emit(other, transposed, k=1 if lower else -1)


def _refuse_options(e: Equation, *names: str) -> None:
    """Refuse unsupported options."""
    for name in names:
        if e.params[name]:
            e.refuse(f"{name}={e.params[name]}")


def cholesky(e: Equation, x: Value) -> Var:
    """The Cholesky factor, from the lower triangle."""
    return emit("cholesky", _symmetrize(e.lift(x)))


def triangular_solve(e: Equation, a: Value, b: Value) -> Var:
    """The solution of a triangular system; from the right by transposes."""
    left, right, params = e.lift(a), e.lift(b), e.params
    if params["conjugate_a"]:
        left = _conjugated(left)
    attrs = {"lower": params["lower"], "unit_diagonal": params["unit_diagonal"]}
    if params["left_side"]:
        return emit("triangular_solve", left, right, transpose_a=params["transpose_a"], **attrs)
    transposed_right = emit("matrix_transpose", right)
    solution = emit(
        "triangular_solve",
        left,
        transposed_right,
        transpose_a=not params["transpose_a"],
        **attrs,
    )
    return emit("matrix_transpose", solution)


def eigh(e: Equation, x: Value) -> tuple[Var, Var]:
    """Eigenvectors and eigenvalues, from one triangle."""
    _refuse_options(e, "subset_by_index")
    symmetric = _symmetrize(e.lift(x), e.params["lower"])
    outputs = apply("eigh", {"x": (symmetric,)})
    return outputs["eigenvectors"][0], outputs["eigenvalues"][0]


def eig(e: Equation, x: Value) -> list[Var]:
    """Eigenvalues, with optional left and right eigenvectors."""
    sides = [
        left
        for left, name in ((True, "left"), (False, "right"))
        if e.params[f"compute_{name}_eigenvectors"]
    ]
    runs = [apply("eig", {"x": (e.lift(x),)}, {"left": left}) for left in sides or [False]]
    vectors = [run["eigenvectors"][0] for run in runs] if sides else []
    return [runs[0]["eigenvalues"][0], *vectors]


def tridiagonal_solve(e: Equation, *values: Value) -> Var:
    """The solution of a tridiagonal system."""
    _refuse_options(e, "perturb_singular")
    return emit("tridiagonal_solve", *map(e.lift, values))


def svd(e: Equation, x: Value) -> list[Var]:
    """Singular values, with optional singular vectors."""
    _refuse_options(e, "subset_by_index")
    matrix = e.lift(x)
    if not e.params["compute_uv"]:
        return [emit("svdvals", matrix)]
    outputs = apply("svd", {"x": (matrix,)}, {"full_matrices": e.params["full_matrices"]})
    return [outputs[slot][0] for slot in ("s", "u", "vh")]


def qr(e: Equation, x: Value) -> list[Var]:
    """The QR decomposition without pivoting."""
    mode = "complete" if e.params["full_matrices"] else "reduced"
    outputs = apply("qr", {"x": (e.lift(x),)}, {"mode": mode})
    return [outputs[slot][0] for slot in ("q", "r")]


def lu(e: Equation, x: Value) -> list[Var]:
    """The packed LU factors, the pivots and the permutation."""
    outputs = apply("lu", {"x": (e.lift(x),)})
    return [outputs[slot][0] for slot in ("lu", "pivots", "permutation")]


def schur(e: Equation, x: Value) -> list[Value]:
    """The Schur form, with optional vectors."""
    _refuse_options(e, "sort_eig_vals", "select_callable")
    outputs = apply("schur", {"x": (e.lift(x),)})
    results = [outputs[slot][0] for slot in ("t", "vectors")][: len(e.eqn.outvars)]
    return refuse_arguments(e, [x], results, _no_derivative(e))


def reduced_form(op_type: str, e: Equation, x: Value) -> list[Value]:
    """The Hessenberg or tridiagonal form, with its reflections."""
    attrs = {name: e.params[name] for name in ("lower",) if name in e.params}
    results = [value for (value,) in apply(op_type, {"x": (e.lift(x),)}, attrs).values()]
    return refuse_arguments(e, [x], results, _no_derivative(e))


def _no_derivative(e: Equation) -> ProgramError:
    return ProgramError(f"JAX has no derivative of `{e.name}`.")


def order_of_pivots(e: Equation, pivots: Value) -> list[Value]:
    """The permutation of a sequence of row swaps."""
    size = e.params["permutation_size"]

    def permute(pivots: Any) -> Any:
        rows = _lax.broadcasted_iota(np.int32, (*pivots.shape[:-1], size), pivots.ndim - 1)
        at = rows
        for k in range(pivots.shape[-1]):
            other = at == pivots[..., k : k + 1]
            swapped_row = _np.where(other, rows, 0).sum(-1, dtype=np.int32)[..., None]
            rows = _np.where(at == k, swapped_row, _np.where(other, rows[..., k : k + 1], rows))
        return rows

    return e.written(permute, pivots)


def custom_linear_solve(e: Equation, *values: Value) -> list[Value]:
    """A custom linear solve, with its solver inlined.

    The gradient of a solution follows from the equations, by a transposed solve: the solver may
    iterate, or use factors without gradients.
    """
    existing = enclosing_results(e, values)
    if existing is not None:
        return existing
    lengths, jaxprs = e.params["const_lengths"], e.params["jaxprs"]
    consts, matvec_count = sum(lengths), lengths.matvec + lengths.vecmat
    operands = [*values[matvec_count : matvec_count + lengths.solve], *values[consts:]]
    solution = e.call(jaxprs.solve, operands)
    if not has_custom_gradient(e, values) or e.runner.whole is None:
        return solution
    if jaxprs.transpose_solve is not None:
        return attach_jax_gradient(e, e.runner, values, solution)
    try:
        return attach_jax_gradient(
            e, e.runner, values, solution, partial(_transposable_solve, e)
        )
    except ProgramError:
        raise ProgramError(
            f"{e.runner.what} calls custom_linear_solve without `transpose_solve`, and its "
            "`solve` is not transposable.",
            fix="Pass `transpose_solve` or `symmetric`, or apply jax.lax.stop_gradient to the "
            "arguments.",
        ) from None


def _transposable_solve(e: Equation, *arguments: Any) -> Any:
    """Solve the system so that transposed systems use the transpose of the solver."""
    lengths, jaxprs = e.params["const_lengths"], e.params["jaxprs"]
    ends = np.cumsum([lengths.matvec, lengths.vecmat, lengths.solve]).tolist()
    of_matrix, of_solve = arguments[: ends[0]], arguments[ends[1] : ends[2]]
    right, as_function = list(arguments[ends[2] :]), cast("Any", extend).jaxpr_as_fun

    def multiply(x: Any) -> Any:
        return as_function(jaxprs.matvec)(*of_matrix, *x)

    def solve(_: Any, b: Any) -> Any:
        return as_function(jaxprs.solve)(*of_solve, *b)

    def solve_transposed(_: Any, b: Any) -> Any:
        (solution,) = _jax.linear_transpose(partial(solve, None), b)(b)
        return solution

    return _lax.custom_linear_solve(multiply, right, solve, solve_transposed)


def symmetric_product(e: Equation, x: Value, c: Value) -> Var:
    """Alpha times a matrix times its transpose, plus beta times another matrix."""
    matrix, other = e.lift(x), e.lift(c)
    alpha, beta = (np.asarray(e.params[name], e.dtype) for name in ("alpha", "beta"))
    product_ = (matrix @ emit("matrix_transpose", matrix)) * e.lift(alpha)
    return product_ + other * e.lift(beta) if beta else product_


# ---- Fourier transforms ----------------------------------------------------------------------


def transform(e: Equation, x: Value) -> Var:
    """A discrete Fourier transform along the last axes."""
    kind, lengths = e.params["fft_type"].name, e.params["fft_lengths"]
    sizes, others = e.sizes(lengths), tuple(range(-len(lengths), -1))
    var = e.lift(x)
    if kind == "RFFT":
        var = emit("rfft", var, n=sizes[-1], axis=-1)
        return in_dtype(emit("fftn", var, axes=others) if others else var, e.dtype)
    if kind == "IRFFT":
        var = emit("ifftn", var, axes=others) if others else var
        return in_dtype(emit("irfft", var, n=sizes[-1], axis=-1), e.dtype)
    op_type = "fftn" if kind == "FFT" else "ifftn"
    return in_dtype(emit(op_type, var, axes=(*others, -1)), e.dtype)


LINEAR_ALGEBRA: Mapping[str, Rule] = {
    "cholesky": cholesky,
    "custom_linear_solve": custom_linear_solve,
    "eig": with_jax_derivative(eig, lambda _: True),
    "eigh": eigh,
    "fft": transform,
    "hessenberg": partial(reduced_form, "hessenberg"),
    "lu": lu,
    "lu_pivots_to_permutation": order_of_pivots,
    "schur": schur,
    "svd": svd,
    "symmetric_product": symmetric_product,
    "triangular_solve": triangular_solve,
    "tridiagonal": partial(reduced_form, "tridiagonal"),
    "tridiagonal_solve": tridiagonal_solve,
}
