"""Rules of linear algebra: decompositions and linear systems.

Extra outputs of torch for its own gradient, and its error codes, are empty or zero: our
operators have separate gradients, and singular matrices give NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.exchange.torch.rules.tensor.shape import common_shape
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import INT32, Size


def no_errors(matrices: Var) -> Var:
    """Return torch's error codes of success: a zero for each matrix."""
    return fill_shape(matrices.shape[:-2], 0, dtype=INT32)


def common_batch(a: Var, b: Var) -> tuple[Var, Var]:
    """Broadcast the leading axes of two arrays of matrices against each other."""
    batch = common_shape(a.shape[:-2], b.shape[:-2])
    return _in_batch(a, batch), _in_batch(b, batch)


def _in_batch(x: Var, batch: list[Size]) -> Var:
    shape = (*batch, *x.shape[-2:])
    return x if x.shape == shape else ops.broadcast_to(x, shape)


def conjugated(x: Var) -> Var:
    """Return the conjugates of complex numbers, and real numbers as they are."""
    return ops.conj(x) if x.dtype.kind == "c" else x


def conjugate_transpose(x: Var) -> Var:
    """Return conjugated transposes."""
    return conjugated(ops.matrix_transpose(x))


def mirrored(x: Var, upper: bool = False) -> Var:
    """Return the Hermitian matrices of a triangle; the gradient passes through, as in torch."""
    x_t = conjugate_transpose(x)
    half, other = (ops.triu(x), ops.tril(x_t, k=-1)) if upper else (
        ops.tril(x), ops.triu(x_t, k=1))  # fmt: skip
    return x + ops.stop_gradient(half + other - x)


def cholesky(x: Var, *, upper: bool = False, check_errors: bool = False) -> tuple[Var, Var]:
    """The Cholesky factor, and error codes."""
    lower = ops.cholesky(mirrored(x, upper))
    return conjugate_transpose(lower) if upper else lower, no_errors(x)


def solve_triangular(
    a: Var, b: Var, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Var:
    """The solution of a triangular system; from the right by transposes."""
    if left:
        a, b = common_batch(a, b)
        return ops.triangular_solve(a, b, lower=not upper, unit_diagonal=unitriangular)
    turned = solve_triangular(
        *(ops.matrix_transpose(x) for x in (a, b)), upper=not upper, unitriangular=unitriangular
    )
    return ops.matrix_transpose(turned)


def solve(
    a: Var, b: Var, *, left: bool = True, check_errors: bool = False
) -> tuple[Var, None, None, Var]:
    """The solution of a linear system; from the right by transposes."""
    if b.ndim == 1 or b.shape == a.shape[:-1]:
        solution = ops.solve(a, ops.expand_dims(b, axis=-1))
        return ops.squeeze(solution, axis=-1), None, None, no_errors(a)
    if left:
        return ops.solve(a, b), None, None, no_errors(a)
    transposed_solution = ops.solve(*(ops.matrix_transpose(x) for x in (a, b)))
    return ops.matrix_transpose(transposed_solution), None, None, no_errors(a)


def inverse(x: Var, *, check_errors: bool = False) -> tuple[Var, Var]:
    """The inverse, and error codes."""
    return ops.inv(x), no_errors(x)


def determinant(x: Var) -> tuple[Var, None, None]:
    """The determinant."""
    return ops.det(x), None, None


def log_determinant(x: Var) -> tuple[Var, Var, None, None]:
    """The sign and the logarithm of the determinant."""
    return *ops.slogdet(x), None, None


def qr(x: Var, mode: str = "reduced") -> tuple[Var | None, Var]:
    """The QR decomposition; R alone in the mode "r"."""
    q, r = ops.qr(x, mode="complete" if mode == "complete" else "reduced")
    return None if mode == "r" else q, r


def eigh(x: Var, triangle: str = "L", vectors: bool = True) -> tuple[Var, Var | None]:
    """Eigenvalues of symmetric matrices, with optional eigenvectors."""
    x = mirrored(x, triangle.upper() == "U")
    return ops.eigh(x) if vectors else (ops.eigvalsh(x), None)


def eig(x: Var) -> tuple[Var, Var]:
    """Eigenvalues and eigenvectors of square matrices."""
    values, vectors = emit("eig", x)
    return values, vectors


def eigvals(x: Var) -> Var:
    """Eigenvalues of square matrices."""
    return eig(x)[0]


def svd(
    x: Var, full: bool = False, vectors: bool = True, *, driver: str | None = None
) -> tuple[Var | None, Var, Var | None]:
    """Singular values, with optional singular vectors."""
    return ops.svd(x, full_matrices=full) if vectors else (None, ops.svdvals(x), None)


FACTORS: Mapping[str, Callable[..., Any]] = {
    "_linalg_det": determinant,
    "_linalg_eigh": eigh,
    "_linalg_slogdet": log_determinant,
    "_linalg_solve_ex": solve,
    "_linalg_svd": svd,
    "linalg_cholesky_ex": cholesky,
    "linalg_eig": eig,
    "linalg_eigvals": eigvals,
    "linalg_inv_ex": inverse,
    "linalg_matrix_exp": ops.expm,
    "linalg_qr": qr,
    "linalg_solve_triangular": solve_triangular,
}
