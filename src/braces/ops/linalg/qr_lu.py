"""QR and LU decompositions.

Both work on the last two axes; the leading axes are a batch. Kernels and derivatives are those
of `jax.lax.linalg`.
"""

from __future__ import annotations

from typing import Any, cast

from braces.define.axes.axis_map import Attrs, AxisError, AxisMap, Types
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Tensor, op
from braces.dims import call
from braces.dtypes import INT32, DType
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import widen_half
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.nondifferentiable import refuse_derivative_if
from braces.ops.common.rules import as_floating, real_valued
from braces.ops.linalg.eigh_svd import (
    MORE_VECTORS,
    TALL_AND_WIDE,
    compute_factors,
    decomposition_axes,
    factor_dtypes,
    matrix_sizes,
    sweep_cost,
)


def of_triangles(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `qr`: an orthogonal and a triangular matrix."""
    if attrs["mode"] not in ("reduced", "complete"):
        raise AxisError(
            f"unknown mode {attrs['mode']!r:.40}.", fix="Use 'reduced' or 'complete'."
        )
    _, rows, columns = matrix_sizes(types)
    inner = rows if attrs["mode"] == "complete" else call("min", rows, columns)
    sizes = {"r": rows, "inner": inner, "c": columns}
    return decomposition_axes(types, sizes, q=("r", "inner"), r=("inner", "c"))


def of_pivots(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `lu`: both triangles in one matrix, pivots and permutation."""
    del attrs
    _, rows, columns = matrix_sizes(types)
    sizes = {"r": rows, "c": columns, "pivot": call("min", rows, columns)}
    return decomposition_axes(
        types, sizes, lu=("r", "c"), pivots=("pivot",), permutation=("r",)
    )


def with_places(what: str, x: DType) -> tuple[DType, DType, DType]:
    """Dtype rule: floats, and two arrays of indices."""
    return real_valued(what, x), INT32, INT32


@op(
    outputs=("q", "r"),
    axes=of_triangles,
    dtypes=factor_dtypes("factor", "factor"),
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=(*TALL_AND_WIDE, "x=f32[2,3]", "x=f64[2,2] mode=complete", "x=c64[3,2]"),
)
def qr(x: Tensor, *, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """The QR decomposition of matrices: an orthogonal and an upper triangular factor.

        x = q @ r,  q^T @ q = eye(k)

    For complex matrices, ^T is the conjugate transpose. Computed by Householder reflections
    (Golub and Van Loan, Matrix Computations, 5.2). The signs of the columns of `q` are
    arbitrary.

    Inputs:
        x: number[*shape, m, n].

    Attributes:
        mode: `"reduced"`: `q` has k = min(m, n) columns. `"complete"`: it has k = m columns,
            and there is no derivative if m > n.

    Outputs:
        q: float[*shape, m, k]; integers give float32.
        r: float[*shape, k, n], zero below the diagonal.

    Raises:
        ShapeError: If `x` has rank below 2, or `mode` is invalid.
        GradientError: If the gradient is undefined, see `mode`.
    """
    return cast("tuple[Tensor, Tensor]", compute_factors(lambda x: _compute_qr(x, mode), x))


def _compute_qr(x: Any, mode: str) -> tuple[Any, ...]:
    """Decompose a wide matrix by its leading square, so that the derivative is defined."""
    rows = x.shape[-2]
    if rows >= x.shape[-1]:
        return cast("tuple[Any, ...]", jnp.linalg.qr(x, mode=mode))
    q, r = jnp.linalg.qr(x[..., :rows])
    right = jnp.matmul(jnp.matrix_transpose(jnp.conj(q)), x[..., rows:])
    return q, jnp.concatenate([r, right], axis=-1)


@op(
    outputs=("lu", "pivots", "permutation"),
    axes=of_pivots,
    dtypes=with_places,
    function=False,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=("x=f32[3,3]", "x=f64[b,2,2]", "x=f64[3,2]", "x=f64[0,2,2]", "x=c64[2,2]"),
)
def lu(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The LU decomposition with partial pivoting, both triangles in one matrix.

        x[permutation] = (tril(lu, -1) + eye) @ triu(lu)

    Inputs:
        x: number[*shape, m, n].

    Outputs:
        lu: float[*shape, m, n]; integers give float32.
        pivots: i32[*shape, min(m, n)]. The row with which each row was exchanged, in order.
        permutation: i32[*shape, m]. The row of `x` for each row of the result.

    Raises:
        ShapeError: If `x` has rank below 2.
    """
    floats = as_floating(x)
    packed, pivots, permutation = lax.linalg.lu(widen_half(floats))
    return packed.astype(floats.dtype), pivots.astype(INT32), permutation.astype(INT32)


def _refuse_complete(values: VarSlots, attrs: Attrs) -> str | None:
    (x,) = values["x"]
    is_tall = x.shape[-1] != call("max", x.shape[-1], x.shape[-2])
    return "Use br.linalg.qr(x)." if attrs["mode"] == "complete" and is_tall else None


refuse_derivative_if(qr, _refuse_complete, MORE_VECTORS)
