"""Distributions of binary values and of counts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from braces.builder.var import Operand, Var
from braces.dims import Shape
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.core.random_state import BELOW_ZERO, check_one_given
from braces.frontend.distributions.core.constraints import COUNTS, Interval
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.family import ABOVE, Family
from braces.frontend.distributions.core.parameterization import ClosedForms, DistributionParams

FROM_ZERO = (BELOW_ZERO, np.inf)
CHANCE = (BELOW_ZERO, 1.0)
SCORE = "br.mean(br.stop_gradient(f(x)) * d.log_prob(x)), x = d.sample([1000])"


class BinaryFamily(Family):
    """A family with probabilities as a parameter, or logits, which are exact in both tails."""

    def check(self) -> None:
        """Check that exactly one of them is given."""
        check_one_given(self.what, "probs", "logits", self.parameters())

    def completed(self, params: DistributionParams) -> DistributionParams:
        """Add probabilities if logits are given."""
        if "logits" not in params.vars:
            return params
        return params.but(probs=ops.sigmoid(params.logits))


def binary_log_prob(d: DistributionParams, yes: Var | float, no: Var | float) -> Var:
    """Return yes * log(probs) + no * log(1 - probs), with 0 * log(0) = 0."""
    if "logits" in d.vars:
        return _multiply_log(yes, ops.log_sigmoid(d.logits)) + _multiply_log(
            no, ops.log_sigmoid(-d.logits)
        )
    return ops.xlogy(yes, d.probs) + ops.xlog1py(no, -d.probs)


def _multiply_log(count: Var | float, log: Var) -> Var:
    """Return the product, with 0 * -inf = 0."""
    is_zero = ops.logical_and(log == -np.inf, count == 0.0)
    return count * ops.where(is_zero, 0.0, log)


def trial_entropy(d: DistributionParams) -> Var:
    """Return the entropy of one trial."""
    return -binary_log_prob(d, d.probs, 1.0 - d.probs)


# ---- one trial -------------------------------------------------------------------------------


@distribution
class Bernoulli(BinaryFamily):
    """Bernoulli distribution: 1 with a probability, else 0; floats of the parameter's dtype.

        P(1) = probs = sigmoid(logits)

    Args:
        probs: The probability of 1: a number, an array or a variable, as all parameters.
        logits: Instead of `probs`: log(probs / (1 - probs)), which is exact in both tails.

    Raises:
        ProgramError: If not exactly one of `probs` and `logits` is given, or a number in
            `probs` is not from 0 to 1.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Bernoulli(logits=br.data("x", ["batch", 4]))
        ...     print(d.sample([10]).type, d.log_prob(1.0).type)
        f32[10,batch,4] f32[batch,4]
    """

    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(
        draw=lambda d, sizes: ops.cast(random.bernoulli(sizes, d.probs), d.probs.dtype),
        log_prob=lambda d, x: binary_log_prob(d, x, 1.0 - x),
        mean=lambda d: d.probs,
        variance=lambda d: d.probs * (1.0 - d.probs),
        mode=lambda d: ops.cast(d.probs > 0.5, d.probs.dtype),
        entropy=trial_entropy,
        cdf=lambda d, x: 1.0 - d.probs * (1.0 - x),
    )
    support = Interval(low=lambda d: 0.0, high=lambda d: 1.0, whole=True)
    ranges: ClassVar = {"probs": CHANCE}
    instead = "RelaxedBernoulli, or the score-function estimator: " + SCORE


# ---- many trials -----------------------------------------------------------------------------


def _geometric_entropy(d: DistributionParams) -> Var:
    """Return the entropy of one trial times the mean number of trials."""
    is_possible = d.probs > 0.0
    return ops.where(
        is_possible, trial_entropy(d) / ops.where(is_possible, d.probs, 1.0), np.inf
    )


@distribution
class Geometric(BinaryFamily):
    """Number of failures before the first success.

        P(k) = probs (1 - probs)^k,  k = 0, 1, …

    Args:
        probs: The probability of success, above 0.
        logits: Instead of `probs`: log(probs / (1 - probs)).

    Raises:
        ProgramError: If not exactly one of `probs` and `logits` is given, or a number in
            `probs` is not above 0 and up to 1.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Geometric([0.2, 0.5]).mean.type)
        f32[2]
    """

    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(
        draw=lambda d, sizes: ops.cast(random.geometric(sizes, d.probs) - 1, d.probs.dtype),
        log_prob=lambda d, x: binary_log_prob(d, 1.0, x),
        mean=lambda d: (1.0 - d.probs) / d.probs,
        variance=lambda d: (1.0 - d.probs) / ops.square(d.probs),
        mode=lambda d: 0.0,
        entropy=_geometric_entropy,
        cdf=lambda d, x: -ops.expm1(binary_log_prob(d, 0.0, x + 1.0)),
    )
    support = COUNTS
    ranges: ClassVar = {"probs": (0.0, 1.0)}
    instead = "the score-function estimator: " + SCORE


@distribution
class Poisson(Family):
    """Poisson distribution: counts of events with a mean of `rate`.

        P(k) = rate^k exp(-rate) / k!,  k = 0, 1, …

    Args:
        rate: The mean; non-negative.

    Raises:
        ProgramError: If `rate` is a number below 0.
        RunError: If a rate is below 0, infinite or NaN when a run draws.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Poisson([0.5, 2.0]).sample([7]).type)
        f32[7,2]
    """

    rate: Operand = 1.0

    forms = ClosedForms(
        draw=lambda d, sizes: ops.cast(random.poisson(sizes, d.rate), d.rate.dtype),
        log_prob=lambda d, x: ops.xlogy(x, d.rate) - d.rate - ops.lgamma(x + 1.0),
        mean=lambda d: d.rate,
        variance=lambda d: d.rate,
        mode=lambda d: ops.floor(d.rate),
        cdf=lambda d, x: ops.gammaincc(x + 1.0, d.rate),
    )
    support = COUNTS
    ranges: ClassVar = {"rate": FROM_ZERO}
    instead = "the score-function estimator: " + SCORE


def log_binomial(n: Var, k: Var) -> Var:
    """Return the log binomial coefficient of `n` and `k`."""
    return -ops.betaln(n - k + 1.0, k + 1.0) - ops.log(n + 1.0)


def _binomial_cdf(d: DistributionParams, k: Var) -> Var:
    failures = d.total_count - k
    has_failures = failures > 0.0
    partial = ops.betainc(ops.where(has_failures, failures, 1.0), k + 1.0, 1.0 - d.probs)
    return ops.where(has_failures, partial, 1.0)


@distribution
class Binomial(BinaryFamily):
    """Number of successes in a number of trials.

        P(k) = C(total_count, k) probs^k (1 - probs)^(total_count - k),  k = 0, …, total_count

    Args:
        total_count: Number of trials; non-negative.
        probs: The probability of success.
        logits: Instead of `probs`: log(probs / (1 - probs)).

    Raises:
        ProgramError: If not exactly one of `probs` and `logits` is given, or a number is out of
            its range.
        RunError: If a value is out of its range when a run draws.
        ShapeError: If the parameters do not broadcast.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Binomial(10, [0.2, 0.5]).cdf(4).type)
        f32[2]
    """

    total_count: Operand = 1
    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(
        draw=lambda d, sizes: ops.cast(
            random.binomial(sizes, d.total_count, d.probs), d.probs.dtype
        ),
        log_prob=lambda d, k: (
            log_binomial(d.total_count, k) + binary_log_prob(d, k, d.total_count - k)
        ),
        mean=lambda d: d.total_count * d.probs,
        variance=lambda d: d.total_count * d.probs * (1.0 - d.probs),
        mode=lambda d: ops.minimum(ops.floor((d.total_count + 1.0) * d.probs), d.total_count),
        cdf=_binomial_cdf,
    )
    support = Interval(low=lambda d: 0.0, high=lambda d: d.total_count, whole=True)
    ranges: ClassVar = {"total_count": FROM_ZERO, "probs": CHANCE}
    instead = "the score-function estimator: " + SCORE


def _odds(d: DistributionParams) -> Var:
    return d.probs / (1.0 - d.probs)


def _negative_binomial_draw(d: DistributionParams, sizes: Shape) -> Var:
    rate = random.gamma(sizes, d.total_count, _odds(d))
    return ops.cast(random.poisson(sizes, rate), d.probs.dtype)


def _negative_binomial_log_prob(d: DistributionParams, k: Var) -> Var:
    n = d.total_count
    return log_binomial(n + k - 1.0, k) + binary_log_prob(d, k, n)


def _negative_binomial_mode(d: DistributionParams) -> Var:
    is_unimodal = d.total_count > 1.0
    return ops.where(
        is_unimodal,
        ops.floor((d.total_count - 1.0) * ops.where(is_unimodal, _odds(d), 0.0)),
        0.0,
    )


@distribution
class NegativeBinomial(BinaryFamily):
    """Number of successes before `total_count` failures.

        P(k) = C(total_count + k - 1, k) (1 - probs)^total_count probs^k,  k = 0, 1, …

    Args:
        total_count: Number of failures, above 0; not necessarily an integer.
        probs: The probability of success.
        logits: Instead of `probs`: log(probs / (1 - probs)).

    Raises:
        ProgramError: If not exactly one of `probs` and `logits` is given, or a number is out of
            its range.
        ShapeError: If the parameters do not broadcast.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.NegativeBinomial(3.0, [0.2, 0.5]).mean.type)
        f32[2]
    """

    total_count: Operand = 1.0
    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(
        draw=_negative_binomial_draw,
        log_prob=_negative_binomial_log_prob,
        mean=lambda d: d.total_count * _odds(d),
        variance=lambda d: d.total_count * _odds(d) / (1.0 - d.probs),
        mode=_negative_binomial_mode,
        cdf=lambda d, k: ops.betainc(d.total_count, k + 1.0, 1.0 - d.probs),
    )
    support = COUNTS
    ranges: ClassVar = {"total_count": ABOVE, "probs": CHANCE}
    instead = "the score-function estimator: " + SCORE
