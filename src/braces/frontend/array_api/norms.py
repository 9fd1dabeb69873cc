"""Norms of vectors and matrices, matrix rank, least squares."""

from __future__ import annotations

import math
from typing import Any, cast

import ml_dtypes

from braces.builder.append import as_var
from braces.builder.var import Operand, Var
from braces.define.decorator import Axes
from braces.dims import call
from braces.errors import ProgramError, ShapeError
from braces.frontend.array_api.linalg import check_matrices
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import format_types, to_common_float

__all__ = ["lstsq", "matrix_norm", "matrix_rank", "vector_norm"]

# ---- norms -----------------------------------------------------------------------------------


@transactional
def vector_norm(x: Operand, axis: Axes = None, keepdims: bool = False, ord: float = 2.0) -> Var:
    """The p-norms of vectors.

        out = (sum_i |x[i]|^ord)^(1 / ord)

    Args:
        x: real[*shape].
        axis: The axis or axes of the vectors; all by default.
        keepdims: Whether they stay, with size 1.
        ord: The order p. Infinity gives the largest absolute value, minus infinity the
            smallest, 0 the number of nonzero elements. Where the norm is 0, its gradient is 0,
            as for `norm`, which is the order 2.

    Returns:
        float[*rest]; integers give float32.

    Raises:
        ShapeError: If the axis is out of range.
        DTypeError: If the dtype is complex.
    """
    (var,) = to_common_float("vector_norm", x=as_var(x))
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if ord == 2:
        return ops.norm(var, **options)
    if ord == 0:
        return ops.cast(ops.sum(ops.not_equal(var, 0.0), **options), var.dtype)
    magnitudes = ops.abs(var)
    if math.isinf(ord):
        return (ops.max if ord > 0 else ops.min)(magnitudes, **options)
    if ord == 1:
        return ops.sum(magnitudes, **options)
    empty_norm = 0.0 if ord > 0 else math.inf
    total = ops.sum(_power(magnitudes, 0.0, ord, empty_norm), **options)
    return _power(total, empty_norm, 1.0 / ord, 0.0)


def _power(x: Var, at: float, exponent: float, value: float) -> Var:
    """Return a power, with a value without gradient where `x` equals `at`."""
    matches = ops.equal(x, at)
    return ops.where(matches, value, ops.pow(ops.where(matches, 1.0, x), exponent))


@transactional
def matrix_norm(x: Operand, ord: float | str = "fro", keepdims: bool = False) -> Var:
    """The norms of matrices, on the last two axes.

    Args:
        x: real[*shape, m, n].
        ord: `"fro"`: the root of the sum of squares. `"nuc"`: the sum of the singular values;
            2 and -2: the largest and the smallest of them. 1 and -1: the largest and the
            smallest sum of absolute values of a column; infinity and minus infinity: of a row.
        keepdims: Whether the axes stay, with size 1.

    Returns:
        float[*shape]; integers give float32.

    Raises:
        ShapeError: If `x` has rank below 2.
        ProgramError: If `ord` is unknown.
        DTypeError: If the dtype is complex.
    """
    (var,) = to_common_float("matrix_norm", x=check_matrices("matrix_norm", x))
    if ord == "fro":
        return ops.norm(var, axis=(-2, -1), keepdims=keepdims)
    norms = _norm_of(var, ord)
    return ops.expand_dims(norms, axis=(-2, -1)) if keepdims else norms


def _norm_of(x: Var, ord: Any) -> Var:
    best = ops.max if ord in (1, 2, math.inf) else ops.min
    if ord == "nuc":
        return ops.sum(ops.svdvals(x), axis=-1)
    if ord in (2, -2):
        return best(ops.svdvals(x), axis=-1)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ProgramError(
            f"unknown order {ord!r:.40} of matrix_norm.",
            fix="Use 'fro', 'nuc', 1, 2 or br.inf, or the negative of one of these numbers.",
        )
    return best(ops.sum(ops.abs(x), axis=-2 if abs(ord) == 1 else -1), axis=-1)


# ---- singular values -------------------------------------------------------------------------


@transactional
def matrix_rank(x: Operand, rtol: float | None = None) -> Var:
    """Numerical rank of matrices: the number of nonzero singular values, up to rounding.

        out = number of s[i] > rtol * max(s)

    Args:
        x: real[*shape, m, n].
        rtol: The cutoff relative to the largest singular value; by default the larger size
            times the machine epsilon of the dtype.

    Returns:
        i64[*shape].

    Raises:
        ShapeError: If `x` has rank below 2.
        DTypeError: If the dtype is complex.
    """
    (var,) = to_common_float("matrix_rank", x=check_matrices("matrix_rank", x))

    def build() -> Var:
        singular_values = ops.svdvals(var)
        cutoff = ops.max(singular_values, axis=-1, keepdims=True) * _cutoff(var, rtol)
        return ops.sum(singular_values > cutoff, axis=-1)

    return compose_block("matrix_rank", build)


def _cutoff(x: Var, rtol: float | None) -> Any:
    if rtol is not None:
        return rtol
    limits = cast("Any", ml_dtypes.finfo)(x.dtype)
    return ops.size(call("max", *x.shape[-2:]), dtype=x.dtype) * float(limits.eps)


@transactional
def lstsq(a: Operand, b: Operand, rtol: float | None = None) -> Var:
    """Least-squares solution of linear systems, over- or underdetermined.

        out = pinv(a) @ b: the shortest of all that minimize sum((a @ out - b)^2)

    Args:
        a: real[*shape, m, n].
        b: real[*shape, m, k], or real[m].
        rtol: The relative cutoff of singular values of `a`; see `pinv`.

    Returns:
        float[*shape, n, k], or float[*shape, n]. NumPy's other results are `matrix_rank(a)`,
        `svdvals(a)`, and the sum of squares of `a @ out - b`.

    Raises:
        ShapeError: If `a` has rank below 2, or sizes do not match.
        DTypeError: If the dtype is complex.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.constant([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
        ...     line = br.linalg.lstsq(x, [1.0, 3.0, 5.0])
        >>> br.Executor().run(prog, br.Scope(), fetch=line).round(3).tolist()
        [2.0, 1.0]
    """
    matrix, rhs = check_matrices("lstsq", a), as_var(b)
    rows = rhs.shape[-2:][:1]
    if not rows or not same_size(matrix.shape[-2], rows[0]):
        raise ShapeError(
            "lstsq: expected equally many rows of `a` and `b`.",
            given=format_types({"a": matrix, "b": rhs}),
        )
    return compose_block("lstsq", lambda: ops.matmul(ops.pinv(matrix, rtol), rhs))
