"""Eigenvalue decomposition of matrices that need not be symmetric, and tridiagonal systems.

Both work on the last axes; the leading axes are a batch. Kernels and derivatives are those of
`jax.lax.linalg`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

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
from braces.dtypes import DType
from braces.lazy import lax
from braces.ops.common.half_precision import in_float32, widen_half
from braces.ops.common.rules import as_floating, promote_arrays, real_valued
from braces.ops.linalg.eigh_svd import of_eigenvectors, sweep_cost


def two_complex(what: str, x: DType, **attrs: Any) -> tuple[DType, DType]:
    """Dtype rule: two complex results."""
    del attrs
    dtype = np.result_type(np.complex64, real_valued(what, x))
    return dtype, dtype


@op(
    outputs=("eigenvalues", "eigenvectors"),
    axes=of_eigenvectors,
    dtypes=two_complex,
    function=False,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=("x=f32[3,3]", "x=f64[b,2,2]", "x=f64[3,3] left=True", "x=f64[0,2,2]"),
)
def eig(x: Tensor, *, left: bool = False) -> tuple[Tensor, Tensor]:
    """The eigenvalues and eigenvectors of square matrices.

        x @ eigenvectors = eigenvectors @ diag(eigenvalues)

    The order of the eigenvalues and the phases of the vectors are those of LAPACK. Results
    computed from the vectors must not depend on them. It runs on CPU.

    Inputs:
        x: number[*shape, n, n].

    Attributes:
        left: Whether the vectors are left ones: eigenvectors^H @ x = diag(eigenvalues) @
            eigenvectors^H.

    Outputs:
        eigenvalues: complex[*shape, n].
        eigenvectors: complex[*shape, n, n], in columns of length 1.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    values, vectors = cast("Any", lax.linalg).eig(
        widen_half(as_floating(x)),
        compute_left_eigenvectors=left,
        compute_right_eigenvectors=not left,
        enable_eigvec_derivs=True,
    )
    return values, vectors


def tridiagonal_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `tridiagonal_solve`: a column of the result for each right-hand side."""
    del attrs
    d, b = shape_of(types["middle"][0]), shape_of(types["b"][0])
    if not d or len(b) != len(d) + 1:
        raise AxisError(f"expected diagonals and matrices, got ranks {len(d)} and {len(b)}.")
    batch = numbered_indices(len(d) - 1)
    inputs = {slot: ((*batch, "row"),) for slot in ("lower", "middle", "upper")}
    columns = (*batch, "row", "column")
    return make_axis_map(types, {**inputs, "b": (columns,)}, {"out": (columns,)}, ("row",))


@op(
    axes=tridiagonal_axes,
    dtypes=real_valued,
    function=False,
    costly=True,
    operations=count_per_element("b", lambda types, attrs: 8),
    examples=(
        "lower=f32[3] middle=f32[3] upper=f32[3] b=f32[3,2]",
        "lower=f64[b,4] middle=f64[b,4] upper=f64[b,4] b=f64[b,4,1]",
        "lower=c64[3] middle=c64[3] upper=c64[3] b=c64[3,1]",
    ),
)
@in_float32
def tridiagonal_solve(lower: Tensor, middle: Tensor, upper: Tensor, b: Tensor) -> Tensor:
    """The solution of systems of linear equations with tridiagonal matrices.

        lower[i] * out[i - 1] + middle[i] * out[i] + upper[i] * out[i + 1] = b[i]

    Inputs:
        lower: number[*shape, n]. The first element is not read.
        middle: number[*shape, n].
        upper: number[*shape, n]. The last element is not read.
        b: number[*shape, n, m].

    Outputs:
        out: float[*shape, n, m]; integers give float32.

    Raises:
        ShapeError: If the shapes are incompatible.
    """
    operands = map(as_floating, promote_arrays(lower, middle, upper, b))
    return lax.linalg.tridiagonal_solve(*operands)
