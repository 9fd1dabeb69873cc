"""Derivatives of the incomplete gamma and beta functions at integer parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

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
        (br.special.gammainc, scipy.special.gammainc, (a, x)),
        (br.special.gammaincc, scipy.special.gammaincc, (a, x)),
        (br.special.betainc, scipy.special.betainc, (p, q, y)),
    ):
        given = [value.astype(dtype) for value in values]
        wanted = differences(theirs, *(value.astype("f8") for value in given))
        for got, want in zip(slopes(ours, *given), wanted, strict=True):
            np.testing.assert_allclose(got, want, tolerance, tolerance)


SIZES = (1e-3, 0.1, 1.0, 7.0, 30.0, 1e3, 1e5, 1e8)


def quantiles() -> tuple[np.ndarray[Any, Any], ...]:
    """Parameters of all sizes, and numbers below which a good part of their distribution is."""
    a, b, q = (x.ravel() for x in np.meshgrid(SIZES, SIZES, [1e-3, 0.1, 0.5, 0.9]))
    x = scipy.special.betaincinv(a, b, q)
    known = (x > 1e-30) & (x < 1 - 1e-12)
    return a[known], b[known], x[known]


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 3e-3), ("float64", 1e-9)])
def test_betainc_and_its_slope_keep_their_digits_for_parameters_of_all_sizes(
    dtype: str, digits: float
) -> None:
    a, b, x = (one.astype(dtype) for one in quantiles())
    inside = (x > 0) & (x < 1)
    feed = {"a": a[inside], "b": b[inside], "x": x[inside]}
    with br.Program() as program:
        given = [br.data(name, array.shape, dtype) for name, array in feed.items()]
        below = br.special.betainc(*given)
        (slope,) = br.gradients([br.sum(below)], [given[2]])
    found, density = br.Executor().run(program, br.Scope(), feed, [below, slope])
    exact = [one.astype(float) for one in feed.values()]
    np.testing.assert_allclose(found, scipy.special.betainc(*exact), rtol=digits)
    np.testing.assert_allclose(
        density, scipy.stats.beta.pdf(*exact[2:], *exact[:2]), rtol=digits
    )


def test_slopes_of_betainc_for_large_parameters_are_those_of_finite_differences() -> None:
    a, b, x = np.array(
        [[200.0, 3e3, 40.0, 5e5], [300.0, 0.5, 4e4, 5e5], [0.41, 0.9999, 1e-3, 0.5]]
    )
    with br.Program() as program:
        given = [br.data(name, [4], "float64") for name in "abx"]
        below = br.special.betainc(*given)
        slopes = br.gradients([br.sum(below)], given)
        curves = [
            br.gradients([br.sum(slope)], [one])[0]
            for slope, one in zip(slopes, given, strict=True)
        ]
    executor = br.Executor()

    def run(*values: Any) -> list[Any]:
        return executor.run(
            program,
            br.Scope(),
            dict(zip("abx", values, strict=True)),
            [below, *slopes, *curves],
        )

    got, values = run(a, b, x), [a, b, x]
    for at in range(3):
        step = 1e-5 * (values[at] if at < 2 else x * (1 - x))
        ends = [
            run(*(v + sign * step * (i == at) for i, v in enumerate(values)))
            for sign in (1, -1)
        ]
        for order in (0, 1):
            part = 0 if order == 0 else 1 + at
            moved = (ends[0][part] - ends[1][part]) / (2 * step)
            np.testing.assert_allclose(got[1 + at + 3 * order], moved, rtol=1e-4)
