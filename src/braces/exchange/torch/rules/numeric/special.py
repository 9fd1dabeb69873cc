"""Rules of special functions: Bessel functions, the scaled error function and quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, nan, pi, sqrt
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import as_float
from braces.exchange.torch.rules.numeric.cephes import ERFC, J0, J1, K0, K1, NDTRI, Y0, Y1
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.constructs import custom_gradient

Table = Mapping[str, Sequence[float]]


def polynomial(x: Var, coefficients: Sequence[float]) -> Var:
    """Return a polynomial by Horner's rule; the highest coefficient comes first."""
    total = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


def ratio(x: Var, table: Table, above: str, below: str) -> Var:
    """Return a quotient of polynomials."""
    return polynomial(x, table[above]) / polynomial(x, table[below])


def chebyshev(x: Var, coefficients: Sequence[float]) -> Var:
    """Return a Chebyshev series by Clenshaw's rule."""
    after, now = ops.zeros_like(x), ops.full_like(x, coefficients[0])
    before = after
    for coefficient in coefficients[1:]:
        before, after, now = after, now, x * now - after + coefficient
    return (now - before) * 0.5


# ---- Bessel functions ------------------------------------------------------------------------


def _waves(x: Var, table: Table) -> tuple[Var, Var, Var]:
    """Return the parts of the asymptotic form: cosine and sine terms, and the amplitude."""
    inverse = 5.0 / x
    square = inverse * inverse
    near, far = ratio(square, table, "PP", "PQ"), inverse * ratio(square, table, "QP", "QQ")
    return near, far, sqrt(2.0 / pi) / ops.sqrt(x)


def _first_kind(x: Var, table: Table, angle: float) -> Var:
    near, far, amplitude = _waves(x, table)
    return (near * ops.cos(x - angle) - far * ops.sin(x - angle)) * amplitude


def _second_kind(x: Var, table: Table, angle: float) -> Var:
    near, far, amplitude = _waves(x, table)
    return (near * ops.sin(x - angle) + far * ops.cos(x - angle)) * amplitude


def bessel_j0(x: Var) -> Var:
    """The Bessel function of the first kind of order 0."""
    size = ops.abs(as_float(x))
    small, large = ops.minimum(size, 5.0), ops.maximum(size, 5.0)
    square = small * small
    roots = (square - 5.78318596294678452118) * (square - 30.4712623436620863991)
    return ops.where(
        size <= 5.0, roots * ratio(square, J0, "RP", "RQ"), _first_kind(large, J0, pi / 4)
    )


def bessel_j1(x: Var) -> Var:
    """The Bessel function of the first kind of order 1."""
    x = as_float(x)
    size = ops.abs(x)
    small, large = ops.minimum(size, 5.0), ops.maximum(size, 5.0)
    square = small * small
    roots = small * (square - 14.6819706421238932572) * (square - 49.2184563216946036703)
    near = roots * ratio(square, J1, "RP", "RQ")
    value = ops.where(size <= 5.0, near, _first_kind(large, J1, 3 * pi / 4))
    return ops.where(x < 0, -value, value)


def _positive(x: Var, value: Var, at_zero: float) -> Var:
    """Return a function of positive numbers, with its limit at 0; NaN below."""
    return ops.where(x > 0, value, ops.where(ops.equal(x, 0), at_zero, nan))


def bessel_y0(x: Var) -> Var:
    """The Bessel function of the second kind of order 0."""
    x = as_float(x)
    small, large = ops.where((x > 0) & (x <= 5.0), x, 1.0), ops.maximum(x, 5.0)
    near = ratio(small * small, Y0, "YP", "YQ") + 2 / pi * ops.log(small) * bessel_j0(small)
    value = ops.where(x <= 5.0, near, _second_kind(large, J0, pi / 4))
    return _positive(x, value, -inf)


def bessel_y1(x: Var) -> Var:
    """The Bessel function of the second kind of order 1."""
    x = as_float(x)
    small, large = ops.where((x > 0) & (x <= 5.0), x, 1.0), ops.maximum(x, 5.0)
    singular = 2 / pi * (bessel_j1(small) * ops.log(small) - 1.0 / small)
    near = small * ratio(small * small, Y1, "YP", "YQ") + singular
    value = ops.where(x <= 5.0, near, _second_kind(large, J1, 3 * pi / 4))
    return _positive(x, value, -inf)


def bessel_i0(x: Var) -> Var:
    """The modified Bessel function of the first kind of order 0."""
    return ops.i0(as_float(x))


def bessel_i1(x: Var) -> Var:
    """The modified Bessel function of the first kind of order 1."""
    return ops.i1(as_float(x))


def _small(x: Var) -> Var:
    return ops.where((x > 0) & (x <= 2.0), x, 1.0)


def _modified(x: Var, near: Var, table: Table, *, scaled: bool) -> Var:
    """Return a modified Bessel function of the second kind from its form up to 2."""
    small, large = _small(x), ops.maximum(x, 2.0)
    far = chebyshev(8.0 / large - 2.0, table["B"]) / ops.sqrt(large)
    near, far = (near * ops.exp(small), far) if scaled else (near, far * ops.exp(-large))
    return _positive(x, ops.where(x <= 2.0, near, far), inf)


