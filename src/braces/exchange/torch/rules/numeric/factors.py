"""Rules of packed factors: LU, Cholesky factors, Householder reflectors and least squares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from braces.errors import ProgramError, ShapeError
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.torch.rules.nn.im2col_grid import checked_numbers
from braces.exchange.torch.rules.numeric.linalg import (
    cholesky as cholesky_of_triangle,
    common_batch,
    conjugate_transpose,
    conjugated,
    mirrored,
    no_errors,
)
from braces.exchange.torch.rules.tensor.control import scan
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.extend import dims, functions as ops
from braces.extend.building import Var, call, emit
from braces.extend.constructs import custom_gradient
from braces.extend.types import INT64, Size

# ---- parts -----------------------------------------------------------------------------------


def diagonal_ones(x: Var) -> Var:
    """Return ones on a diagonal, in the shape of one of the matrices."""
    rows, columns = x.shape[-2:]
    return ops.eye(rows, columns, dtype=x.dtype)


def identity_like(x: Var, size: Size | None = None) -> Var:
    """Return unit matrices with the batch and the number of rows of an array of matrices."""
    rows = x.shape[-2]
    unit = ops.eye(rows, rows if size is None else size, dtype=x.dtype)
    return ops.broadcast_to(unit, (*x.shape[:-2], *unit.shape))


def _triangular(a: Var, b: Var, **options: Any) -> Var:
    return call("triangular_solve", *common_batch(a, b), **options)


def _triangular_adjoint(a: Var, b: Var, **options: Any) -> Var:
    """Return the solution of a system whose matrix is the conjugate transpose of a triangle."""
    return _triangular(conjugated(a), b, transpose_a=True, **options)


# ---- Cholesky factors ------------------------------------------------------------------------


def cholesky(x: Var, upper: bool = False) -> Var:
    """The Cholesky factor."""
    return cholesky_of_triangle(x, upper=upper)[0]


def cholesky_solve(b: Var, factor: Var, upper: bool = False) -> Var:
    """The solution of a system whose matrix has this Cholesky factor.

    The gradient of the factor is that of its whole product, as in torch. Its formula is that of
    torch, whose cotangents are the conjugates of ours.
    """

    @custom_gradient
    def solution(factor: Var, b: Var) -> tuple[Var, Callable[[Var], tuple[Var, Var]]]:
        x = _substitute(factor, b, upper)

        def gradient(grad: Var) -> tuple[Var, Var]:
            b_grad = _substitute(factor, conjugated(grad), upper)
            term = ops.matmul(b_grad, conjugate_transpose(x))
            both = -(term + conjugate_transpose(term))
            product = ops.matmul(factor, both) if upper else ops.matmul(both, factor)
            return conjugated(product), conjugated(b_grad)

        return x, gradient

    return solution(*common_batch(factor, b))


def _substitute(factor: Var, b: Var, upper: bool) -> Var:
    solvers = _triangular, _triangular_adjoint
    first, second = solvers[::-1] if upper else solvers
    return second(factor, first(factor, b, lower=not upper), lower=not upper)


def cholesky_inverse(factor: Var, upper: bool = False) -> Var:
    """The inverse of the matrix that has this Cholesky factor."""
    return cholesky_solve(identity_like(factor), factor, upper)


# ---- LU --------------------------------------------------------------------------------------


def lu_factor(x: Var, *, pivot: bool = True, check_errors: bool = False) -> tuple[Var, ...]:
    """Both triangles in one matrix, pivots that count from 1, and error codes."""
    packed, pivots, _ = _factors(x, pivot)
    return packed, pivots + 1, no_errors(x)


def _factors(x: Var, pivot: bool) -> tuple[Var, Var, Var]:
    if not pivot:
        raise ProgramError("LU without pivots is unsupported.", fix="Use pivots, the default.")
    packed, pivots, order = call("lu", x)
    return packed, pivots, order


def lu(x: Var, *, pivot: bool = True) -> tuple[Var, Var, Var]:
    """The permutation matrix, and the lower and upper triangular factor."""
    packed, _, order = _factors(x, pivot)
    return _permutation_matrix(order, x), *_triangles(packed)


def lu_unpack(
    packed: Var, pivots: Var, data: bool = True, permutation: bool = True
) -> tuple[Var | None, Var | None, Var | None]:
    """The factors of a packed decomposition."""
    order = _order(pivots, packed.shape[-2]) if permutation else None
    matrix = None if order is None else _permutation_matrix(order, packed)
    lower, upper = _triangles(packed) if data else (None, None)
    return matrix, lower, upper


def _triangles(packed: Var) -> tuple[Var, Var]:
    """Return the factors of a packed decomposition: unit lower, and upper triangular."""
    rows, columns = packed.shape[-2:]
    wide = isinstance(rows, int) and isinstance(columns, int) and rows < columns
    left, top = (packed[..., :rows], packed) if wide else (packed, packed[..., :columns, :])
    return ops.tril(left, k=-1) + diagonal_ones(left), ops.triu(top)


def _permutation_matrix(order: Var, x: Var) -> Var:
    """Return the matrices that move row `i` of a product to row `order[i]`."""
    rows = emit("arange", stop=x.shape[-2])
    moved = ops.equal(cast_to_dtype(ops.expand_dims(order, axis=-2), INT64),
                      ops.expand_dims(rows, axis=1))  # fmt: skip
    return cast_to_dtype(moved, x.dtype)


def _order(pivots: Var, rows: Size) -> Var:
    """Return the permutation of a sequence of row swaps that count from 1."""
    count = pivots.shape[-1]
    if not isinstance(count, int):
        raise ShapeError("LU: unsupported symbolic number of pivots.")
    at = ops.broadcast_to(emit("arange", stop=rows), (*pivots.shape[:-1], rows))
    order, pivots = at, cast_to_dtype(pivots, INT64) - 1
    for k in range(count):
        other = pivots[..., k : k + 1]
        here, there = order[..., k : k + 1], ops.take_along_axis(order, other, axis=-1)
        order = ops.where(ops.equal(at, other), here, order)
        order = ops.where(ops.equal(at, k), there, order)
    return order


def lu_solve(
    packed: Var, pivots: Var, b: Var, *, left: bool = True, adjoint: bool = False
) -> Var:
    """The solution of a system whose matrix is given by a packed decomposition."""
    if not left:
        turned = lu_solve(packed, pivots, conjugate_transpose(b), adjoint=not adjoint)
        return conjugate_transpose(turned)
    order = ops.expand_dims(_order(pivots, packed.shape[-2]), axis=-1)
    lower: dict[str, Any] = {"lower": True, "unit_diagonal": True}
    if not adjoint:
        inner = _triangular(packed, _rows(b, order), **lower)
        return _triangular(packed, inner)
    solution = _triangular_adjoint(packed, _triangular_adjoint(packed, b), **lower)
    return _rows(solution, ops.argsort(order, axis=-2))


def _rows(x: Var, order: Var) -> Var:
    """Return the rows of matrices in an order."""
    x, order = common_batch(x, order)
    return ops.take_along_axis(
        x, ops.broadcast_to(cast_to_dtype(order, INT64), x.shape), axis=-2
    )


# ---- triangular systems ----------------------------------------------------------------------


def triangular_solve(
    b: Var, a: Var, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Var, Var]:
    """The solution of a triangular system, and the matrix."""
    a, b = common_batch(a, b)
    options: dict[str, Any] = {"lower": not upper, "transpose_a": transpose}
    return _triangular(a, b, unit_diagonal=unitriangular, **options), a


# ---- Householder reflectors ------------------------------------------------------------------


def reflectors(x: Var) -> tuple[Var, Var]:
    """The reflections that make matrices upper triangular: their vectors below it, and scales.

    A loop over the columns, as in LAPACK (geqrf).
    """
    rows, columns = x.shape[-2:]
    count = emit("arange", stop=dims.call("min", rows, columns))
    row = ops.expand_dims(emit("arange", stop=rows), axis=1)
    column = emit("arange", stop=columns)

    def step(a: Var, scales: Var, at: Var) -> list[Var]:
        current = ops.sum(ops.where(ops.equal(column, at), a, 0.0), axis=-1, keepdims=True)
        below = ops.where(row > at, current, 0.0)
        first = ops.sum(ops.where(ops.equal(row, at), current, 0.0), axis=-2, keepdims=True)
        rest = ops.sum(_squares(below), axis=-2, keepdims=True)
        done = ops.logical_and(ops.equal(rest, 0), ops.equal(ops.imag(first), 0))
        length = ops.sqrt(_squares(first) + rest)
        turned = cast_to_dtype(ops.where(ops.real(first) < 0, length, -length), x.dtype)
        scale = ops.where(done, 0.0, (turned - first) / ops.where(done, 1.0, turned))
        v = below / ops.where(done, 1.0, first - turned)
        whole = ops.where(ops.equal(row, at), 1.0, v)
        other = a - conjugated(scale) * whole * ops.matmul(conjugate_transpose(whole), a)
        corner = ops.where(row < at, current, ops.where(done, first, turned))
        new = ops.where(row > at, v, corner)
        a = ops.where(column > at, other, ops.where(ops.equal(column, at), new, a))
        return [a, ops.where(ops.equal(count, at), scale[..., 0], scales)]

    zeros = fill_shape((*x.shape[:-2], *count.shape), 0, dtype=x.dtype)
    packed, scales = scan(step, [x, zeros], [count])
    return packed, scales


def _squares(x: Var) -> Var:
    """Return the squares of absolute values."""
    return ops.real(x * conjugated(x))


def _reflectors(packed: Var, scales: Var) -> tuple[Var, Var]:
    """Return vectors `v` and triangles `t`: the product of all reflections is `1 - v t v^H`."""
    count = scales.shape[-1]
    packed = packed[..., :count]
    v = ops.tril(packed, k=-1) + diagonal_ones(packed)
    inner = ops.triu(ops.matmul(conjugate_transpose(v), v), k=1)
    scaled = ops.expand_dims(scales, axis=-1) * inner
    diagonal = ops.expand_dims(scales, axis=-1) * identity_like(inner)
    return v, _triangular(scaled, diagonal, unit_diagonal=True)


def householder_product(packed: Var, scales: Var) -> Var:
    """The first columns of a product of reflections."""
    v, t = _reflectors(packed, scales)
    first = v[..., : packed.shape[-1], :]
    product = ops.matmul(ops.matmul(v, t), conjugate_transpose(first))
    return diagonal_ones(product) - product


def apply_reflections(
    packed: Var, scales: Var, x: Var, left: bool = True, transpose: bool = False
) -> Var:
    """A product of reflections, or its conjugate transpose, times a matrix."""
    if not left:
        turned = apply_reflections(
            packed, scales, conjugate_transpose(x), transpose=not transpose
        )
        return conjugate_transpose(turned)
    v, t = _reflectors(packed, scales)
    inner = ops.matmul(conjugate_transpose(v), x)
    return x - ops.matmul(v, ops.matmul(conjugate_transpose(t) if transpose else t, inner))


# ---- pseudoinverses --------------------------------------------------------------------------


def pseudoinverse(
    x: Var, *, atol: Var | None = None, rtol: Var | None = None, hermitian: bool = False
) -> Var:
    """The pseudoinverse; singular values up to the tolerance count as zero."""
    if hermitian:
        x = mirrored(x)

    @custom_gradient
    def inverse(x: Var) -> tuple[Var, Callable[[Var], Var]]:
        u, s, v = ops.svd(x, full_matrices=False)
        large = s > _tolerance(x, s, atol, rtol)
        inverses = ops.where(large, 1.0 / ops.where(large, s, 1.0), 0.0)
        scaled = conjugate_transpose(v) * ops.expand_dims(inverses, axis=-2)
        p = ops.matmul(scaled, conjugate_transpose(u))
        return p, lambda grad: _pseudoinverse_gradient(x, p, grad)

    return inverse(x)


def _tolerance(x: Var, s: Var, atol: Var | None, rtol: Var | None) -> Var:
    """Return the largest singular value that counts as zero."""
    bounds = list[Var]()
    if rtol is None:
        larger = max(checked_numbers(x.shape[-2:], "pseudoinverse"), default=0)
        epsilon = float(np.finfo(x.dtype).eps)
        bounds.append(s[..., :1] * (larger * epsilon if atol is None else 0.0))
    else:
        bounds.append(s[..., :1] * ops.expand_dims(cast_to_dtype(rtol, s.dtype), axis=-1))
    if atol is not None:
        bounds.append(ops.expand_dims(cast_to_dtype(atol, s.dtype), axis=-1))
    return bounds[0] if len(bounds) == 1 else ops.maximum(*bounds)


def _pseudoinverse_gradient(x: Var, p: Var, grad: Var) -> Var:
    """Return the cotangent of a matrix from that of its pseudoinverse, for constant rank."""
    t, grad_t = conjugate_transpose(p), ops.matrix_transpose(grad)
    right, left = grad_t @ p @ t, t @ p @ grad_t
    other = t @ conjugated(grad) @ t
    return conjugated(right - x @ (p @ right) + left - (left @ p) @ x - other)


FACTORED: Mapping[str, Callable[..., Any]] = {
    "cholesky": cholesky,
    "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve,
    "geqrf": reflectors,
    "linalg_householder_product": householder_product,
    "linalg_lu": lu,
    "linalg_lu_factor_ex": lu_factor,
    "linalg_lu_solve": lu_solve,
    "linalg_pinv.atol_rtol_tensor": pseudoinverse,
    "lu_unpack": lu_unpack,
    "ormqr": apply_reflections,
    "triangular_solve": triangular_solve,
}
