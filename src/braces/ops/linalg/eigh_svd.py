"""Eigenvalue decomposition of symmetric matrices, and singular value decomposition.

All work on the last two axes; the leading axes are a batch. Kernels are those of
`jax.lax.linalg`. Derivatives of vectors divide by differences of eigenvalues or singular values
(Giles, An extended collection of matrix derivative results, 2008). They are infinite or NaN for
equal values, as in JAX and torch; derivatives of the values alone are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from braces.builder.append import apply, emit
from braces.builder.var import Var
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
from braces.dims import Size, call
from braces.dtypes import DType
from braces.lazy import jnp
from braces.ops.common.half_precision import is_narrow, widen_half
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.nondifferentiable import refuse_derivative_if
from braces.ops.common.rules import Backward, as_floating, real_valued
from braces.ops.linalg.determinant import of_squares

SYMMETRIC = ("x=f32[3,3]", "x=f64[b,2,2]", "x=f64[0,2,2]", "x=f64[2,0,0]")
MORE_VECTORS = "a complete orthogonal basis"
TALL_AND_WIDE = ("x=f64[3,2]", "x=f64[b,2,2]", "x=f64[0,3,2]")


# ---- rules -----------------------------------------------------------------------------------


def matrix_sizes(types: Types) -> tuple[tuple[str, ...], Size, Size]:
    """Return the batch axes, and the numbers of rows and columns."""
    shape = shape_of(types["x"][0])
    if len(shape) < 2:
        raise AxisError(f"expected an array of rank 2 or more, got rank {len(shape)}.")
    return numbered_indices(len(shape) - 2), shape[-2], shape[-1]


def decomposition_axes(
    types: Types, sizes: dict[str, Size], **outputs: tuple[str, ...]
) -> AxisMap:
    """Build the axis map of a decomposition: factors with a batch and axes of these sizes."""
    batch, _, _ = matrix_sizes(types)
    indices = (*batch, "row", "column")
    factor_axes = {slot: ((*batch, *axes),) for slot, axes in outputs.items()}
    used_names = {axis for axes in outputs.values() for axis in axes}
    factor_sizes = {name: size for name, size in sizes.items() if name in used_names}
    non_pointwise = ("row", "column", *factor_sizes)
    return make_axis_map(
        types, {"x": (indices,)}, factor_axes, non_pointwise, sizes=factor_sizes
    )


def of_eigenvalues(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `eigvalsh`: one eigenvalue for each row."""
    of_squares(types, attrs)
    _, rows, _ = matrix_sizes(types)
    return decomposition_axes(types, {"value": rows}, out=("value",))


