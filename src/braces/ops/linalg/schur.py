"""Schur, Hessenberg and tridiagonal forms of square matrices, which LAPACK computes on CPUs.

All work on the last two axes; the leading axes are a batch. Kernels are those of
`jax.lax.linalg`. There are no derivatives, as in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from braces.define.axes.axis_map import Attrs, AxisMap, Types
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Tensor, op
from braces.dims import Size, call
from braces.lazy import jnp, lax
from braces.ops.common.rules import as_floating
from braces.ops.linalg.determinant import of_squares
from braces.ops.linalg.eigh_svd import (
    decomposition_axes,
    factor_dtypes,
    matrix_sizes,
    sweep_cost,
)

SQUARES = ("x=f32[3,3]", "x=f64[b,2,2]", "x=c64[4,4]", "x=f64[0,2,2]")
_lax: Any = lax


def _square_axes(**outputs: tuple[str, ...]) -> Callable[[Types, Attrs], AxisMap]:
    """Build an axis map; the sizes of its axes `n` and `m` are that of `x`."""

    def axes(types: Types, attrs: Attrs) -> AxisMap:
        of_squares(types, attrs)
        _, rows, _ = matrix_sizes(types)
        sizes: dict[str, Size] = {"n": rows, "m": rows, "one less": call("max", rows - 1, 0)}
        return decomposition_axes(types, sizes, **outputs)

    return axes


def _widened(compute: Callable[[Any], Any], x: Any) -> tuple[Any, ...]:
    """Decompose matrices in 32 bits or more, and round the results to their dtype."""
    floats = as_floating(x)
    is_half = floats.dtype.itemsize == 2
    results = compute(floats.astype(jnp.float32) if is_half else floats)
    return tuple(result.astype(floats.dtype) if is_half else result for result in results)


@op(
    outputs=("t", "vectors"),
    axes=_square_axes(t=("n", "m"), vectors=("n", "m")),
    dtypes=factor_dtypes("factor", "factor"),
    function=False,
    differentiable=False,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=SQUARES,
)
def schur(x: Tensor) -> tuple[Tensor, Tensor]:
    """The Schur form of square matrices.

        x = vectors @ t @ vectors^H,   vectors^H @ vectors = eye(n)

    Source: Golub and Van Loan, Matrix Computations, 7.4. The order of the eigenvalues and the
    signs of the vectors are those of LAPACK. It runs on CPU.

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        t: float[*shape, n, n], upper triangular. That of a real matrix has blocks of two rows
            for pairs of conjugate eigenvalues. Integers give float32.
        vectors: float[*shape, n, n], in columns.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    return cast("tuple[Tensor, Tensor]", _widened(_lax.linalg.schur, x))


@op(
    outputs=("packed", "taus"),
    axes=_square_axes(packed=("n", "m"), taus=("one less",)),
    dtypes=factor_dtypes("factor", "factor"),
    function=False,
    differentiable=False,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=SQUARES,
)
def hessenberg(x: Tensor) -> tuple[Tensor, Tensor]:
    """The Hessenberg form of square matrices, and the reflections that give it.

        x = q @ triu(packed, -1) @ q^H

    Source: Golub and Van Loan, Matrix Computations, 7.4.2. `q` is the product of Householder
    reflections `I - tau v v^H`. It runs on CPU.

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        packed: float[*shape, n, n]. Below the first subdiagonal are the vectors `v`, whose
            first entry is 1 and not stored. Integers give float32.
        taus: float[*shape, max(n - 1, 0)]. The factors of the reflections.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    return cast("tuple[Tensor, Tensor]", _widened(_lax.linalg.hessenberg, x))


@op(
    outputs=("packed", "diagonal", "off_diagonal", "taus"),
    axes=_square_axes(
        packed=("n", "m"), diagonal=("n",), off_diagonal=("one less",), taus=("one less",)
    ),
    dtypes=factor_dtypes("factor", "real", "real", "factor"),
    function=False,
    differentiable=False,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=(*SQUARES, "x=f32[3,3] lower=False"),
)
def tridiagonal(x: Tensor, *, lower: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The tridiagonal form of symmetric or Hermitian matrices, and its reflections.

        x = q @ t @ q^H

    Source: Golub and Van Loan, Matrix Computations, 8.3.1. `t` has `diagonal` and, on both
    sides of it, `off_diagonal`. It runs on CPU.

    Inputs:
        x: number[*shape, n, n]. Only one triangle is read.

    Attributes:
        lower: Whether it is the lower triangle.

    Outputs:
        packed: float[*shape, n, n]. The triangle of `t`, and beyond its first off-diagonal the
            vectors of the Householder reflections. Integers give float32.
        diagonal: real[*shape, n].
        off_diagonal: real[*shape, max(n - 1, 0)].
        taus: float[*shape, max(n - 1, 0)]. The factors of the reflections.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """

    def compute(x: Any) -> Any:
        return _lax.linalg.tridiagonal(x, lower=lower)

    return cast("tuple[Tensor, Tensor, Tensor, Tensor]", _widened(compute, x))
