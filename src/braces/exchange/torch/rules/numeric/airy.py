"""Rule of the Airy function: tables of Cephes (Moshier), and the series around zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, nan, pi, sqrt
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import as_float
from braces.exchange.torch.rules.numeric.special import polynomial, ratio
from braces.extend import functions as ops
from braces.extend.building import Var

TABLES: Mapping[str, Sequence[float]] = {
    "AN": (
        0.346538101525629,
        12.007595273964581,
        76.27960536152345,
        168.08922493463058,
        159.75639135016442,
        70.53609068404442,
        14.026469116338967,
        1.0,
    ),
    "AD": (
        0.5675945326387702,
        14.75625625848472,
        84.51389701414746,
        177.31808814540045,
        164.2346928715297,
        71.47784008255756,
        14.095913560783403,
        1.0,
    ),
    "AFN": (
        -0.1316963234183318,
        -0.6264565444319123,
        -0.6931580360369335,
        -0.2797799815451191,
        -0.04919001326095003,
        -0.004062659235948854,
        -0.0001592764962392621,
        -2.776491081552329e-06,
        -1.6778769848911465e-08,
    ),
    "AFD": (
        13.356042070655324,
        32.682503279522464,
        26.736704094149957,
        9.187074029072596,
        1.4752914677166642,
        0.11568717379518804,
        0.004402916416152112,
        7.547203482874142e-05,
        4.5185009297058035e-07,
    ),
    "AGN": (
        0.01973399320916857,
        0.39110302961568827,
        1.0657989759959559,
        0.9391692298166502,
        0.35146565610554764,
        0.06338889196289255,
        0.005858041130483885,
        0.000282851600836737,
        6.98793669997261e-06,
        8.117892395543892e-08,
        3.415517847659236e-10,
    ),
    "AGD": (
        9.30892908077442,
        19.835292871831214,
        15.564662893286462,
        5.476860694229755,
        0.9542936116189619,
        0.08645808263523921,
        0.004126565238242226,
        0.00010125908511650914,
        1.1716673321441352e-06,
        4.9183457006293e-09,
    ),
}
"""Coefficients of rational approximations, highest first: above 2.09 and below -2.09."""
BOUND, VANISHING = 2.09, 103.892
"""The end of the series, and the first number whose value is 0."""
TERMS = 16
"""The terms of the series: the next one is below the precision of float64."""


def airy_ai(x: Var) -> Var:
    """The Airy function Ai; NaN at the infinities, as in torch."""
    x = as_float(x)
    value = ops.where(x < -BOUND, _waves(ops.minimum(x, -BOUND)), _series(x))
    value = ops.where(x >= BOUND, _decay(ops.maximum(x, BOUND)), value)
    value = ops.where(x > VANISHING, 0.0, value)
    return ops.where(ops.equal(ops.abs(x), inf), nan, value)


def _waves(x: Var) -> Var:
    """Return the asymptotic form of negative numbers."""
    root = ops.sqrt(-x)
    phase = x * root * (-2.0 / 3.0)
    inverse = 1.0 / phase
    square = inverse * inverse
    near = 1.0 + square * ratio(square, TABLES, "AFN", "AFD")
    far = inverse * ratio(square, TABLES, "AGN", "AGD")
    angle = phase + pi / 4
    return (ops.sin(angle) * near - ops.cos(angle) * far) / (sqrt(pi) * ops.sqrt(root))


def _decay(x: Var) -> Var:
    """Return the asymptotic form of positive numbers."""
    root = ops.sqrt(x)
    phase = x * root * (2.0 / 3.0)
    size = ratio(1.0 / phase, TABLES, "AN", "AD")
    return size * ops.exp(-phase) / (2.0 * sqrt(pi) * ops.sqrt(root))


def _series(x: Var) -> Var:
    """Return the Taylor series around zero."""
    x = ops.where(ops.abs(x) > BOUND, 0.0, x)
    cube = x * x * x
    n = 3.0 * np.arange(1, TERMS)
    even, odd = (
        np.cumprod([1.0, *(1.0 / factors)])[::-1].tolist()
        for factors in ((n - 1) * n, n * (n + 1))
    )
    return (
        polynomial(cube, even) * 0.355028053887817239260
        - x * polynomial(cube, odd) * 0.258819403792806798405
    )


AIRY: Mapping[str, Callable[..., Any]] = {"special_airy_ai": airy_ai}
