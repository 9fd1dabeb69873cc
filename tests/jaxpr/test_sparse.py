"""Sparse matrices of JAX become operators, with the derivatives of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

from tests.support.from_jax import hold

pytestmark = pytest.mark.unoptimized
RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.normal(size=(4, 5)).astype("f") * (RANDOM.random((4, 5)) < 0.5)
PARAMS = {"x": jnp.asarray(MATRIX), "y": jnp.asarray(RANDOM.normal(size=(5, 3)), "f4")}


def of(x: Any) -> Any:
    return sparse.BCOO.fromdense(x, nse=12)


def convert(x: Any, y: Any) -> Any:
    """From and to dense matrices, with batch axes, too."""
    rows = sparse.BCOO.fromdense(x, nse=5, n_batch=1)
    return of(x).data, rows.todense(), of(x).T.todense(), rows @ y


def multiply(x: Any, y: Any) -> Any:
    return of(x) @ y, y.T @ of(x).T, of(x) @ y[:, 0]


def combine(x: Any, y: Any) -> Any:
    del y
    total, product = of(x) + of(x * 2.0), of(x) * of(x)
    return total.todense(), product.todense(), (of(x) * (x + 1.0)).todense()


def reduce_and_extract(x: Any, y: Any) -> Any:
    del y
    joined = sparse.bcoo_reduce_sum(of(x), axes=[0, 1])
    return of(x).sum(0).todense(), joined.todense(), sparse.bcoo_extract(of(x), x * 2.0)


@sparse.sparsify
def network(matrix: Any, y: Any) -> Any:
    return jnp.sin(matrix @ y) * 2.0


@pytest.mark.parametrize(
    "function",
    [
        convert,
        multiply,
        combine,
        reduce_and_extract,
        lambda x, y: network(of(x), y),
        lambda x, y: sparse.BCSR.fromdense(x, nse=12) @ y,
    ],
    ids=["convert", "multiply", "combine", "reduce", "sparsify", "rows"],
)
def test_values_and_derivatives_are_those_of_jax(
    function: Callable[[Any, Any], Any], mode: str
) -> None:
    hold(lambda p: function(p["x"], p["y"]), PARAMS, mode=mode, second=function is multiply)
