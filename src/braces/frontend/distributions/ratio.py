"""Distributions of reciprocals and quotients of gamma variables."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from braces.builder.var import Operand, Var
from braces.dims import Shape
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.distributions.core.constraints import ABOVE_ZERO, POSITIVE
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.family import ABOVE, Family
from braces.frontend.distributions.core.parameterization import ClosedForms, DistributionParams
from braces.frontend.distributions.positive import GAMMA, where_above

# ---- reciprocals -----------------------------------------------------------------------------


def _inverse_entropy(d: DistributionParams) -> Var:
    a = d.concentration
    return a + ops.log(d.rate) + ops.lgamma(a) - (1.0 + a) * ops.digamma(a)


@distribution
class InverseGamma(Family):
    """Inverse gamma distribution: reciprocals of gamma variables, for variances.

        density(x) = rate^a x^(-a - 1) exp(-rate / x) / gamma(a),  a = concentration, x > 0

    Args:
        concentration: The shape parameter, above 0.
        rate: The scale of the numbers, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.InverseGamma([2.5, 3.0], 1.0).mean.type)
        f32[2]
    """

    concentration: Operand = 1.0
    rate: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: 1.0 / GAMMA.draw(d, sizes),
        log_prob=lambda d, x: GAMMA.log_prob(d, 1.0 / x) - 2.0 * ops.log(x),
        mean=lambda d: where_above(d.concentration, 1.0, lambda a: d.rate / (a - 1.0)),
        variance=lambda d: where_above(
            d.concentration, 2.0, lambda a: ops.square(d.rate / (a - 1.0)) / (a - 2.0)
        ),
        mode=lambda d: d.rate / (d.concentration + 1.0),
        entropy=_inverse_entropy,
        cdf=lambda d, x: ops.gammaincc(d.concentration, d.rate / x),
    )
    support = ABOVE_ZERO
    ranges: ClassVar = {"concentration": ABOVE, "rate": ABOVE}


# ---- quotients -------------------------------------------------------------------------------


def _fisher_draw(d: DistributionParams, sizes: Shape) -> Var:
    numerator, denominator = (
        random.chisquare(sizes, df, dtype=d.df1.dtype) / df for df in (d.df1, d.df2)
    )
    return numerator / denominator


def _fisher_log_prob(d: DistributionParams, x: Var) -> Var:
    a, b, ratio = 0.5 * d.df1, 0.5 * d.df2, d.df1 / d.df2
    powers = ops.xlogy(a - 1.0, x) - (a + b) * ops.log1p(ratio * x)
    return a * ops.log(ratio) + powers - ops.betaln(a, b)


def _fisher_variance(d: DistributionParams) -> Var:
    m = d.df1

    def moment(n: Var) -> Var:
        return 2.0 * ops.square(n / (n - 2.0)) * (m + n - 2.0) / (m * (n - 4.0))

    return where_above(d.df2, 4.0, moment, np.nan)


def _fisher_cdf(d: DistributionParams, x: Var) -> Var:
    weighted = d.df1 * x
    return ops.betainc(0.5 * d.df1, 0.5 * d.df2, weighted / (weighted + d.df2))


def _fisher_entropy(d: DistributionParams) -> Var:
    a, b = 0.5 * d.df1, 0.5 * d.df2
    terms = (1.0 - a) * ops.digamma(a) - (1.0 + b) * ops.digamma(b)
    return ops.log(d.df2 / d.df1) + ops.betaln(a, b) + terms + (a + b) * ops.digamma(a + b)


@distribution
class FisherSnedecor(Family):
    """F distribution: the ratio of two estimates of one variance.

        out = (chisquare(df1) / df1) / (chisquare(df2) / df2)

    The mean is NaN if `df2` is 2 or less, the variance if it is 4 or less.

    Args:
        df1: Degrees of freedom of the numerator, above 0.
        df2: Degrees of freedom of the denominator, above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.FisherSnedecor(3.0, [5.0, 9.0]).cdf(1.0).type)
        f32[2]
    """

    df1: Operand = 1.0
    df2: Operand = 1.0

    forms = ClosedForms(
        draw=_fisher_draw,
        log_prob=_fisher_log_prob,
        mean=lambda d: where_above(d.df2, 2.0, lambda n: n / (n - 2.0), np.nan),
        variance=_fisher_variance,
        mode=lambda d: ops.relu(d.df1 - 2.0) / d.df1 * d.df2 / (d.df2 + 2.0),
        entropy=_fisher_entropy,
        cdf=_fisher_cdf,
    )
    support = POSITIVE
    ranges: ClassVar = {"df1": ABOVE, "df2": ABOVE}
