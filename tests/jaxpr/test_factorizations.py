"""Householder reflections and tridiagonal systems of JAX functions equal those of LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br
from tests.support.from_jax import close, hold

pytestmark = pytest.mark.unoptimized
RANDOM = np.random.default_rng(0)


def matrix(*shape: int) -> Any:
    return jnp.asarray(RANDOM.normal(size=shape).astype("f"))


def compare(function: Callable[..., Any], mode: str, *arrays: Any) -> None:
    prog, _ = br.from_jax(function, *arrays)
    feed = dict(zip(prog.feeds, arrays, strict=True))
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, list(prog.fetches))
    close(got, jax.tree.leaves(jax.jit(function)(*arrays)))


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (3, 5), (2, 4, 3)])
def test_packed_qr(shape: tuple[int, ...], mode: str) -> None:
    compare(lambda x: jnp.linalg.qr(x, mode="raw"), mode, matrix(*shape))


def test_packed_qr_of_columns_that_are_zero(mode: str) -> None:
    compare(lambda x: jnp.linalg.qr(x, mode="raw"), mode, jnp.triu(matrix(4, 3)).at[0].set(0.0))


def test_packed_qr_of_complex_numbers(mode: str) -> None:
    x = lax.complex(matrix(4, 3), matrix(4, 3))
    compare(lambda x: jnp.linalg.qr(x, mode="raw"), mode, x)


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (2, 4, 3)])
def test_products_of_reflections(shape: tuple[int, ...], mode: str) -> None:
    packed, taus = jnp.linalg.qr(matrix(*shape), mode="raw")
    columns = matrix(*shape[:-2], shape[-2], 2)
    compare(lax.linalg.householder_product, mode, packed.mT, taus)
    for left in (True, False):
        right = columns if left else columns.mT
        multiply = partial(lax.linalg.ormqr, left=left, transpose=left)
        compare(multiply, mode, packed.mT, taus, right)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_tridiagonal_systems(size: int, mode: str) -> None:
    params = {
        "lower": matrix(2, size).at[:, 0].set(0.0),
        "diagonal": matrix(2, size) * 0.2,
        "upper": matrix(2, size).at[:, -1].set(0.0),
        "right": matrix(2, size, 2),
    }
    if size == 1:
        params["diagonal"] = params["diagonal"] + 1.0

    def solve(params: Any) -> Any:
        return lax.linalg.tridiagonal_solve(*params.values())

    hold(lambda p: solve({name: p[name] for name in params}), params, mode=mode)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_qr_with_pivoting(shape: tuple[int, ...], mode: str) -> None:
    """JAX's gradient is wrong for wide matrices, and an error for stacks."""
    x = matrix(*shape)
    order = lax.linalg.qr(x, pivoting=True)[2][..., None, :]

    def pivoted(params: Any) -> Any:
        q, r, _ = lax.linalg.qr(params["x"], pivoting=True, full_matrices=False)
        return jnp.sin(q + 1.0), jnp.cos(r)

    def ordered(params: Any) -> Any:
        columns = jnp.take_along_axis(params["x"], order, axis=-1)
        q, r = lax.linalg.qr(columns, full_matrices=False)
        return jnp.sin(q + 1.0), jnp.cos(r)

    compare(lambda x: lax.linalg.qr(x, pivoting=True), mode, x)
    hold(pivoted, {"x": x}, mode=mode, second=True, reference=ordered)


@pytest.mark.parametrize("shape", [(4, 4), (1, 1), (2, 3, 3)])
def test_forms_of_matrices(shape: tuple[int, ...], mode: str) -> None:
    def forms(x: Any) -> Any:
        product = x @ jnp.conj(x.mT)
        return (
            lax.linalg.schur(x),
            lax.linalg.schur(x, compute_schur_vectors=False),
            lax.linalg.hessenberg(x),
            [lax.linalg.tridiagonal(product, lower=lower) for lower in (True, False)],
            jax.scipy.linalg.hessenberg(x, calc_q=True),
        )

    x = matrix(*shape)
    compare(forms, mode, x)
    compare(forms, mode, lax.complex(x, matrix(*shape)))


def test_functions_of_schur_forms_and_updates_of_cholesky_factors(mode: str) -> None:
    x = matrix(4, 4)
    definite, vector = x @ x.T + jnp.eye(4, dtype="f"), matrix(4)
    compare(jax.scipy.linalg.sqrtm, mode, definite)
    factor = jnp.linalg.cholesky(definite).T
    for scale in (1.0, 0.0):
        compare(lax.linalg.cholesky_update, mode, factor, vector * scale)


def test_derivatives_of_schur_forms_are_refused() -> None:
    prog, _ = br.from_jax(lambda x: lax.linalg.schur(x)[0].sum(), matrix(3, 3))
    with prog, pytest.raises(br.GradientError, match="JAX has no derivative of `schur`"):
        br.gradients(prog.var("out"), prog.var("x"))
