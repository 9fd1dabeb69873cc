"""Norms of vectors and matrices, and what singular values tell."""

from __future__ import annotations

import math
from typing import Any, cast

import ml_dtypes

from braces.builder.append import as_var
from braces.builder.var import Operand, Var
from braces.define.decorator import Axes
from braces.dims import call
from braces.errors import ProgramError, ShapeError
from braces.frontend.array_api.linalg import matrices
from braces.frontend.control.block import composed
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.losses.reduction import in_floats, shown_types

__all__ = ["lstsq", "matrix_norm", "matrix_rank", "vector_norm"]

# ---- norms -----------------------------------------------------------------------------------


@building
def vector_norm(x: Operand, axis: Axes = None, keepdims: bool = False, ord: float = 2.0) -> Var:
    """The length of vectors, in any of the p-norms.

        out = (sum_i |x[i]|^ord)^(1 / ord)

    Args:
        x: real[*shape].
        axis: The axis or axes of the vectors; all by default.
        keepdims: Whether they stay, with size 1.
        ord: The power. The slope is 0 where the norm is, as that of `norm`, which 2 is;
            infinity gives the largest size of a number, minus infinity the smallest, 0 how
            many are not zero.

    Returns:
        float[*rest]; integers give float32.

    Raises:
        ShapeError: There is no such axis.
        DTypeError: Complex numbers.
    """
    (var,) = in_floats("vector_norm", x=as_var(x))
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if ord == 2:
        return ops.norm(var, **options)
    if ord == 0:
        return ops.cast(ops.sum(ops.not_equal(var, 0.0), **options), var.dtype)
    sizes = ops.abs(var)
    if math.isinf(ord):
        return (ops.max if ord > 0 else ops.min)(sizes, **options)
    if ord == 1:
        return ops.sum(sizes, **options)
    none = 0.0 if ord > 0 else math.inf
    total = ops.sum(_power(sizes, 0.0, ord, none), **options)
    return _power(total, none, 1.0 / ord, 0.0)


def _power(x: Var, at: float, exponent: float, value: float) -> Var:
    """A power, and a value without a slope in place of that of one number."""
    there = ops.equal(x, at)
    return ops.where(there, value, ops.pow(ops.where(there, 1.0, x), exponent))


@building
def matrix_norm(x: Operand, ord: float | str = "fro", keepdims: bool = False) -> Var:
    """The norms of matrices, on the last two axes.

    Args:
        x: real[*shape, m, n].
        ord: `"fro"`: the root of the sum of squares. `"nuc"`: the sum of the singular values;
            2 and -2: the largest and the smallest of them. 1 and -1: the largest and the
            smallest sum of sizes of a column; infinity and minus infinity: of a row.
        keepdims: Whether the axes stay, with size 1.

    Returns:
        float[*shape]; integers give float32.

    Raises:
        ShapeError: `x` holds no matrices.
        ProgramError: There is no such norm.
        DTypeError: Complex numbers.
    """
    (var,) = in_floats("matrix_norm", x=matrices("matrix_norm", x))
    if ord == "fro":
        return ops.norm(var, axis=(-2, -1), keepdims=keepdims)
    found = _norm_of(var, ord)
    return ops.expand_dims(found, axis=(-2, -1)) if keepdims else found


def _norm_of(x: Var, ord: Any) -> Var:
    best = ops.max if ord in (1, 2, math.inf) else ops.min
    if ord == "nuc":
        return ops.sum(ops.svdvals(x), axis=-1)
    if ord in (2, -2):
        return best(ops.svdvals(x), axis=-1)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ProgramError(
            f"matrix_norm has no norm {ord!r:.40}.",
            fix="Use 'fro', 'nuc', 1, 2 or br.inf, or the negative of one of these numbers.",
        )
    return best(ops.sum(ops.abs(x), axis=-2 if abs(ord) == 1 else -1), axis=-1)


# ---- what singular values tell ---------------------------------------------------------------


@building
def matrix_rank(x: Operand, rtol: float | None = None) -> Var:
    """How many singular values of matrices are not zero, up to rounding.

        out = number of s[i] > rtol * max(s)

    Args:
        x: real[*shape, m, n].
        rtol: What counts as zero beside the largest; by default the larger size times the
            distance from 1 to the next number of the dtype.

    Returns:
        i64[*shape].

    Raises:
        ShapeError: `x` holds no matrices.
        DTypeError: Complex numbers.
    """
    (var,) = in_floats("matrix_rank", x=matrices("matrix_rank", x))

    def built() -> Var:
        found = ops.svdvals(var)
        least = ops.max(found, axis=-1, keepdims=True) * _cutoff(var, rtol)
        return ops.sum(found > least, axis=-1)

    return composed("matrix_rank", built)


def _cutoff(x: Var, rtol: float | None) -> Any:
    if rtol is not None:
        return rtol
    limits = cast("Any", ml_dtypes.finfo)(x.dtype)
    return ops.size(call("max", *x.shape[-2:]), dtype=x.dtype) * float(limits.eps)


@building
def lstsq(a: Operand, b: Operand, rtol: float | None = None) -> Var:
    """The solution of equations of which there are too many, or too few, by least squares.

        out = pinv(a) @ b: the shortest of all for which sum((a @ out - b)^2) is least

    Args:
        a: real[*shape, m, n].
        b: real[*shape, m, k], or real[m].
        rtol: Which singular values of `a` count as zero; see `pinv`.

    Returns:
        float[*shape, n, k], or float[*shape, n]. What else NumPy gives is `matrix_rank(a)`,
        `svdvals(a)`, and the sum of squares of `a @ out - b`.

    Raises:
        ShapeError: `a` holds no matrices, or sizes do not fit.
        DTypeError: Complex numbers.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.constant([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
        ...     line = br.lstsq(x, [1.0, 3.0, 5.0])
        >>> br.Executor().run(prog, br.Scope(), fetch=line).round(3).tolist()
        [2.0, 1.0]
    """
    whole, sides = matrices("lstsq", a), as_var(b)
    rows = sides.shape[-2:][:1]
    if not rows or not same_size(whole.shape[-2], rows[0]):
        raise ShapeError(
            "lstsq needs a right-hand side with as many rows as the matrices.",
            given=shown_types({"a": whole, "b": sides}),
        )
    return composed("lstsq", lambda: ops.matmul(ops.pinv(whole, rtol), sides))
