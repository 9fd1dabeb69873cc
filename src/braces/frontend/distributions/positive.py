"""Distributions of numbers with a lower bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from braces.builder.var import Operand, Var
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.distributions.core.constraints import ABOVE_ZERO, POSITIVE, Interval
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.family import ABOVE, Family
from braces.frontend.distributions.core.parameterization import (
    ClosedForms,
    DistributionParams,
    forms_of,
)
from braces.frontend.distributions.real_line import (
    EULER,
    LOG_2PI,
    NORMAL,
    SQRT_2,
    normal_cdf,
    normal_quantile,
    standardize,
    unstandardize,
)

# ---- waiting times ---------------------------------------------------------------------------

GAMMA = ClosedForms(
    draw=lambda d, sizes: random.gamma(sizes, d.concentration, dtype=d.rate.dtype) / d.rate,
    log_prob=lambda d, x: (
        d.concentration * ops.log(d.rate)
        + ops.xlogy(d.concentration - 1.0, x)
        - d.rate * x
        - ops.lgamma(d.concentration)
    ),
    mean=lambda d: d.concentration / d.rate,
    variance=lambda d: d.concentration / ops.square(d.rate),
    mode=lambda d: ops.relu(d.concentration - 1.0) / d.rate,
    entropy=lambda d: (
        d.concentration
        - ops.log(d.rate)
        + ops.lgamma(d.concentration)
        + (1.0 - d.concentration) * ops.digamma(d.concentration)
    ),
    cdf=lambda d, x: ops.gammainc(d.concentration, d.rate * x),
)


@distribution
class Gamma(Family):
    """Gamma distribution: the waiting time until `concentration` events.

        density(x) = rate^a x^(a - 1) exp(-rate x) / gamma(a),  a = concentration, x >= 0

    Source of the gradients of draws: Figurnov, Mohamed, Mnih, Implicit Reparameterization
    Gradients, 2018.

    Args:
        concentration: The shape parameter, above 0.
        rate: The rate of events, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Gamma([0.5, 2.0], 1.0)
        ...     print(d.rsample([7]).type, d.cdf(1.0).type)
        f32[7,2] f32[2]
    """

    concentration: Operand = 1.0
    rate: Operand = 1.0

    forms = GAMMA
    support = POSITIVE
    ranges: ClassVar = {"concentration": ABOVE, "rate": ABOVE}


@distribution
class Chi2(Family):
    """Chi-squared distribution, of sums of `df` squared normal numbers: Gamma(df / 2, 1 / 2).

        density(x) = x^(df / 2 - 1) exp(-x / 2) / (2^(df / 2) gamma(df / 2)),  x >= 0

    Args:
        df: The degrees of freedom, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Chi2([1.0, 4.0]).variance.type)
        f32[2]
    """

    df: Operand = 1.0

    forms = forms_of(GAMMA, lambda d: d.but(concentration=d.df * 0.5, rate=0.5))
    support = POSITIVE
    ranges: ClassVar = {"df": ABOVE}


@distribution
class Exponential(Family):
    """Exponential distribution: the waiting time until an event.

        density(x) = rate exp(-rate x),  x >= 0

    Args:
        rate: The rate of events, above 0: one over the mean.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Exponential([0.5, 2.0]).mean.type)
        f32[2]
    """

    rate: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.exponential(sizes, dtype=d.rate.dtype) / d.rate,
        log_prob=lambda d, x: ops.log(d.rate) - d.rate * x,
        mean=lambda d: 1.0 / d.rate,
        variance=lambda d: 1.0 / ops.square(d.rate),
        mode=lambda d: 0.0,
        entropy=lambda d: 1.0 - ops.log(d.rate),
        cdf=lambda d, x: -ops.expm1(-d.rate * x),
        icdf=lambda d, q: -ops.log1p(-q) / d.rate,
    )
    support = POSITIVE
    ranges: ClassVar = {"rate": ABOVE}


def _weibull_log_prob(d: DistributionParams, x: Var) -> Var:
    z = x / d.scale
    powers = ops.xlogy(d.concentration - 1.0, z) - z**d.concentration
    return ops.log(d.concentration / d.scale) + powers


def _weibull_moment(d: DistributionParams, power: float) -> Var:
    return ops.exp(ops.lgamma(1.0 + power / d.concentration))


@distribution
class Weibull(Family):
    """Weibull distribution: lifetimes with a rate of failures that changes over time.

        density(x) = (a / scale) (x / scale)^(a - 1) exp(-(x / scale)^a),  x >= 0

    with a = concentration.

    Args:
        scale: The scale, above 0.
        concentration: The shape parameter, above 0; above 1 if failures become more frequent.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Weibull(1.0, [0.5, 2.0]).mode.type)
        f32[2]
    """

    scale: Operand = 1.0
    concentration: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: (
            d.scale * ops.exp(-random.gumbel(sizes, dtype=d.scale.dtype) / d.concentration)
        ),
        log_prob=lambda d, x: _weibull_log_prob(d, x),
        mean=lambda d: d.scale * _weibull_moment(d, 1.0),
        variance=lambda d: (
            ops.square(d.scale)
            * (_weibull_moment(d, 2.0) - ops.square(_weibull_moment(d, 1.0)))
        ),
        mode=lambda d: (
            d.scale
            * (ops.relu(d.concentration - 1.0) / d.concentration) ** (1.0 / d.concentration)
        ),
        entropy=lambda d: (
            EULER * (1.0 - 1.0 / d.concentration) + ops.log(d.scale / d.concentration) + 1.0
        ),
        cdf=lambda d, x: -ops.expm1(-((x / d.scale) ** d.concentration)),
        icdf=lambda d, q: d.scale * (-ops.log1p(-q)) ** (1.0 / d.concentration),
    )
    support = POSITIVE
    ranges: ClassVar = {"scale": ABOVE, "concentration": ABOVE}


def where_above(a: Var, least: float, form: Callable[[Var], Var], else_: float = np.inf) -> Var:
    """Return a moment where a parameter exceeds `least`, else `else_`."""
    is_defined = a > least
    return ops.where(is_defined, form(ops.where(is_defined, a, least + 1.0)), else_)


@distribution
class Pareto(Family):
    """Pareto distribution: a power law above `scale`.

        density(x) = concentration scale^concentration / x^(concentration + 1),  x >= scale

    Args:
        scale: The lower bound, above 0.
        concentration: The exponent of the tail, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Pareto(1.0, [0.5, 2.0]).mean.type)
        f32[2]
    """

    scale: Operand = 1.0
    concentration: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: (
            d.scale * ops.exp(random.exponential(sizes, dtype=d.scale.dtype) / d.concentration)
        ),
        log_prob=lambda d, x: (
            ops.log(d.concentration)
            + d.concentration * ops.log(d.scale)
            - (d.concentration + 1.0) * ops.log(x)
        ),
        mean=lambda d: where_above(d.concentration, 1.0, lambda a: a * d.scale / (a - 1.0)),
        variance=lambda d: where_above(
            d.concentration, 2.0, lambda a: ops.square(d.scale / (a - 1.0)) * a / (a - 2.0)
        ),
        mode=lambda d: d.scale,
        entropy=lambda d: ops.log(d.scale / d.concentration) + 1.0 + 1.0 / d.concentration,
        cdf=lambda d, x: -ops.expm1(d.concentration * ops.log(d.scale / x)),
        icdf=lambda d, q: d.scale * ops.exp(-ops.log1p(-q) / d.concentration),
    )
    support = Interval(low=lambda d: d.scale)
    ranges: ClassVar = {"scale": ABOVE, "concentration": ABOVE}


# ---- logarithms and absolute values ----------------------------------------------------------


@distribution
class LogNormal(Family):
    """Log-normal distribution: numbers with normally distributed logarithms.

        density(x) = exp(-z^2 / 2) / (sqrt(2 pi) scale x),  z = (log(x) - loc) / scale, x > 0

    Args:
        loc: The mean of the logarithms.
        scale: Their standard deviation, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.LogNormal(0.0, [0.5, 2.0]).mean.type)
        f32[2]
    """

    loc: Operand = 0.0
    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: ops.exp(NORMAL.draw(d, sizes)),
        log_prob=lambda d, x: NORMAL.log_prob(d, ops.log(x)) - ops.log(x),
        mean=lambda d: ops.exp(d.loc + 0.5 * ops.square(d.scale)),
        variance=lambda d: (
            ops.expm1(ops.square(d.scale)) * ops.exp(2.0 * d.loc + ops.square(d.scale))
        ),
        mode=lambda d: ops.exp(d.loc - ops.square(d.scale)),
        entropy=lambda d: d.loc + ops.log(d.scale) + (LOG_2PI + 1) / 2,
        cdf=lambda d, x: normal_cdf(standardize(d, ops.log(x))),
        icdf=lambda d, q: ops.exp(unstandardize(d, normal_quantile(q))),
    )
    support = ABOVE_ZERO
    ranges: ClassVar = {"scale": ABOVE}


@distribution
class HalfNormal(Family):
    """Half-normal distribution: absolute values of normal numbers with mean 0.

        density(x) = sqrt(2 / pi) exp(-(x / scale)^2 / 2) / scale,  x >= 0

    Args:
        scale: The standard deviation of the normal numbers, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.HalfNormal(2.0).log_prob([0.0, 1.0]).type)
        f32[2]
    """

    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: ops.abs(random.normal(sizes, dtype=d.scale.dtype)) * d.scale,
        log_prob=lambda d, x: (
            math.log(2.0) - LOG_2PI / 2 - 0.5 * ops.square(x / d.scale) - ops.log(d.scale)
        ),
        mean=lambda d: d.scale * math.sqrt(2 / math.pi),
        variance=lambda d: ops.square(d.scale) * (1 - 2 / math.pi),
        mode=lambda d: 0.0,
        entropy=lambda d: ops.log(d.scale) + (LOG_2PI + 1) / 2 - math.log(2.0),
        cdf=lambda d, x: ops.erf(x / (d.scale * SQRT_2)),
        icdf=lambda d, q: d.scale * SQRT_2 * ops.erfinv(q),
    )
    support = POSITIVE
    ranges: ClassVar = {"scale": ABOVE}


@distribution
class HalfCauchy(Family):
    """Half-Cauchy distribution: absolute values of Cauchy numbers with median 0.

        density(x) = 2 / (pi scale (1 + (x / scale)^2)),  x >= 0

    Args:
        scale: The median, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.HalfCauchy(2.0).icdf(0.5).type)
        f32[]
    """

    scale: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: ops.abs(random.cauchy(sizes, dtype=d.scale.dtype)) * d.scale,
        log_prob=lambda d, x: (
            math.log(2 / math.pi) - ops.log(d.scale) - ops.log1p(ops.square(x / d.scale))
        ),
        mean=lambda d: np.inf,
        variance=lambda d: np.inf,
        mode=lambda d: 0.0,
        entropy=lambda d: ops.log(2 * math.pi * d.scale),
        cdf=lambda d, x: 2 / math.pi * ops.atan(x / d.scale),
        icdf=lambda d, q: d.scale * ops.tan(math.pi / 2 * q),
    )
    support = POSITIVE
    ranges: ClassVar = {"scale": ABOVE}