def bessel_k0(x: Var, *, scaled: bool = False) -> Var:
    """The modified Bessel function of the second kind of order 0."""
    x = as_float(x)
    small = _small(x)
    series = chebyshev(small * small - 2.0, K0["A"])
    return _modified(x, series - ops.log(small * 0.5) * ops.i0(small), K0, scaled=scaled)


def bessel_k1(x: Var, *, scaled: bool = False) -> Var:
    """The modified Bessel function of the second kind of order 1."""
    x = as_float(x)
    small = _small(x)
    series = chebyshev(small * small - 2.0, K1["A"]) / small
    return _modified(x, series + ops.log(small * 0.5) * ops.i1(small), K1, scaled=scaled)


def spherical_bessel_j0(x: Var) -> Var:
    """The spherical Bessel function of order 0: sin(x) / x."""
    x = as_float(x)
    square = ops.where(ops.abs(x) < 0.5, x * x, 0.0)
    factors = [1.0, *(-1.0 / ((2 * k) * (2 * k + 1)) for k in range(1, 7))]
    series = polynomial(square, np.cumprod(factors)[::-1].tolist())
    large = ops.where(ops.abs(x) < 0.5, 1.0, x)
    value = ops.where(ops.abs(x) < 0.5, series, ops.sin(large) / large)
    return ops.where(ops.isinf(x), 0.0, value)


# ---- error functions -------------------------------------------------------------------------


@custom_gradient
def _scaled_complement(x: Var) -> tuple[Var, Callable[[Var], Var]]:
    small, middle = ops.minimum(x, 1.0), ops.minimum(ops.maximum(x, 1.0), 8.0)
    near = ops.exp(small * small) * ops.erfc(small)
    far = ops.where(
        x < 8.0, ratio(middle, ERFC, "P", "Q"), ratio(ops.maximum(x, 8.0), ERFC, "R", "S")
    )
    value = ops.where(ops.equal(x, inf), 0.0, ops.where(x < 1.0, near, far))
    return value, lambda grad: grad * (2.0 * x * value - 2.0 / sqrt(pi))


def scaled_complement(x: Var) -> Var:
    """The scaled complementary error function: exp(x^2) erfc(x)."""
    return _scaled_complement(as_float(x))


def log_normal_distribution(x: Var) -> Var:
    """The logarithm of the distribution function of the standard normal distribution."""
    x = as_float(x)
    low, high = ops.minimum(x, -1.0), ops.maximum(x, -1.0)
    tail = ops.log(scaled_complement(low * -sqrt(0.5)) * 0.5) - low * low * 0.5
    return ops.where(x < -1.0, tail, ops.log1p(ops.erfc(high * sqrt(0.5)) * -0.5))


@custom_gradient
def _quantile(p: Var) -> tuple[Var, Callable[[Var], Var]]:
    tail, inner = float(np.exp(-2.0)), p - 0.5
    square = inner * inner
    middle = sqrt(2 * pi) * (inner + inner * (square * ratio(square, NDTRI, "P0", "Q0")))
    least = ops.minimum(p, 1.0 - p)
    safe = ops.where((least > 0) & (least <= tail), least, tail)
    root = ops.sqrt(-2.0 * ops.log(safe))
    z = 1.0 / root
    series = z * ops.where(root < 8.0, ratio(z, NDTRI, "P1", "Q1"), ratio(z, NDTRI, "P2", "Q2"))
    size = root - ops.log(root) / root - series
    outer = ops.where(p < 0.5, -size, size)
    value = ops.where(least > tail, middle, outer)
    ends = ops.where(ops.equal(p, 0), -inf, ops.where(ops.equal(p, 1), inf, nan))
    value = ops.where((p > 0) & (p < 1), value, ends)
    return value, lambda grad: grad * sqrt(2 * pi) * ops.exp(value * value * 0.5)


def normal_quantile(p: Var) -> Var:
    """The inverse of the distribution function of the standard normal distribution."""
    return _quantile(as_float(p))


SPECIAL: Mapping[str, Callable[..., Any]] = {
    "special_bessel_j0": bessel_j0,
    "special_bessel_j1": bessel_j1,
    "special_bessel_y0": bessel_y0,
    "special_bessel_y1": bessel_y1,
    "special_erfcx": scaled_complement,
    "special_log_ndtr": log_normal_distribution,
    "special_modified_bessel_i0": bessel_i0,
    "special_modified_bessel_i1": bessel_i1,
    "special_modified_bessel_k0": bessel_k0,
    "special_modified_bessel_k1": bessel_k1,
    "special_ndtri": normal_quantile,
    "special_scaled_modified_bessel_k0": partial(bessel_k0, scaled=True),
    "special_scaled_modified_bessel_k1": partial(bessel_k1, scaled=True),
    "special_spherical_bessel_j0": spherical_bessel_j0,
}
