"""Matrix exponential and pseudoinverse.

Both work on the last two axes; the leading axes are a batch.
"""

from __future__ import annotations

from dataclasses import replace

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import Attrs, AxisMap, Types
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Tensor, op
from braces.dims import Size
from braces.dtypes import FLOAT32
from braces.lazy import jax, jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import Backward, as_floating, real_function, real_valued, sum_to
from braces.ops.linalg.cholesky import of_one_square
from braces.ops.linalg.determinant import elimination_cost
from braces.ops.linalg.eigh_svd import (
    TALL_AND_WIDE,
    decomposition_axes,
    matrix_sizes,
    sweep_cost,
)

# ---- exponentials ----------------------------------------------------------------------------


def expm_cost(types: Types, attrs: Attrs) -> Size:
    """Cost per element of `expm`: about thirteen matrix products."""
    return 26 * elimination_cost(types, attrs)


@op(
    axes=of_one_square,
    dtypes=real_valued,
    costly=True,
    operations=count_per_element("x", expm_cost),
    examples=("x=f32[3,3]", "x=f64[b,2,2]", "x=i32[2,2]", "x=f64[0,2,2]", "x=c64[2,2]"),
)
@in_float32
def expm(x: Tensor) -> Tensor:
    """The exponential of square matrices.

        out = sum_k x^k / k!

    Computed by scaling and squaring of a Padé approximation (Al-Mohy and Higham, A New Scaling
    and Squaring Algorithm for the Matrix Exponential, 2009).

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        out: float[*shape, n, n]; integers give float32. NaN if the matrix needs scaling by
            more than 2^16.

    Raises:
        ShapeError: If `x` is not square in its last two axes.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     turn = br.linalg.expm(br.constant([[0.0, 1.0], [0.0, 0.0]]))
        >>> br.Executor().run(prog, br.Scope(), fetch=turn).tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    x = as_floating(x)
    return jax.scipy.linalg.expm(x) if x.size else x


@expm.gradient
def expm_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = the upper right block of the exponential of [[x^T, out_grad], [0, x^T]]."""
    x, grad = emit("matrix_transpose", emit("cast", g["x"], dtype=g.out_grad.dtype)), g.out_grad
    rows = emit("concat", x, grad, axis=-1), emit("concat", emit("zeros_like", x), x, axis=-1)
    n = x.shape[-1]
    block = emit("expm", emit("concat", *rows, axis=-2))[..., :n, n : n + n]
    return {"x": sum_to(block, g["x"])}


# ---- inverses --------------------------------------------------------------------------------


def of_inverses(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `pinv`: rows and columns are exchanged."""
    del attrs
    batch, rows, columns = matrix_sizes(types)
    axis_map = decomposition_axes(types, {"r": columns, "c": rows}, out=("r", "c"))
    return replace(axis_map, inputs={"x": ((*batch, "row", "column"),)})


@op(
    axes=of_inverses,
    dtypes=real_function,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=("x=f32[2,3]", *TALL_AND_WIDE, "x=f64[2,2] rtol=0.1"),
)
@in_float32
def pinv(x: Tensor, *, rtol: float | None = None) -> Tensor:
    """The Moore-Penrose pseudoinverse of matrices, by singular values.

        x @ out @ x = x and out @ x @ out = out, where both products are symmetric

    Inputs:
        x: real[*shape, m, n].

    Attributes:
        rtol: Singular values up to `rtol` times the largest count as zero; by default ten
            times the larger size times the machine epsilon.

    Outputs:
        out: float[*shape, n, m]; integers give float32. The gradient assumes constant rank
            (Golub and Pereyra, 1973): the pseudoinverse is discontinuous where singular values
            that count as zero change.

    Raises:
        ShapeError: If `x` has rank below 2.
        DTypeError: If the dtype is complex.
    """
    x = as_floating(x)
    return jnp.linalg.pinv(x, rtol=rtol) if x.size else jnp.matrix_transpose(x)


@pinv.gradient
def pinv_gradient(g: Backward) -> dict[str, Var]:
    """-p^T g p^T + (1 - x p) g^T p p^T + p^T p g^T (1 - p x), where p is the pseudoinverse."""
    p = g["out"]
    wide = FLOAT32 if p.dtype.itemsize < 4 else p.dtype
    x, out_grad = (emit("cast", var, dtype=wide) for var in (g["x"], g.out_grad))
    p = p if p.dtype == wide else emit("pinv", x, rtol=g.attrs["rtol"])
    transposed, grad = (emit("matrix_transpose", var) for var in (p, out_grad))
    right, left = grad @ p @ transposed, transposed @ p @ grad
    x_grad = (
        right - x @ (p @ right) + left - (left @ p) @ x - transposed @ out_grad @ transposed
    )
    return {"x": sum_to(x_grad, g["x"])}
