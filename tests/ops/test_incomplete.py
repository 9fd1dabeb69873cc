"""Slopes of the incomplete gamma and beta functions where parameters are whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import braces as br

pytestmark = pytest.mark.unoptimized

STEP = 1e-5
PARAMETERS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 7.0])
"""The continued fraction of a whole number ends; that of its slope does not."""


def slopes(function: Callable[..., Any], *values: np.ndarray) -> list[np.ndarray]:
    """The gradients of a function of ours by all of its parameters but the last."""
    with br.Program() as prog:
        given = [br.data(f"x{i}", x.shape, x.dtype) for i, x in enumerate(values)]
        grads = br.gradients(br.sum(function(*given)), given[:-1])
    feed = {f"x{i}": x for i, x in enumerate(values)}
    return br.Executor().run(prog, br.Scope(), feed=feed, fetch=list(grads))


def differences(function: Callable[..., Any], *values: np.ndarray) -> list[np.ndarray]:
    """The same by differences of a function of SciPy."""
    found = []
    for i in range(len(values) - 1):
        ahead, behind = (
            function(*(x + by * (j == i) for j, x in enumerate(values))) for by in (STEP, -STEP)
        )
        found.append((ahead - behind) / (2 * STEP))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_by_whole_parameters_are_those_beside_them(dtype: str) -> None:
    a, x = np.meshgrid(PARAMETERS, np.linspace(0.05, 9.0, 30))
    p, q, y = np.meshgrid(PARAMETERS, PARAMETERS, np.linspace(0.03, 0.97, 20))
    tolerance = 1e-4 if dtype == "float32" else 1e-7
    for ours, theirs, values in (
        (br.gammainc, scipy.special.gammainc, (a, x)),
        (br.gammaincc, scipy.special.gammaincc, (a, x)),
        (br.betainc, scipy.special.betainc, (p, q, y)),
    ):
        given = [value.astype(dtype) for value in values]
        wanted = differences(theirs, *(value.astype("f8") for value in given))
        for got, want in zip(slopes(ours, *given), wanted, strict=True):
            np.testing.assert_allclose(got, want, tolerance, tolerance)
