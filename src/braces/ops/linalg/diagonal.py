"""Operators on the diagonals of matrices: triangles and the diagonal itself."""

from __future__ import annotations

from braces.builder.append import emit
from braces.define.axes.axis_rules import mix_all_axes
from braces.define.decorator import Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Size, call
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import first_dtype

MATRICES = (
    "x=f32[3,4]",
    "x=f32[b,3,3] k=1",
    "x=f64[b,t] k=-1",
    "x=i32[2,2]",
    "x=f32[0,2] k=0",
)


@op(axes="... i! j! -> ... i! j!", dtypes=first_dtype, operations=1, examples=MATRICES)
def tril(x: Tensor, *, k: int = 0) -> Tensor:
    """The lower triangle of matrices, zeros above it.

        out[..., i, j] = x[..., i, j] if j <= i + k else 0

    Inputs:
        x: any[*shape, n, m].

    Attributes:
        k: The last diagonal that is kept; positive ones are above the main diagonal.

    Outputs:
        out: any[*shape, n, m].

    Raises:
        ShapeError: If `x` has rank below 2.
    """
    return jnp.tril(x, k)


@op(axes="... i! j! -> ... i! j!", dtypes=first_dtype, operations=1, examples=MATRICES)
def triu(x: Tensor, *, k: int = 0) -> Tensor:
    """The upper triangle of matrices, zeros below it.

        out[..., i, j] = x[..., i, j] if j >= i + k else 0

    Inputs:
        x: any[*shape, n, m].

    Attributes:
        k: The first diagonal that is kept; positive ones are above the main diagonal.

    Outputs:
        out: any[*shape, n, m].

    Raises:
        ShapeError: If `x` has rank below 2.
    """
    return jnp.triu(x, k)


tril.gradient(lambda g: {"x": emit("tril", g.out_grad, k=g.attrs["k"])})


triu.gradient(lambda g: {"x": emit("triu", g.out_grad, k=g.attrs["k"])})


@op(
    axes=mix_all_axes,
    operations=0,
    examples=(
        "x=f32[3]",
        "x=f32[b] k=1",
        "x=f64[3,4] k=-1",
        "x=f64[b,b]",
        "x=f32[3,t] k=1",
        "x=f32[0]",
        "x=f32[2,2] k=5",
    ),
)
def diag(x: Tensor, *, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or for a vector, the matrix with that diagonal.

        out[i] = x[i, i + k], or out[i, i + k] = x[i]

    Inputs:
        x: any[n, m] or any[n].

    Attributes:
        k: The index of the diagonal; positive ones are above the main diagonal.

    Outputs:
        out: any[min(n, m)] for a matrix and k = 0; any[n + |k|, n + |k|] for a vector.

    Raises:
        ShapeError: If `x` is neither a vector nor a matrix.
    """
    return jnp.diag(x, k)


@diag.infer
def infer_diag(context: InferenceContext, x: TensorType, *, k: int) -> TensorType:
    """Infer the length of the diagonal, or the sizes of the matrix."""
    if x.rank == 1:
        return x.with_shape((x.shape[0] + abs(k),) * 2)
    if x.rank != 2:
        raise ShapeError(f"{context.type}: expected a vector or a matrix, got {x}.")
    rows: Size = x.shape[0] + min(k, 0)
    columns: Size = x.shape[1] - max(k, 0)
    return x.with_shape((call("max", call("min", rows, columns), 0),))


register_linear(tril, triu, diag)
