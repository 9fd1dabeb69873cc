"""Systems of linear equations, inverses of matrices, and logarithms of determinants.

All work on the last two axes; the leading axes are a batch. A singular matrix is no error: the
result is infinite or NaN, as in JAX and torch. The determinant of an empty matrix is 1.
"""

from __future__ import annotations

from dataclasses import replace

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Names,
    Types,
    broadcasting_indices,
    make_axis_map,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Tensor, op
from braces.dims import Size
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32, widen_half
from braces.ops.common.rules import (
    Backward,
    as_floating,
    promote_arrays,
    real_valued,
    sum_to,
)
from braces.ops.linalg.cholesky import of_one_square
from braces.ops.linalg.determinant import elimination_cost, of_squares
from braces.ops.linalg.eigh_svd import factor_dtypes

SQUARES = ("x=f32[3,3]", "x=f64[b,2,2]", "x=i32[2,2]", "x=f64[0,3,3]", "x=f64[2,0,0]")


def solve_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `solve`: a solution for each right-hand side; batch axes broadcast."""
    del attrs
    a, b = shape_of(types["a"][0]), shape_of(types["b"][0])
    if len(a) < 2 or not b:
        raise AxisError(
            "expected a matrix `a` and a vector or matrix `b`, "
            f"got ranks {len(a)} and {len(b)}."
        )
    if a[-1] != a[-2]:
        raise AxisError(f"expected square matrices, got {a[-2]} by {a[-1]}.")
    ends: Names = ("i",) if len(b) == 1 else ("i", "column")
    first, second = broadcasting_indices(len(a) - 2), broadcasting_indices(len(b) - len(ends))
    inputs = {"a": ((*first, "row", "i"),), "b": ((*second, *ends),)}
    longer = max(first, second, key=len)
    return make_axis_map(types, inputs, {"out": ((*longer, *ends),)}, ("row", "i"))


def substitution_cost(types: Types, attrs: Attrs) -> Size:
    """Cost per element of the right-hand side: two substitutions, after factorization."""
    del attrs
    return 2 * shape_of(types["a"][0])[-1]


@op(
    axes=solve_axes,
    dtypes=real_valued,
    costly=True,
    operations=count_per_element("b", substitution_cost),
    examples=(
        "a=f32[3,3] b=f32[3,2]",
        "a=f64[b,2,2] b=f64[b,2,1]",
        "a=f64[b,2,2] b=f64[2]",
        "a=f64[2,2] b=f64[b,2,3]",
        "a=i32[2,2] b=f32[2]",
        "a=f64[0,0] b=f64[0,2]",
        "a=c64[2,2] b=c64[2]",
    ),
)
@in_float32
def solve(a: Tensor, b: Tensor) -> Tensor:
    """The solution of systems of linear equations.

        a @ out = b

    Computed by Gaussian elimination with pivoting (Golub and Van Loan, Matrix Computations,
    3.4), once for all right-hand sides. If `a` is singular, the result is infinite or NaN.

    Inputs:
        a: number[*shape, n, n].
        b: number[n], or number[*shape, n, m]: a vector, or matrices; batch axes broadcast.

    Outputs:
        out: float[*shape, n] or float[*shape, n, m]; integers give float32.

    Raises:
        ShapeError: If `a` is not square in its last two axes, or the sizes do not match.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     a, b = br.constant([[2.0, 0.0], [1.0, 1.0]]), br.constant([2.0, 3.0])
        ...     x = br.linalg.solve(a, b)
        >>> br.Executor().run(prog, br.Scope(), fetch=x).tolist()
        [1.0, 2.0]
    """
    return jnp.linalg.solve(*map(as_floating, promote_arrays(a, b)))


@solve.gradient
def solve_gradient(g: Backward) -> dict[str, Var]:
    """b_grad = solve(a^T, out_grad), a_grad = -b_grad @ out^T."""
    grad, out = g.out_grad, g["out"]
    is_vector = g["b"].ndim == 1
    columns = _as_column(grad) if is_vector else grad
    solved = emit("solve", emit("matrix_transpose", g["a"]), columns)
    grads = dict[str, Var]()
    if g.wants("b"):
        b_grad = emit("squeeze", solved, axis=-1) if is_vector else solved
        grads["b"] = sum_to(b_grad, g["b"])
    if g.wants("a"):
        solution = _as_column(out) if is_vector else out
        grads["a"] = sum_to(-(solved @ emit("matrix_transpose", solution)), g["a"])
    return grads


def _as_column(x: Var) -> Var:
    return emit("expand_dims", x, axis=-1)


@op(
    axes=of_one_square,
    dtypes=real_valued,
    costly=True,
    operations=count_per_element("x", elimination_cost),
    examples=(*SQUARES, "x=c64[2,2]"),
)
@in_float32
def inv(x: Tensor) -> Tensor:
    """The inverse of square matrices.

        out @ x = x @ out = eye(n)

    To solve equations, `solve` is faster and more precise. If `x` is singular, the result is
    infinite or NaN.

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        out: float[*shape, n, n]; integers give float32.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    return jnp.linalg.inv(as_floating(x))


@inv.gradient
def inv_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = -out^T @ out_grad @ out^T."""
    transposed = emit("matrix_transpose", g["out"])
    return {"x": sum_to(-(transposed @ g.out_grad @ transposed), g["x"])}


def of_logarithms(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `slogdet`: two numbers for each matrix."""
    axis_map = of_squares(types, attrs)
    out = axis_map.outputs["out"]
    return replace(axis_map, outputs={"sign": out, "logabsdet": out})


@op(
    outputs=("sign", "logabsdet"),
    axes=of_logarithms,
    dtypes=factor_dtypes("sign", "real"),
    costly=True,
    operations=count_per_element("x", elimination_cost),
    examples=(*SQUARES, "x=c64[2,2]"),
)
def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sign and the logarithm of the absolute value of the determinant.

        det(x) = sign * exp(logabsdet)

    It does not overflow where the determinant would. If `x` is singular, it is 0 and -inf.

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        sign: float[*shape]: 1, -1 or 0, or a complex number of size 1 or 0; integers give
            float32.
        logabsdet: float[*shape], always real.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    x = as_floating(x)
    sign, logabsdet = jnp.linalg.slogdet(widen_half(x))
    return sign.astype(x.dtype), logabsdet.astype(x.real.dtype)


@slogdet.gradient
def slogdet_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = (logabsdet_grad + i imag(sign_grad sign)) inv(x)^T; a real sign is constant."""
    grad = _logarithm_cotangent(g)
    if grad is None:
        return {}
    transposed = emit("matrix_transpose", emit("inv", g["x"]))
    return {"x": sum_to(transposed * _as_column(_as_column(grad)), g["x"])}


def _logarithm_cotangent(g: Backward) -> Var | None:
    """Return the cotangent of the logarithm of the determinant, from those of its parts."""
    (sign_grad,), (grad,) = g.grads["sign"], g.grads["logabsdet"]
    if g["sign"].dtype.kind != "c":
        return grad
    if sign_grad is None:
        return None if grad is None else emit("cast", grad, dtype=g["sign"].dtype)
    angle = emit("imag", sign_grad * g["sign"])
    return emit("complex", emit("zeros_like", angle) if grad is None else grad, angle)
