"""Matrices as products of orthogonal and simple ones: eigenvalues, singular values.

All work on the last two axes; those before are a batch. They are `jax.lax.linalg`'s.
Derivatives divide by differences of eigenvalues or singular values (Giles, An extended
collection of matrix derivative results, 2008): of vectors that belong to equal ones they are
infinite or NaN, as in JAX and torch, and those of the values alone are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    mapped,
    numbered,
    shape_of,
)
from braces.define.axes.flop_count import for_each
from braces.define.decorator import Tensor, op
from braces.dims import Size, call
from braces.dtypes import DType
from braces.lazy import jnp
from braces.ops.common.half_precision import widened
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.nondifferentiable import unless
from braces.ops.common.rules import Backward, floating, real_function
from braces.ops.linalg.determinant import of_squares

SYMMETRIC = ("x=f32[3,3]", "x=f64[b,2,2]", "x=f64[0,2,2]", "x=f64[2,0,0]")
MORE_VECTORS = "more vectors than values"
TALL_AND_WIDE = ("x=f64[3,2]", "x=f64[b,2,2]", "x=f64[0,3,2]")


# ---- rules -----------------------------------------------------------------------------------


def matrices(types: Types) -> tuple[tuple[str, ...], Size, Size]:
    """The axes before matrices, and their two sizes."""
    shape = shape_of(types["x"][0])
    if len(shape) < 2:
        raise AxisError(f"needs matrices, and there are {len(shape)} axes.")
    return numbered(len(shape) - 2), shape[-2], shape[-1]


def split_into(types: Types, sizes: dict[str, Size], **outputs: tuple[str, ...]) -> AxisMap:
    """Factors whose axes have these sizes; those before matrices are a batch."""
    batch, _, _ = matrices(types)
    indices = (*batch, "row", "column")
    found = {slot: ((*batch, *axes),) for slot, axes in outputs.items()}
    used = {axis for axes in outputs.values() for axis in axes}
    fresh = {name: size for name, size in sizes.items() if name in used}
    mixed = ("row", "column", *fresh)
    return mapped(types, {"x": (indices,)}, found, mixed, sizes=fresh)


def of_eigenvalues(types: Types, attrs: Attrs) -> AxisMap:
    """A value for each row of squares."""
    of_squares(types, attrs)
    _, rows, _ = matrices(types)
    return split_into(types, {"value": rows}, out=("value",))


def of_eigenvectors(types: Types, attrs: Attrs) -> AxisMap:
    """A value and a vector for each row of squares."""
    of_squares(types, attrs)
    _, rows, _ = matrices(types)
    sizes = {"value": rows, "entry": rows}
    vectors = ("entry", "value")
    return split_into(types, sizes, eigenvalues=("value",), eigenvectors=vectors)


def of_singular_values(types: Types, attrs: Attrs) -> AxisMap:
    """As many values as the shorter side has."""
    del attrs
    _, rows, columns = matrices(types)
    return split_into(types, {"value": call("min", rows, columns)}, out=("value",))


def of_singular_vectors(types: Types, attrs: Attrs) -> AxisMap:
    """Vectors of both sides; all of them, or those of the values."""
    _, rows, columns = matrices(types)
    least = call("min", rows, columns)
    left, right = (rows, columns) if attrs["full_matrices"] else (least, least)
    sizes = {"value": least, "r": rows, "c": columns, "left": left, "right": right}
    return split_into(types, sizes, u=("r", "left"), s=("value",), vh=("right", "c"))


def factors(count: int) -> Callable[..., tuple[DType, ...]]:
    """A rule for dtypes: so many results of real numbers."""

    def rule(what: str, x: DType, **attrs: Any) -> tuple[DType, ...]:
        del attrs
        return (real_function(what, x),) * count

    return rule


def sweeps(types: Types, attrs: Attrs) -> Size:
    """Each number takes part in a product with a row, some ten times over."""
    del attrs
    return 10 * shape_of(types["x"][0])[-1]


def factored(function: Callable[[Any], tuple[Any, ...]], x: Tensor) -> tuple[Any, ...]:
    """Factors of matrices, in their dtype; those of 16-bit floats are computed in 32 bits."""
    given = floating(x)
    return tuple(part.astype(given.dtype) for part in function(widened(given)))


# ---- eigenvalues -----------------------------------------------------------------------------


@op(
    outputs=("eigenvalues", "eigenvectors"),
    axes=of_eigenvectors,
    dtypes=factors(2),
    costly=True,
    operations=for_each("x", sweeps),
    examples=SYMMETRIC,
)
def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues and eigenvectors of symmetric matrices.

        (x + x^T) / 2 = eigenvectors @ diag(eigenvalues) @ eigenvectors^T

    Each vector may have either sign, and those of equal values are any that span their space:
    what is computed from them must not depend on it.

    Inputs:
        x: real[*shape, n, n].

    Outputs:
        eigenvalues: float[*shape, n], in ascending order; integers give float32.
        eigenvectors: float[*shape, n, n], in columns of length 1.

    Raises:
        ShapeError: `x` holds no square matrices.
        DTypeError: Complex numbers.
    """
    return cast("tuple[Tensor, Tensor]", factored(jnp.linalg.eigh, x))


