"""References of `braces.ops.special.incomplete_gamma_beta`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate, special

from tests.ops.reference import Reference, between, floating

inside = {"a": between(0.5, 4), "b": between(0.5, 4), "x": between(0.1, 0.9)}
above = {"a": between(0.5, 4), "x": between(0.2, 5)}


def distribution(function: Any) -> Any:
    """A function of SciPy, in the dtype of floats that are mixed with integers."""

    def computed(*values: Any) -> Any:
        dtypes = [v.dtype for v in values if v.dtype.kind == "f"]
        return np.asarray(function(*map(wide, values))).astype(dtypes[0])

    return computed


def wide(x: Any) -> Any:
    return floating(x).astype(np.float64)


def sample_slope(a: Any, x: Any) -> Any:
    """How far `x` moves with `a`, so that as much lies below it."""
    return np.vectorize(_sample_slope, otypes=[float])(a, x)


def _sample_slope(a: float, x: float) -> float:
    """-(slope by a) / density, by an integral: that of t^(a - 1) e^-t from 0 to x, by a.

    With t = x * u^(1 / a) it is of a smooth function from 0 to 1, but for a logarithm.
    """
    mean = special.digamma(a)

    def moved(u: float) -> float:
        t = x * u ** (1 / a)
        return (np.log(t) - mean) * np.exp(x - t) * x / a

    return -integrate.quad(moved, 0, 1, epsabs=1e-13, epsrel=1e-13, limit=400)[0]


REFERENCES = {
    "betainc": Reference(distribution(special.betainc), inputs=inside, tolerance=1e-4),
    "gammainc": Reference(distribution(special.gammainc), inputs=above),
    "gammaincc": Reference(distribution(special.gammaincc), inputs=above),
    "gamma_sample_slope": Reference(distribution(sample_slope), inputs=above, tolerance=1e-4),
}
