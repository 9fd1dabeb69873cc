"""Cholesky decomposition and triangular solves.

Both work on the last two axes; the leading axes are a batch. Kernels and derivatives are those
of `jax.lax.linalg`.
"""

from __future__ import annotations

from dataclasses import replace

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Tensor, op
from braces.lazy import lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, promote_arrays, real_valued
from braces.ops.linalg.determinant import elimination_cost, of_squares


def of_one_square(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: a square matrix for each square matrix."""
    axis_map = of_squares(types, attrs)
    return replace(axis_map, outputs={"out": axis_map.inputs["x"]})


def triangular_solve_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `triangular_solve`: a column of the result for each right-hand side."""
    del attrs
    a, b = shape_of(types["a"][0]), shape_of(types["b"][0])
    if len(a) < 2 or len(a) != len(b):
        raise AxisError(f"expected matrices of equal rank, got ranks {len(a)} and {len(b)}.")
    if a[-1] != a[-2]:
        raise AxisError(f"expected square matrices, got {a[-2]} by {a[-1]}.")
    batch = numbered_indices(len(a) - 2)
    inputs = {"a": ((*batch, "row", "i"),), "b": ((*batch, "i", "column"),)}
    return make_axis_map(types, inputs, {"out": ((*batch, "i", "column"),)}, ("row", "i"))


@op(
    axes=of_one_square,
    dtypes=real_valued,
    costly=True,
    operations=count_per_element("x", elimination_cost),
    examples=("x=f32[3,3]", "x=f64[b,2,2]", "x=f64[1,1]", "x=c64[2,2]"),
)
@in_float32
def cholesky(x: Tensor) -> Tensor:
    """The Cholesky factor (lower triangular) of symmetric positive definite matrices.

        out @ out^T = (x + x^T) / 2

    The result is NaN for other matrices. Complex matrices are Hermitian, and ^T is the
    conjugate transpose.

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        out: float[*shape, n, n], zero above the diagonal; integers give float32.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    return lax.linalg.cholesky(as_floating(x))


@op(
    axes=triangular_solve_axes,
    dtypes=real_valued,
    costly=True,
    operations=count_per_element("b", lambda types, attrs: shape_of(types["a"][0])[-1]),
    examples=(
        "a=f32[3,3] b=f32[3,2] lower=True",
        "a=f64[b,2,2] b=f64[b,2,3]",
        "a=f64[2,2] b=f64[2,1] lower=True transpose_a=True",
        "a=f64[3,3] b=f64[3,2] unit_diagonal=True",
        "a=c64[2,2] b=c64[2,1] transpose_a=True",
    ),
)
@in_float32
def triangular_solve(
    a: Tensor,
    b: Tensor,
    *,
    lower: bool = False,
    transpose_a: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """The solution of triangular systems of linear equations.

        a @ out = b, or a^T @ out = b

    Inputs:
        a: number[*shape, n, n]. Only one triangle is read.
        b: number[*shape, n, m].

    Attributes:
        lower: Whether `a` is lower triangular.
        transpose_a: Whether to solve with the transpose of `a`.
        unit_diagonal: Whether the diagonal is assumed to be 1, and not read.

    Outputs:
        out: float[*shape, n, m]; integers give float32.

    Raises:
        ShapeError: If the shapes are incompatible.
    """
    left, right = map(as_floating, promote_arrays(a, b))
    return lax.linalg.triangular_solve(
        left,
        right,
        left_side=True,
        lower=lower,
        transpose_a=transpose_a,
        unit_diagonal=unit_diagonal,
    )