@eigh.gradient
def eigh_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = v @ (diag(w_grad) + v^T v_grad / (w_j - w_i)) @ v^T, and its symmetric part."""
    values, vectors = g["eigenvalues"], g["eigenvectors"]
    (of_values,), (of_vectors,) = g.grads["eigenvalues"], g.grads["eigenvectors"]
    if of_vectors is None:
        assert of_values is not None
        return {"x": _of_spectrum(vectors, of_values, g["x"])}
    eye = one("eye", n=values.shape[-1], dtype=values.dtype)
    gaps = one("expand_dims", values, axis=-2) - one("expand_dims", values, axis=-1)
    turned = one("matrix_transpose", vectors)
    inner = (turned @ of_vectors) * (one("reciprocal", gaps + eye) - eye)
    if of_values is not None:
        inner = inner + one("expand_dims", of_values, axis=-1) * eye
    whole = vectors @ inner @ turned
    return {"x": _like((whole + one("matrix_transpose", whole)) * 0.5, g["x"])}


def _of_spectrum(vectors: Var, grad: Var, x: Var) -> Var:
    """Cotangents of eigenvalues alone: v @ diag(w_grad) @ v^T."""
    scaled = vectors * one("expand_dims", grad, axis=-2)
    return _like(scaled @ one("matrix_transpose", vectors), x)


def _like(grad: Var, x: Var) -> Var:
    return grad if grad.dtype == x.dtype else one("cast", grad, dtype=x.dtype)


@op(
    axes=of_eigenvalues,
    dtypes=real_function,
    costly=True,
    operations=for_each("x", sweeps),
    examples=SYMMETRIC,
)
def eigvalsh(x: Tensor) -> Tensor:
    """The eigenvalues of symmetric matrices, in ascending order.

        out = eigenvalues of (x + x^T) / 2

    Inputs:
        x: real[*shape, n, n].

    Outputs:
        out: float[*shape, n]; integers give float32.

    Raises:
        ShapeError: `x` holds no square matrices.
        DTypeError: Complex numbers.
    """
    return factored(lambda x: (jnp.linalg.eigvalsh(x, symmetrize_input=True),), x)[0]


@eigvalsh.gradient
def eigvalsh_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = v @ diag(out_grad) @ v^T, with the eigenvectors."""
    vectors = apply("eigh", {"x": (g["x"],)})["eigenvectors"][0]
    return {"x": _of_spectrum(vectors, g.out_grad, g["x"])}


# ---- singular values -------------------------------------------------------------------------


@op(
    outputs=("u", "s", "vh"),
    axes=of_singular_vectors,
    dtypes=factors(3),
    costly=True,
    operations=for_each("x", sweeps),
    examples=(
        *(f"{example} full_matrices=False" for example in TALL_AND_WIDE),
        "x=f64[2,3] full_matrices=False",
        "x=f32[2,2]",
    ),
)
def svd(x: Tensor, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular values of matrices, and their vectors of both sides.

        x = u[..., :k] @ diag(s) @ vh[..., :k, :], with k = min(m, n)

    Each pair of vectors may have either sign, and those of equal values are any that span their
    space: what is computed from them must not depend on it.

    Inputs:
        x: real[*shape, m, n].

    Attributes:
        full_matrices: Whether `u` and `vh` are square. There is no derivative then unless `x`
            is square: the vectors beyond `k` are any that are orthogonal to the others.

    Outputs:
        u: float[*shape, m, m], or float[*shape, m, k]; columns of length 1. Integers give
            float32.
        s: float[*shape, k], in descending order.
        vh: float[*shape, n, n], or float[*shape, k, n]; rows of length 1.

    Raises:
        ShapeError: `x` holds no matrices.
        DTypeError: Complex numbers.
        GradientError: A derivative is wanted of what has none.
    """

    def decomposed(x: Any) -> tuple[Any, ...]:
        return cast("tuple[Any, ...]", jnp.linalg.svd(x, full_matrices=full_matrices))

    return cast("tuple[Tensor, Tensor, Tensor]", factored(decomposed, x))


@op(
    axes=of_singular_values,
    dtypes=real_function,
    costly=True,
    operations=for_each("x", sweeps),
    examples=("x=f32[2,3]", *TALL_AND_WIDE),
)
def svdvals(x: Tensor) -> Tensor:
    """The singular values of matrices, in descending order.

        out = square roots of the eigenvalues of x^T @ x, of which the smallest are left out

    Inputs:
        x: real[*shape, m, n].

    Outputs:
        out: float[*shape, min(m, n)]; integers give float32.

    Raises:
        ShapeError: `x` holds no matrices.
        DTypeError: Complex numbers.
    """
    return factored(lambda x: (jnp.linalg.svdvals(x),), x)[0]


@svdvals.gradient
def svdvals_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = u @ diag(out_grad) @ vh, with the singular vectors."""
    made = apply("svd", {"x": (g["x"],)}, {"full_matrices": False})
    scaled = made["u"][0] * one("expand_dims", g.out_grad, axis=-2)
    return {"x": _like(scaled @ made["vh"][0], g["x"])}


# ---- what has no derivative ------------------------------------------------------------------


def _not_square(values: VarSlots, attrs: Attrs) -> str | None:
    (x,) = values["x"]
    full = attrs["full_matrices"] and x.shape[-1] != x.shape[-2]
    return "Say br.svd(x, full_matrices=False)." if full else None


unless(svd, _not_square, MORE_VECTORS)