def of_eigenvectors(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `eigh`: one eigenvalue and eigenvector for each row."""
    of_squares(types, attrs)
    _, rows, _ = matrix_sizes(types)
    sizes = {"value": rows, "entry": rows}
    vectors = ("entry", "value")
    return decomposition_axes(types, sizes, eigenvalues=("value",), eigenvectors=vectors)


def of_singular_values(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `svdvals`: min(rows, columns) singular values."""
    del attrs
    _, rows, columns = matrix_sizes(types)
    return decomposition_axes(types, {"value": call("min", rows, columns)}, out=("value",))


def of_singular_vectors(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `svd`: left and right vectors, all of them or one for each value."""
    _, rows, columns = matrix_sizes(types)
    least = call("min", rows, columns)
    left, right = (rows, columns) if attrs["full_matrices"] else (least, least)
    sizes = {"value": least, "r": rows, "c": columns, "left": left, "right": right}
    return decomposition_axes(types, sizes, u=("r", "left"), s=("value",), vh=("right", "c"))


def factor_dtypes(*factors: str) -> Callable[..., tuple[DType, ...]]:
    """Build a dtype rule: factors of the dtype of the matrix, or `"real"` numbers of it."""

    def rule(what: str, x: DType, **attrs: Any) -> tuple[DType, ...]:
        del attrs
        dtype = real_valued(what, x)
        return tuple(real_part(dtype) if kind == "real" else dtype for kind in factors)

    return rule


def real_part(dtype: DType) -> DType:
    """Return the dtype of the parts of complex numbers; other dtypes are unchanged."""
    return np.finfo(dtype).dtype if dtype.kind == "c" else dtype


def real_values(what: str, x: DType) -> DType:
    """Dtype rule: real numbers, also for complex matrices."""
    return real_part(real_valued(what, x))


def sweep_cost(types: Types, attrs: Attrs) -> Size:
    """Cost per element: about ten products with a row."""
    del attrs
    return 10 * shape_of(types["x"][0])[-1]


def compute_factors(function: Callable[[Any], tuple[Any, ...]], x: Tensor) -> tuple[Any, ...]:
    """Compute factors in the dtype of the matrices; those of 16-bit floats in float32."""
    floats = as_floating(x)
    if not is_narrow(np.dtype(floats.dtype)):
        return function(floats)
    return tuple(part.astype(floats.dtype) for part in function(widen_half(floats)))


# ---- eigenvalues -----------------------------------------------------------------------------


@op(
    outputs=("eigenvalues", "eigenvectors"),
    axes=of_eigenvectors,
    dtypes=factor_dtypes("real", "vectors"),
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=SYMMETRIC,
)
def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues and eigenvectors of symmetric matrices.

        (x + x^T) / 2 = eigenvectors @ diag(eigenvalues) @ eigenvectors^T

    Complex matrices are Hermitian, and ^T is the conjugate transpose. The sign of a vector is
    arbitrary, and so is the basis of the space of equal eigenvalues. Results computed from the
    vectors must not depend on the choice.

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        eigenvalues: float[*shape, n], in ascending order; integers give float32.
        eigenvectors: float[*shape, n, n], in columns of length 1.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    return cast("tuple[Tensor, Tensor]", compute_factors(jnp.linalg.eigh, x))


@eigh.gradient
def eigh_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = symmetric part of conj(v) @ (diag(w_grad) + v^T v_grad / (w_j - w_i)) @ v^T."""
    values, vectors = g["eigenvalues"], g["eigenvectors"]
    (values_grad,), (vectors_grad,) = g.grads["eigenvalues"], g.grads["eigenvectors"]
    if vectors_grad is None:
        assert values_grad is not None
        return {"x": _spectrum_gradient(vectors, values_grad, g["x"])}
    eye = emit("eye", n=values.shape[-1], dtype=values.dtype)
    gaps = emit("expand_dims", values, axis=-2) - emit("expand_dims", values, axis=-1)
    transposed = emit("matrix_transpose", vectors)
    inner = (transposed @ vectors_grad) * (emit("reciprocal", gaps + eye) - eye)
    if values_grad is not None:
        inner = inner + emit("expand_dims", values_grad, axis=-1) * eye
    product = _conjugated(vectors) @ inner @ transposed
    mirrored = _conjugated(emit("matrix_transpose", product))
    return {"x": _cast_like((product + mirrored) * 0.5, g["x"])}


def _conjugated(x: Var) -> Var:
    return emit("conj", x) if x.dtype.kind == "c" else x


def _spectrum_gradient(vectors: Var, grad: Var, x: Var) -> Var:
    """Return the gradient from cotangents of eigenvalues: conj(v) @ diag(w_grad) @ v^T."""
    scaled = _conjugated(vectors) * emit("expand_dims", grad, axis=-2)
    return _cast_like(scaled @ emit("matrix_transpose", vectors), x)


def _cast_like(grad: Var, x: Var) -> Var:
    return grad if grad.dtype == x.dtype else emit("cast", grad, dtype=x.dtype)


@op(
    axes=of_eigenvalues,
    dtypes=real_values,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=(*SYMMETRIC, "x=c64[2,2]"),
)
def eigvalsh(x: Tensor) -> Tensor:
    """The eigenvalues of symmetric matrices, in ascending order.

        out = eigenvalues of (x + x^T) / 2

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        out: float[*shape, n]; integers give float32.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    return compute_factors(lambda x: (jnp.linalg.eigvalsh(x, symmetrize_input=True),), x)[0]


@eigvalsh.gradient
def eigvalsh_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = conj(v) @ diag(out_grad) @ v^T, with the eigenvectors."""
    vectors = apply("eigh", {"x": (g["x"],)})["eigenvectors"][0]
    return {"x": _spectrum_gradient(vectors, g.out_grad, g["x"])}


# ---- singular values -------------------------------------------------------------------------


@op(
    outputs=("u", "s", "vh"),
    axes=of_singular_vectors,
    dtypes=factor_dtypes("vectors", "real", "vectors"),
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=(
        *(f"{example} full_matrices=False" for example in TALL_AND_WIDE),
        "x=f64[2,3] full_matrices=False",
        "x=f32[2,2]",
    ),
)
def svd(x: Tensor, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition of matrices.

        x = u[..., :k] @ diag(s) @ vh[..., :k, :], with k = min(m, n)

    The sign of a pair of vectors is arbitrary, and so is the basis of the space of equal
    singular values. Results computed from the vectors must not depend on the choice.

    Inputs:
        x: number[*shape, m, n].

    Attributes:
        full_matrices: Whether `u` and `vh` are square. If so, `x` must be square for a
            derivative, because the vectors beyond `k` are an arbitrary orthogonal complement.

    Outputs:
        u: float[*shape, m, m], or float[*shape, m, k]; columns of length 1. Integers give
            float32.
        s: float[*shape, k], in descending order.
        vh: float[*shape, n, n], or float[*shape, k, n]; rows of length 1.

    Raises:
        ShapeError: If `x` has rank below 2.
        GradientError: If the gradient is undefined, see `full_matrices`.
    """

    def decompose(x: Any) -> tuple[Any, ...]:
        return cast("tuple[Any, ...]", jnp.linalg.svd(x, full_matrices=full_matrices))

    return cast("tuple[Tensor, Tensor, Tensor]", compute_factors(decompose, x))


@op(
    axes=of_singular_values,
    dtypes=real_values,
    costly=True,
    operations=count_per_element("x", sweep_cost),
    examples=("x=f32[2,3]", *TALL_AND_WIDE, "x=c64[2,2]"),
)
def svdvals(x: Tensor) -> Tensor:
    """The singular values of matrices, in descending order.

        out = square roots of the largest min(m, n) eigenvalues of x^T @ x

    Inputs:
        x: number[*shape, m, n].

    Outputs:
        out: float[*shape, min(m, n)]; integers give float32.

    Raises:
        ShapeError: If `x` has rank below 2.
    """
    return compute_factors(lambda x: (jnp.linalg.svdvals(x),), x)[0]


@svdvals.gradient
def svdvals_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = conj(u @ diag(out_grad) @ vh), with the singular vectors."""
    decomposition = apply("svd", {"x": (g["x"],)}, {"full_matrices": False})
    scaled = decomposition["u"][0] * emit("expand_dims", g.out_grad, axis=-2)
    return {"x": _cast_like(_conjugated(scaled @ decomposition["vh"][0]), g["x"])}


# ---- undefined derivatives -------------------------------------------------------------------


def _refuse_full_matrices(values: VarSlots, attrs: Attrs) -> str | None:
    (x,) = values["x"]
    full = attrs["full_matrices"] and x.shape[-1] != x.shape[-2]
    return "Use br.linalg.svd(x, full_matrices=False)." if full else None


refuse_derivative_if(svd, _refuse_full_matrices, MORE_VECTORS)
