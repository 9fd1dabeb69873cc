"""Matrix decompositions, which ONNX lacks: loops over their columns.

Each is a JAX function of supported primitives, traced like a kernel. The loops avoid dynamic
slices: columns are read and written by products with one-hot vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from braces import lazy
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule

jnp: Any = lazy.jnp
lax: Any = lazy.lax


def cholesky(a: Any) -> Any:
    """Return the Cholesky factor, column by column."""
    rows = jnp.arange(a.shape[-1])

    def step(k: Any, factor: Any) -> Any:
        one_hot = (rows == k).astype(a.dtype)
        column = a @ one_hot - jnp.einsum("...ij,...j->...i", factor, one_hot @ factor)
        column = column / jnp.sqrt(column @ one_hot)[..., None]
        return factor + jnp.where(rows >= k, column, 0)[..., None] * one_hot

    return lax.fori_loop(0, a.shape[-1], step, jnp.zeros_like(a))


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    """Solve a triangular system, row by row."""
    if not left_side:
        a, b, lower = (jnp.swapaxes(a, -1, -2), jnp.swapaxes(b, -1, -2), not lower)
    if transpose_a:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    size = a.shape[-1]
    rows = jnp.arange(size)

    def step(iteration: Any, solution: Any) -> Any:
        one_hot = (rows == (iteration if lower else size - 1 - iteration)).astype(a.dtype)
        row = one_hot @ a
        residual = one_hot @ b - jnp.einsum("...j,...jk->...k", row, solution)
        value = residual if unit_diagonal else residual / (row @ one_hot)[..., None]
        return solution + one_hot[:, None] * value[..., None, :]

    solution = lax.fori_loop(0, size, step, jnp.zeros_like(b))
    return solution if left_side else jnp.swapaxes(solution, -1, -2)


def lu(a: Any) -> tuple[Any, Any, Any]:
    """Return the packed LU factors, the pivots, and the permutation."""
    rows, columns = jnp.arange(a.shape[-2]), jnp.arange(a.shape[-1])
    steps, batch = min(a.shape[-2:]), a.shape[:-2]
    pivot_indices = jnp.arange(steps)

    def step(k: Any, carried: Any) -> Any:
        matrix, pivots, order = carried
        one_hot_column = (columns == k).astype(a.dtype)
        column = jnp.where(rows >= k, jnp.abs(matrix @ one_hot_column), -1)
        best = jnp.argmax(column, -1)[..., None]
        permutation = jnp.where(rows == k, best, jnp.where(rows == best, k, rows))
        matrix = jnp.take_along_axis(matrix, permutation[..., None], -2)
        order = jnp.take_along_axis(order, permutation, -1)
        pivots = jnp.where(pivot_indices == k, best.astype("int32"), pivots)
        row = (rows == k).astype(a.dtype) @ matrix
        pivot = (row @ one_hot_column)[..., None]
        column = matrix @ one_hot_column
        factor = jnp.where(pivot == 0, column, column / jnp.where(pivot == 0, 1, pivot))
        factor = jnp.where(rows > k, factor, 0)
        less = matrix - factor[..., None] * jnp.where(columns > k, row, 0)[..., None, :]
        is_factor = (rows > k)[:, None] & (columns == k)
        return jnp.where(is_factor, factor[..., None], less), pivots, order

    start = (
        a,
        jnp.zeros((*batch, steps), "int32"),
        jnp.broadcast_to(rows.astype("int32"), (*batch, a.shape[-2])),
    )
    return start if 0 in a.shape else lax.fori_loop(0, steps, step, start)


def qr(a: Any, *, full_matrices: bool) -> tuple[Any, Any]:
    """Return the QR factors, by Householder reflections."""
    height, width = a.shape[-2:]
    rows, columns = jnp.arange(height), jnp.arange(width)
    eye = jnp.broadcast_to(jnp.eye(height, dtype=a.dtype), (*a.shape[:-2], height, height))

    def step(k: Any, carried: Any) -> Any:
        q, r = carried
        one_hot = (rows == k).astype(a.dtype)
        column = r @ (columns == k).astype(a.dtype)
        below_diagonal = jnp.where(rows > k, column, 0)
        first = (column @ one_hot)[..., None]
        below = jnp.sum(below_diagonal * below_diagonal, -1, keepdims=True)
        sign = jnp.where(first < 0, -1, 1).astype(a.dtype)
        reflector = below_diagonal + one_hot * (first + sign * jnp.sqrt(first * first + below))
        reflector = jnp.where(below == 0, 0, reflector)
        square = jnp.sum(reflector * reflector, -1, keepdims=True)
        scaled = reflector * (2 / jnp.where(square == 0, 1, square))
        q = q - jnp.einsum("...ij,...j,...k->...ik", q, reflector, scaled)
        return q, r - jnp.einsum("...i,...j,...jk->...ik", scaled, reflector, r)

    q, r = lax.fori_loop(0, min(height, width), step, (eye, a))
    column_count = height if full_matrices else min(height, width)
    return q[..., :column_count], jnp.triu(r[..., :column_count, :])


def export_decomposition(
    function: Callable[..., Any], names: tuple[str, ...], e: ExportedEquation, *given: str
) -> list[str]:
    """Export a decomposition with these parameters."""
    structs = [lazy.jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in e.eqn.invars]
    parameters = {name: e.params[name] for name in names}
    return e.runner.call(e.g, partial(function, **parameters), structs, given)


def custom_linear_solve(e: ExportedEquation, *given: str) -> list[str]:
    """Export the solve function of a custom linear solve."""
    lengths, solve = e.params["const_lengths"], e.params["jaxprs"].solve
    before, own = lengths.matvec + lengths.vecmat, lengths.solve
    sides = given[before + own + lengths.transpose_solve :]
    return e.call(solve, [*given[before : before + own], *sides])


MATRICES: Mapping[str, Rule] = {
    "cholesky": partial(export_decomposition, cholesky, ()),
    "custom_linear_solve": custom_linear_solve,
    "lu": partial(export_decomposition, lu, ()),
    "qr": partial(export_decomposition, qr, ("full_matrices",)),
    "triangular_solve": partial(
        export_decomposition,
        triangular_solve,
        ("left_side", "lower", "transpose_a", "unit_diagonal"),
    ),
}
