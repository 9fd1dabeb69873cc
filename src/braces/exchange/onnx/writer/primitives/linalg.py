"""Decompositions of matrices, which ONNX has not: loops over their columns.

Each is a function of JAX made of primitives that are written, and is traced like a kernel. In a
loop nothing is cut out by place: columns are taken and put with a vector that is one at theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from braces import lazy
from braces.exchange.onnx.writer.graph.jaxpr_equation import Equation, Rule

jnp: Any = lazy.jnp
lax: Any = lazy.lax


def cholesky(a: Any) -> Any:
    """The lower triangle whose product with its transpose is a matrix, column by column."""
    rows = jnp.arange(a.shape[-1])

    def step(k: Any, found: Any) -> Any:
        here = (rows == k).astype(a.dtype)
        column = a @ here - jnp.einsum("...ij,...j->...i", found, here @ found)
        column = column / jnp.sqrt(column @ here)[..., None]
        return found + jnp.where(rows >= k, column, 0)[..., None] * here

    return lax.fori_loop(0, a.shape[-1], step, jnp.zeros_like(a))


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    """What gives `b` when it is multiplied with a triangle, row by row."""
    if not left_side:
        a, b, lower = (jnp.swapaxes(a, -1, -2), jnp.swapaxes(b, -1, -2), not lower)
    if transpose_a:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    size = a.shape[-1]
    rows = jnp.arange(size)

    def step(trip: Any, found: Any) -> Any:
        here = (rows == (trip if lower else size - 1 - trip)).astype(a.dtype)
        row = here @ a
        left = here @ b - jnp.einsum("...j,...jk->...k", row, found)
        value = left if unit_diagonal else left / (row @ here)[..., None]
        return found + here[:, None] * value[..., None, :]

    found = lax.fori_loop(0, size, step, jnp.zeros_like(b))
    return found if left_side else jnp.swapaxes(found, -1, -2)


def lu(a: Any) -> tuple[Any, Any, Any]:
    """Both triangles in one matrix, the rows that change places, and the order of them."""
    rows, columns = jnp.arange(a.shape[-2]), jnp.arange(a.shape[-1])
    steps, batch = min(a.shape[-2:]), a.shape[:-2]
    turns = jnp.arange(steps)

    def step(k: Any, carried: Any) -> Any:
        matrix, pivots, order = carried
        there = (columns == k).astype(a.dtype)
        column = jnp.where(rows >= k, jnp.abs(matrix @ there), -1)
        best = jnp.argmax(column, -1)[..., None]
        swapped = jnp.where(rows == k, best, jnp.where(rows == best, k, rows))
        matrix = jnp.take_along_axis(matrix, swapped[..., None], -2)
        order = jnp.take_along_axis(order, swapped, -1)
        pivots = jnp.where(turns == k, best.astype("int32"), pivots)
        row = (rows == k).astype(a.dtype) @ matrix
        pivot = (row @ there)[..., None]
        column = matrix @ there
        factor = jnp.where(pivot == 0, column, column / jnp.where(pivot == 0, 1, pivot))
        factor = jnp.where(rows > k, factor, 0)
        less = matrix - factor[..., None] * jnp.where(columns > k, row, 0)[..., None, :]
        own = (rows > k)[:, None] & (columns == k)
        return jnp.where(own, factor[..., None], less), pivots, order

    start = (
        a,
        jnp.zeros((*batch, steps), "int32"),
        jnp.broadcast_to(rows.astype("int32"), (*batch, a.shape[-2])),
    )
    return start if 0 in a.shape else lax.fori_loop(0, steps, step, start)


def qr(a: Any, *, full_matrices: bool) -> tuple[Any, Any]:
    """A matrix with orthogonal columns and a triangle, by reflections."""
    height, width = a.shape[-2:]
    rows, columns = jnp.arange(height), jnp.arange(width)
    eye = jnp.broadcast_to(jnp.eye(height, dtype=a.dtype), (*a.shape[:-2], height, height))

    def step(k: Any, carried: Any) -> Any:
        q, r = carried
        here = (rows == k).astype(a.dtype)
        column = r @ (columns == k).astype(a.dtype)
        rest = jnp.where(rows > k, column, 0)
        first = (column @ here)[..., None]
        below = jnp.sum(rest * rest, -1, keepdims=True)
        sign = jnp.where(first < 0, -1, 1).astype(a.dtype)
        moved = rest + here * (first + sign * jnp.sqrt(first * first + below))
        moved = jnp.where(below == 0, 0, moved)
        square = jnp.sum(moved * moved, -1, keepdims=True)
        scaled = moved * (2 / jnp.where(square == 0, 1, square))
        q = q - jnp.einsum("...ij,...j,...k->...ik", q, moved, scaled)
        return q, r - jnp.einsum("...i,...j,...jk->...ik", scaled, moved, r)

    q, r = lax.fori_loop(0, min(height, width), step, (eye, a))
    most = height if full_matrices else min(height, width)
    return q[..., :most], jnp.triu(r[..., :most, :])


def decomposed(
    function: Callable[..., Any], names: tuple[str, ...], e: Equation, *given: str
) -> list[str]:
    """A decomposition, whose parameters have these names."""
    structs = [lazy.jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in e.eqn.invars]
    parameters = {name: e.params[name] for name in names}
    return e.runner.call(e.g, partial(function, **parameters), structs, given)


def solved(e: Equation, *given: str) -> list[str]:
    """What a function for it gives, of what it reads and of the right-hand sides."""
    lengths, solve = e.params["const_lengths"], e.params["jaxprs"].solve
    before, own = lengths.matvec + lengths.vecmat, lengths.solve
    sides = given[before + own + lengths.transpose_solve :]
    return e.call(solve, [*given[before : before + own], *sides])


MATRICES: Mapping[str, Rule] = {
    "cholesky": partial(decomposed, cholesky, ()),
    "custom_linear_solve": solved,
    "lu": partial(decomposed, lu, ()),
    "qr": partial(decomposed, qr, ("full_matrices",)),
    "triangular_solve": partial(
        decomposed, triangular_solve, ("left_side", "lower", "transpose_a", "unit_diagonal")
    ),
}
