"""The gamma function and its derivatives, on wide grids and to third order, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import braces as br
from braces import Var
from tests.ops.cases import MODES

pytestmark = [pytest.mark.unoptimized, pytest.mark.parametrize("mode", MODES)]

GRID = np.sort(
    np.r_[
        np.linspace(-60.37, 60.41, 403), 10.0 ** np.arange(-8, 12), -(10.0 ** np.arange(-8, 0))
    ]
)
POSITIVE = np.r_[10.0 ** np.linspace(-6, 10, 25), 7.99, 8, 8.01, 9.99, 10, 10.01, 15]


def differentiated(
    function: Callable[..., Var], mode: str, orders: int, *values: Any
) -> list[list[Any]]:
    """A function, its gradients, and the gradients of the first of them, and so on."""
    with br.Program() as program:
        inputs = [br.data(f"x{i}", ["n"], dtype="float64") for i in range(len(values))]
        found: list[list[Any]] = [[function(*inputs)]]
        for _ in range(orders):
            found.append(br.gradients([br.sum(found[-1][0])], inputs))
    feed = {f"x{i}": value for i, value in enumerate(values)}
    got = br.Executor(mode=mode).run(
        program,
        br.Scope(),
        feed,
        fetch={(i, j): var for i, one in enumerate(found) for j, var in enumerate(one)},
    )
    return [[got[i, j] for j in range(len(one))] for i, one in enumerate(found)]


def polygamma(n: int, x: Any) -> Any:
    """By recurrence from numbers above 0."""
    if n == 0:
        return special.psi(x)
    steps = np.arange(64)[:, None]
    below = np.where(steps < np.ceil(-x), x + steps, np.inf)
    first = np.sum(below ** -(n + 1.0), axis=0)
    rest = special.zeta(n + 1, x + np.maximum(np.ceil(-x), 0))
    return (-1) ** (n + 1) * special.factorial(n) * (first + rest)


def test_derivatives_of_lgamma_and_digamma_hold_at_negative_numbers(mode: str) -> None:
    logs = differentiated(br.special.gammaln, mode, 3, GRID)
    np.testing.assert_allclose(logs[0][0], special.gammaln(GRID), 1e-11, 1e-13)
    slopes = differentiated(br.special.digamma, mode, 3, GRID)
    for order in range(4):
        want = polygamma(order, GRID)
        np.testing.assert_allclose(slopes[order][0], want, 1e-11, err_msg=f"order {order}")
        if order < 3:
            np.testing.assert_allclose(logs[order + 1][0], want, 1e-11)


def test_polygamma_and_zeta_hold_at_negative_numbers(mode: str) -> None:
    for n in (1, 2, 3, 5):
        with br.Program() as program:
            x = br.data("x", ["n"], dtype="float64")
            out = [br.special.polygamma(n, x), *br.gradients([br.special.polygamma(n, x)], [x])]
            out.append(br.special.zeta(float(n + 1), x))
        executor = br.Executor(mode=mode)
        made, slope, sums = executor.run(program, br.Scope(), {"x": GRID}, fetch=out)
        np.testing.assert_allclose(made, polygamma(n, GRID), 1e-11)
        np.testing.assert_allclose(slope, polygamma(n + 1, GRID), 1e-11)
        factor = (-1) ** (n + 1) * special.factorial(n)
        np.testing.assert_allclose(sums, polygamma(n, GRID) / factor, 1e-11)


def test_betaln_is_exact_where_it_has_a_closed_form(mode: str) -> None:
    a = POSITIVE
    closed = {1: np.log(a), 2: np.log(a) + np.log1p(a), 0.5: None}
    for b, want in closed.items():
        got = differentiated(br.special.betaln, mode, 0, a, np.full_like(a, b))[0][0]
        swapped = differentiated(br.special.betaln, mode, 0, np.full_like(a, b), a)[0][0]
        np.testing.assert_array_equal(got, swapped)
        if want is not None:
            np.testing.assert_allclose(got, -want, 1e-13, 2e-15)


def test_betaln_and_its_derivatives_hold_for_small_and_large_numbers(mode: str) -> None:
    a, b = (x.ravel() for x in np.meshgrid(POSITIVE, POSITIVE))
    (value,), first, second = differentiated(br.special.betaln, mode, 2, a, b)
    logarithms = sum(np.abs(special.gammaln(x)) for x in (a, b, a + b))
    lost = 1e-15 * logarithms + 1e-13 * np.abs(value)  # by SciPy, which subtracts them
    np.testing.assert_array_less(np.abs(value - special.betaln(a, b)), lost + 1e-14)
    whole = special.psi(a + b)
    for got, x in zip(first, (a, b), strict=True):
        np.testing.assert_allclose(got, special.psi(x) - whole, 1e-9, 1e-14)
    np.testing.assert_allclose(second[0], polygamma(1, a) - polygamma(1, a + b), 1e-9, 1e-16)
    np.testing.assert_allclose(second[1], -polygamma(1, a + b), 1e-12)


def test_betaln_of_negative_numbers_is_the_sum_of_logarithms(mode: str) -> None:
    a, b = np.array([-3.4, -0.5, 12.3, 30.5]), np.array([20.25, 0.25, -11.8, -2.25])
    want = special.gammaln(a) + special.gammaln(b) - special.gammaln(a + b)
    np.testing.assert_allclose(
        differentiated(br.special.betaln, mode, 0, a, b)[0][0], want, 1e-13
    )


def test_distributions_of_the_beta_function_hold_to_the_last_digits(mode: str) -> None:
    from scipy import stats

    x, a, b = (
        np.array([0.2, 0.5, 0.9]),
        np.array([8.0, 9.5, 400.0]),
        np.array([8.5, 20.0, 12.0]),
    )
    with br.Program() as program:
        vx, va, vb = (br.data(n, [3], dtype="float64") for n in "xab")
        fetch = {
            "beta": br.distributions.Beta(va, vb).log_prob(vx),
            "beta entropy": br.distributions.Beta(va, vb).entropy(),
            "student": br.distributions.StudentT(va).log_prob(vx),
            "fisher": br.distributions.FisherSnedecor(va, vb).log_prob(vx),
            "kumaraswamy": br.distributions.Kumaraswamy(va, vb).mean,
        }
    executor = br.Executor(mode=mode)
    got = executor.run(program, br.Scope(), {"x": x, "a": a, "b": b}, fetch=fetch)
    want = {
        "beta": stats.beta(a, b).logpdf(x),
        "beta entropy": stats.beta(a, b).entropy(),
        "student": stats.t(a).logpdf(x),
        "fisher": stats.f(a, b).logpdf(x),
        "kumaraswamy": b * special.beta(1 + 1 / a, b),
    }
    for name, found in want.items():
        np.testing.assert_allclose(got[name], found, 2e-12, 1e-12, err_msg=name)
