"""Gradients at rows of zeros, and at probabilities of exactly 0 and 1, are not NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import Var
from braces.testing.differences import central_differences
from tests.ops.cases import MODES
from tests.support.running import run

pytestmark = [pytest.mark.unoptimized, pytest.mark.parametrize("mode", MODES)]

ROWS = np.array([[0, 0, 0], [0, 1, -2], [3, -1, 0.5]])
ORDERS = (-math.inf, -2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, math.inf)


def test_norms_of_every_order_have_a_slope_of_zero_at_a_row_of_zeros(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["n", 3], dtype="float64")
        fetch = list[Any]()
        for order in ORDERS:
            y = br.linalg.vector_norm(x, axis=-1, ord=order)
            (first,) = br.gradients([y], [x])
            (second,) = br.gradients([br.sum(first**2)], [x])
            fetch += [y, first, first if second is None else second]
    flat = run(mode, program, fetch, x=ROWS)
    for order in ORDERS:
        value, first, second = (flat.pop(0) for _ in range(3))
        np.testing.assert_allclose(value[2], np.linalg.norm(ROWS[2], order), 1e-13)
        assert value[0] == 0
        np.testing.assert_array_equal(first[0], 0)
        assert np.isfinite([first, second]).all(), order
        np.testing.assert_allclose(first[2], slopes(ROWS[2], order), 1e-6, 1e-7)


def slopes(row: Any, order: float) -> Any:
    def norm(values: Any) -> Any:
        return {"norm": np.linalg.norm(values["row"], order)}

    return central_differences(norm, {"row": row}, "row", ["norm"], step=1e-6)["norm"]


P, K = np.array([0.0, 1.0, 0.3]), np.array([0.0, 1.0, 1.0])

CERTAIN: dict[str, Callable[[Var, Var], Var]] = {
    "Bernoulli": lambda p, k: br.distributions.Bernoulli(p).log_prob(k),
    "Binomial": lambda p, k: br.distributions.Binomial(2.0, p).log_prob(2.0 * k),
    "Poisson": lambda p, k: br.distributions.Poisson(p).log_prob(k),
    "entropy": lambda p, k: br.distributions.Bernoulli(p).entropy() + k,
    "NegativeBinomial": lambda p, k: br.distributions.NegativeBinomial(2.0, p * 0.5).log_prob(
        k
    ),
    "xlogy": lambda p, k: br.special.xlogy(k, p) + br.special.xlog1py(1.0 - k, -p),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_has_a_finite_gradient(name: str, mode: str) -> None:
    with br.Program() as program:
        p, k = br.data("p", [3], dtype="float64"), br.data("k", [3], dtype="float64")
        y = CERTAIN[name](p, k)
        (grad,) = br.gradients([y], [p])
    value, slope = run(mode, program, [y, grad], p=P, k=K)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
