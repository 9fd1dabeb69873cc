"""Distributions on the real line, most of them location-scale families."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from braces.builder.var import Operand, Var
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.family import ABOVE, Family
from braces.frontend.distributions.core.parameterization import ClosedForms, DistributionParams

LOG_2PI = math.log(2 * math.pi)
SQRT_2 = math.sqrt(2.0)
EULER = float(np.euler_gamma)


def standardize(d: DistributionParams, x: Var) -> Var:
    """Standardize a value: subtract `loc` and divide by `scale`."""
    return (x - d.loc) / d.scale


def unstandardize(d: DistributionParams, z: Var) -> Var:
    """Invert `standard`."""
    return d.loc + d.scale * z


# ---- normal ----------------------------------------------------------------------------------


def normal_cdf(z: Var) -> Var:
    """Return the cumulative distribution function of the standard normal distribution."""
    return 0.5 * ops.erfc(z * -math.sqrt(0.5))


def normal_quantile(q: Var) -> Var:
    """Return the quantile function of the standard normal distribution."""
    return SQRT_2 * ops.erfinv(2.0 * q - 1.0)


NORMAL = ClosedForms(
    draw=lambda d, sizes: random.normal(sizes, d.loc, d.scale, dtype=d.loc.dtype),
    log_prob=lambda d, x: -0.5 * ops.square(standardize(d, x)) - ops.log(d.scale) - LOG_2PI / 2,
    mean=lambda d: d.loc,
    variance=lambda d: ops.square(d.scale),
    mode=lambda d: d.loc,
    entropy=lambda d: ops.log(d.scale) + (LOG_2PI + 1) / 2,
    cdf=lambda d, x: normal_cdf(standardize(d, x)),
    icdf=lambda d, q: unstandardize(d, normal_quantile(q)),
)


@distribution
class Normal(Family):
    """Normal (Gaussian) distribution.

        density(x) = exp(-z^2 / 2) / (sqrt(2 pi) scale),  z = (x - loc) / scale

    Args:
        loc: The mean: a number, an array or a variable, as all parameters.
        scale: The standard deviation, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Normal(br.data("x", ["batch", 4]), 0.1)
        ...     print(d.rsample([10]).type, d.log_prob(0.5).type, d.entropy().type)
        f32[10,batch,4] f32[batch,4] f32[batch,4]
    """

    loc: Operand = 0.0
    scale: Operand = 1.0

    forms = NORMAL
    ranges: ClassVar = {"scale": ABOVE}


# ---- other location-scale families -----------------------------------------------------------


def _laplace_cdf(z: Var) -> Var:
    tail = 0.5 * ops.exp(-ops.abs(z))
    return ops.where(z < 0.0, tail, 1.0 - tail)


def _laplace_quantile(q: Var) -> Var:
    is_low = q < 0.5
    tail = ops.log(2.0 * ops.where(is_low, q, 1.0 - q))
    return ops.where(is_low, tail, -tail)


@distribution
class Laplace(Family):
    """Laplace distribution: the distance from `loc` is exponentially distributed.

        density(x) = exp(-|x - loc| / scale) / (2 scale)

    Args:
        loc: The mean.
        scale: The mean distance from `loc`, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Laplace(0.0, [1.0, 2.0]).icdf(0.5).type)
        f32[2]
    """

    loc: Operand = 0.0
    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.laplace(sizes, d.loc, d.scale, dtype=d.loc.dtype),
        log_prob=lambda d, x: -ops.abs(standardize(d, x)) - ops.log(2.0 * d.scale),
        mean=lambda d: d.loc,
        variance=lambda d: 2.0 * ops.square(d.scale),
        mode=lambda d: d.loc,
        entropy=lambda d: 1.0 + ops.log(2.0 * d.scale),
        cdf=lambda d, x: _laplace_cdf(standardize(d, x)),
        icdf=lambda d, q: unstandardize(d, _laplace_quantile(q)),
    )
    ranges: ClassVar = {"scale": ABOVE}


@distribution
class Cauchy(Family):
    """Cauchy distribution: heavy tails, without a mean.

        density(x) = 1 / (pi scale (1 + ((x - loc) / scale)^2))

    Args:
        loc: The median.
        scale: The median distance from `loc`, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Cauchy().log_prob([0.0, 1.0]).type)
        f32[2]
    """

    loc: Operand = 0.0
    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.cauchy(sizes, d.loc, d.scale, dtype=d.loc.dtype),
        log_prob=lambda d, x: (
            -ops.log(math.pi * d.scale) - ops.log1p(ops.square(standardize(d, x)))
        ),
        mean=lambda d: np.nan,
        variance=lambda d: np.nan,
        mode=lambda d: d.loc,
        entropy=lambda d: ops.log(4 * math.pi * d.scale),
        cdf=lambda d, x: ops.atan2(ops.ones_like(x), -standardize(d, x)) / math.pi,
        icdf=lambda d, q: unstandardize(d, ops.tan(math.pi * (q - 0.5))),
    )
    ranges: ClassVar = {"scale": ABOVE}


def _gumbel_log_prob(z: Var) -> Var:
    z = ops.maximum(z, -1000.0)  # below this the density is 0 in any dtype
    return -z - ops.exp(-z)


@distribution
class Gumbel(Family):
    """Gumbel distribution: the limit of maxima of many numbers.

        density(x) = exp(-z - exp(-z)) / scale,  z = (x - loc) / scale

    Args:
        loc: The mode.
        scale: The scale, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Gumbel(0.0, 2.0).mean.type)
        f32[]
    """

    loc: Operand = 0.0
    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.gumbel(sizes, d.loc, d.scale, dtype=d.loc.dtype),
        log_prob=lambda d, x: _gumbel_log_prob(standardize(d, x)) - ops.log(d.scale),
        mean=lambda d: d.loc + d.scale * EULER,
        variance=lambda d: ops.square(d.scale) * (math.pi**2 / 6),
        mode=lambda d: d.loc,
        entropy=lambda d: ops.log(d.scale) + (1 + EULER),
        cdf=lambda d, x: ops.exp(-ops.exp(-standardize(d, x))),
        icdf=lambda d, q: unstandardize(d, -ops.log(-ops.log(q))),
    )
    ranges: ClassVar = {"scale": ABOVE}


def _logistic_log_prob(z: Var) -> Var:
    return ops.log_sigmoid(z) + ops.log_sigmoid(-z)


@distribution
class Logistic(Family):
    """Logistic distribution: its distribution function is a sigmoid.

        density(x) = sigmoid(z) sigmoid(-z) / scale,  z = (x - loc) / scale

    Args:
        loc: The mean.
        scale: The scale, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Logistic(0.0, 2.0).cdf(br.zeros([3])).type)
        f32[3]
    """

    loc: Operand = 0.0
    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.logistic(sizes, d.loc, d.scale, dtype=d.loc.dtype),
        log_prob=lambda d, x: _logistic_log_prob(standardize(d, x)) - ops.log(d.scale),
        mean=lambda d: d.loc,
        variance=lambda d: ops.square(d.scale) * (math.pi**2 / 3),
        mode=lambda d: d.loc,
        entropy=lambda d: ops.log(d.scale) + 2.0,
        cdf=lambda d, x: ops.sigmoid(standardize(d, x)),
        icdf=lambda d, q: unstandardize(d, ops.log(q) - ops.log1p(-q)),
    )
    ranges: ClassVar = {"scale": ABOVE}


# ---- Student's t -----------------------------------------------------------------------------


def _student_norm(df: Var) -> Var:
    """Return the negative log of the largest density at `scale` 1."""
    return 0.5 * ops.log(df) + ops.betaln(0.5 * df, 0.5 * ops.ones_like(df))


def _student_log_prob(d: DistributionParams, z: Var) -> Var:
    powers = -0.5 * (d.df + 1.0) * ops.log1p(ops.square(z) / d.df)
    return powers - _student_norm(d.df) - ops.log(d.scale)


def _student_variance(d: DistributionParams) -> Var:
    finite = ops.square(d.scale) * d.df / ops.where(d.df > 2.0, d.df - 2.0, 1.0)
    return ops.where(d.df > 2.0, finite, ops.where(d.df > 1.0, np.inf, np.nan))


def _student_entropy(d: DistributionParams) -> Var:
    half = 0.5 * (d.df + 1.0)
    powers = half * (ops.digamma(half) - ops.digamma(0.5 * d.df))
    return powers + _student_norm(d.df) + ops.log(d.scale)


def _student_cdf(d: DistributionParams, z: Var) -> Var:
    """Return the distribution function: half a beta tail, and a line at 0.

    Source: https://dlmf.nist.gov/8.17.
    """
    middle = z == 0.0
    safe = ops.where(middle, 1.0, z)
    tail = 0.5 * ops.betainc(
        0.5 * d.df, ops.full_like(d.df, value=0.5), d.df / (d.df + ops.square(safe))
    )
    line = 0.5 + z * ops.exp(-_student_norm(d.df))
    return ops.where(middle, line, ops.where(z < 0.0, tail, 1.0 - tail))


@distribution
class StudentT(Family):
    """Student's t distribution: normal numbers divided by an estimate of their deviation.

        density(x) = (1 + z^2 / df)^(-(df + 1) / 2) / (sqrt(df) beta(df / 2, 1 / 2) scale)

    with z = (x - loc) / scale.

    Args:
        df: The degrees of freedom, above 0.
        loc: The median.
        scale: The scale, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.StudentT(3.0).cdf([0.0, 1.0]).type)
        f32[2]
    """

    df: Operand = 1.0
    loc: Operand = 0.0
    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.student_t(sizes, d.df, d.loc, d.scale, dtype=d.df.dtype),
        log_prob=lambda d, x: _student_log_prob(d, standardize(d, x)),
        mean=lambda d: ops.where(d.df > 1.0, d.loc, np.nan),
        variance=lambda d: _student_variance(d),
        mode=lambda d: d.loc,
        entropy=lambda d: _student_entropy(d),
        cdf=lambda d, x: _student_cdf(d, standardize(d, x)),
    )
    ranges: ClassVar = {"df": ABOVE, "scale": ABOVE}
