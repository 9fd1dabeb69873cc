"""Distributions of numbers in a bounded interval."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from braces.builder.var import Operand, Var
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.core.random_state import check_numbers
from braces.frontend.distributions.core.constraints import UNIT, Interval
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.family import ABOVE, Family
from braces.frontend.distributions.core.parameterization import ClosedForms, DistributionParams
from braces.frontend.distributions.real_line import EULER


@distribution
class Uniform(Family):
    """Uniform distribution on an interval.

        density(x) = 1 / (high - low),  low <= x <= high

    Any value is a mode; `mode` is the midpoint.

    Args:
        low: The lower bound: a number, an array or a variable, as all parameters.
        high: The upper bound.

    Raises:
        ProgramError: If the parameters are numbers, and `high` is not above `low`.
        ShapeError: If the parameters do not broadcast.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Uniform(0.0, [1.0, 2.0]).cdf(0.5).type)
        f32[2]
    """

    low: Operand = 0.0
    high: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.uniform(sizes, d.low, d.high, dtype=d.low.dtype),
        log_prob=lambda d, x: ops.zeros_like(x) - ops.log(d.high - d.low),
        mean=lambda d: (d.low + d.high) * 0.5,
        variance=lambda d: ops.square(d.high - d.low) * (1 / 12),
        mode=lambda d: (d.low + d.high) * 0.5,
        entropy=lambda d: ops.log(d.high - d.low),
        cdf=lambda d, x: (x - d.low) / (d.high - d.low),
        icdf=lambda d, q: d.low + (d.high - d.low) * q,
    )
    support = Interval(low=lambda d: d.low, high=lambda d: d.high)

    def check(self) -> None:
        """Check that the bounds differ."""
        if not isinstance(self.low, Var) and not isinstance(self.high, Var):
            width = np.subtract(self.high, self.low)
            check_numbers(self.what, 0, **{"high - low": width})


# ---- fractions -------------------------------------------------------------------------------


def _params_and_sum(d: DistributionParams) -> tuple[Var, Var, Var]:
    """Return the parameters and their sum."""
    a, b = d.concentration1, d.concentration0
    return a, b, a + b


def _beta_log_prob(d: DistributionParams, x: Var) -> Var:
    a, b, _ = _params_and_sum(d)
    return ops.xlogy(a - 1.0, x) + ops.xlog1py(b - 1.0, -x) - ops.betaln(a, b)


def _beta_mode(d: DistributionParams) -> Var:
    """Return the interior mode if both parameters exceed 1, else the end with more mass."""
    a, b, total = _params_and_sum(d)
    is_unimodal = (a > 1.0) & (b > 1.0)
    interior = (a - 1.0) / ops.where(is_unimodal, total - 2.0, 1.0)
    end = ops.where(a > b, 1.0, ops.where(a < b, 0.0 * a, 0.5))
    return ops.where(is_unimodal, interior, end)


def _beta_entropy(d: DistributionParams) -> Var:
    a, b, total = _params_and_sum(d)
    terms = (a - 1.0) * ops.digamma(a) + (b - 1.0) * ops.digamma(b)
    return ops.betaln(a, b) - terms + (total - 2.0) * ops.digamma(total)


def _beta_variance(d: DistributionParams) -> Var:
    a, b, total = _params_and_sum(d)
    return a * b / (ops.square(total) * (total + 1.0))


@distribution
class Beta(Family):
    """Beta distribution on [0, 1]: probabilities, fractions.

        density(x) = x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / beta(both)

    `mode` is an end, or the midpoint, if the density has no interior maximum.

    Args:
        concentration1: Exponent of x, plus 1; above 0. Larger values move mass towards 1.
        concentration0: Exponent of 1 - x, plus 1; above 0. Larger values move mass towards 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Beta([0.5, 2.0], 1.0)
        ...     print(d.rsample([7]).type, d.log_prob(0.3).type)
        f32[7,2] f32[2]
    """

    concentration1: Operand = 1.0
    concentration0: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: random.beta(
            sizes, d.concentration1, d.concentration0, dtype=d.concentration1.dtype
        ),
        log_prob=_beta_log_prob,
        mean=lambda d: d.concentration1 / (d.concentration1 + d.concentration0),
        variance=_beta_variance,
        mode=_beta_mode,
        entropy=_beta_entropy,
        cdf=lambda d, x: ops.betainc(d.concentration1, d.concentration0, x),
    )
    support = UNIT
    ranges: ClassVar = {"concentration1": ABOVE, "concentration0": ABOVE}


def _kumaraswamy_log_prob(d: DistributionParams, x: Var) -> Var:
    a, b, _ = _params_and_sum(d)
    log_tail = ops.xlog1py(b - 1.0, -(x**a))
    return ops.log(a * b) + ops.xlogy(a - 1.0, x) + log_tail


def _kumaraswamy_moment(d: DistributionParams, power: float) -> Var:
    a, b, _ = _params_and_sum(d)
    return b * ops.exp(ops.betaln(1.0 + power / a, b))


def _kumaraswamy_quantile(d: DistributionParams, q: Var) -> Var:
    a, b, _ = _params_and_sum(d)
    return (-ops.expm1(ops.log1p(-q) / b)) ** (1.0 / a)


def _kumaraswamy_mode(d: DistributionParams) -> Var:
    """Return the interior mode if both parameters exceed 1, else as for `Beta`."""
    a, b, _ = _params_and_sum(d)
    is_unimodal = (a > 1.0) & (b > 1.0)
    powered = ops.where(is_unimodal, (a - 1.0) / ops.where(is_unimodal, a * b - 1.0, 1.0), 0.5)
    return ops.where(is_unimodal, powered ** (1.0 / a), _beta_mode(d))


def _kumaraswamy_entropy(d: DistributionParams) -> Var:
    a, b, _ = _params_and_sum(d)
    harmonic = ops.digamma(b + 1.0) + EULER
    return 1.0 - 1.0 / b + (1.0 - 1.0 / a) * harmonic - ops.log(a * b)


@distribution
class Kumaraswamy(Family):
    """Kumaraswamy distribution on [0, 1]: similar to `Beta`, with a closed-form `cdf`.

        density(x) = a b x^(a - 1) (1 - x^a)^(b - 1),  a = concentration1, b = concentration0

    Source: Kumaraswamy, A Generalized Probability Density Function for Double-Bounded Random
    Processes, 1980.

    Args:
        concentration1: Above 0. Larger values move mass towards 1.
        concentration0: Above 0. Larger values move mass towards 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Kumaraswamy([0.5, 2.0], 1.0).icdf(0.3).type)
        f32[2]
    """

    concentration1: Operand = 1.0
    concentration0: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: _kumaraswamy_quantile(
            d, ops.sigmoid(random.logistic(sizes, dtype=d.concentration1.dtype))
        ),
        log_prob=_kumaraswamy_log_prob,
        mean=lambda d: _kumaraswamy_moment(d, 1.0),
        variance=lambda d: (
            _kumaraswamy_moment(d, 2.0) - ops.square(_kumaraswamy_moment(d, 1.0))
        ),
        mode=_kumaraswamy_mode,
        entropy=_kumaraswamy_entropy,
        cdf=lambda d, x: -ops.expm1(d.concentration0 * ops.log1p(-(x**d.concentration1))),
        icdf=_kumaraswamy_quantile,
    )
    support = UNIT
    ranges: ClassVar = {"concentration1": ABOVE, "concentration0": ABOVE}
