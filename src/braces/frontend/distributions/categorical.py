"""Distributions over classes, and their straight-through and count variants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast, final

import ml_dtypes
import numpy as np

from braces.builder.append import emit
from braces.builder.var import Operand, Var
from braces.dims import Shape, Size
from braces.errors import ProgramError
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.distributions.core.constraints import INNER_UNIT, UNIT, Interval, Support
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.parameterization import (
    ClosedForms,
    DistributionParams,
    Form,
)
from braces.frontend.distributions.discrete import FROM_ZERO, SCORE, BinaryFamily, log_binomial

RELAXED = "RelaxedOneHotCategorical, or the score-function estimator: " + SCORE

# ---- probabilities ---------------------------------------------------------------------------


class ClassFamily(BinaryFamily):
    """A family with class probabilities, or logits, along the last axis of a parameter."""

    def completed(self, params: DistributionParams) -> DistributionParams:
        """Add normalized probabilities and their logarithms."""
        if "logits" in params.vars:
            log_probs = ops.log_softmax(params.logits, axis=-1)
            return params.but(probs=ops.exp(log_probs), log_probs=log_probs)
        probs = params.probs / ops.sum(params.probs, axis=-1, keepdims=True)
        is_possible = probs > 0.0
        log_probs = ops.where(is_possible, ops.log(ops.where(is_possible, probs, 1.0)), -np.inf)
        return params.but(probs=probs, log_probs=log_probs)


def class_mean(d: DistributionParams, what: Var) -> Var:
    """Return the mean over the classes; impossible classes do not count, even if infinite."""
    is_possible = d.probs > 0.0
    return ops.sum(
        ops.where(is_possible, d.probs, 0.0) * ops.where(is_possible, what, 0.0), axis=-1
    )


def class_count(d: DistributionParams) -> Size:
    """Return the number of classes."""
    return d.probs.shape[-1]


def draw_class(d: DistributionParams, sizes: Shape) -> Var:
    """Draw class indices."""
    logits = ops.broadcast_to(d.log_probs, (*sizes, class_count(d)))
    return random.categorical(logits)


def _class_log_prob(d: DistributionParams, x: Var) -> Var:
    """Return the log probabilities of classes."""
    table = d.log_probs + ops.expand_dims(ops.zeros_like(x), axis=-1)
    indices = ops.cast(ops.expand_dims(x, axis=-1), "int64")
    indices = ops.broadcast_to(indices, (*table.shape[:-1], 1))
    return ops.squeeze(ops.take_along_axis(table, indices, axis=-1), axis=-1)


def _class_indices(d: DistributionParams) -> Var:
    return ops.cast(emit("arange", stop=class_count(d)), d.probs.dtype)


@distribution
class Categorical(ClassFamily):
    """Categorical distribution over class indices, i64.

        P(k) = probs[k] = softmax(logits)[k],  k = 0, …, n - 1

    Mean and variance of class indices are NaN. A class with a logit of -inf is impossible and
    never drawn; entropy and gradients are finite.

    Args:
        probs: [..., n], non-negative; normalized to sum 1.
        logits: Instead of `probs`: their logarithms, up to an additive constant.
        dtype: The dtype of probabilities; by default that of the parameters.

    Raises:
        ProgramError: If not exactly one of `probs` and `logits` is given, or a number in
            `probs` is below 0.
        ShapeError: If the class axis is missing.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Categorical(logits=br.data("x", ["batch", 5]))
        ...     print(d.sample().type, d.log_prob(3).type, d.batch_shape)
        i64[batch] f32[batch] (batch,)
    """

    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(
        draw=draw_class,
        log_prob=_class_log_prob,
        mean=lambda d: np.nan,
        variance=lambda d: np.nan,
        mode=lambda d: ops.argmax(d.log_probs, axis=-1),
        entropy=lambda d: -class_mean(d, d.log_probs),
    )
    support = Interval(low=lambda d: 0.0, high=lambda d: _class_indices(d)[-1], whole=True)
    ranges: ClassVar = {"probs": FROM_ZERO}
    axes: ClassVar = {"probs": 1, "logits": 1}
    instead = RELAXED


# ---- vectors ---------------------------------------------------------------------------------


def last_axis_size(x: Var) -> Var:
    """Return the (possibly symbolic) size of the last axis, in the dtype of `x`."""
    return ops.sum(ops.ones_like(x), axis=-1, keepdims=True)


@final
@dataclass(frozen=True)
class Vectors(Support):
    """Vectors of numbers in an interval, with a given sum.

    Attributes:
        part: The interval of the elements.
        total: The sum.
    """

    part: Interval
    total: Form

    def outside(self, params: DistributionParams, x: Var) -> Var | None:
        """See Support."""
        tolerance = math.sqrt(cast("Any", ml_dtypes).finfo(x.dtype).eps)
        total = self.total(params)
        is_off = ops.abs(ops.sum(x, axis=-1) - total) > tolerance * (1.0 + total)
        is_outside = self.part.outside(params, x)
        return is_off if is_outside is None else ops.any(is_outside, axis=-1) | is_off

    def inner(self, params: DistributionParams, x: Var) -> Var | float:
        """See Support."""
        del params
        return 1.0 / last_axis_size(x)


SIMPLEX = Vectors(UNIT, lambda d: 1.0)
INNER_SIMPLEX = Vectors(INNER_UNIT, lambda d: 1.0)


def _variances(d: DistributionParams) -> Var:
    return d.probs * (1.0 - d.probs)


def one_hot(numbers: Var, like: Var) -> Var:
    """Encode class indices as one-hot vectors."""
    return ops.one_hot(numbers, like.shape[-1], dtype=like.dtype)


def _log_prob_of_counts(d: DistributionParams, x: Var) -> Var:
    """Return sum of x * log(probs), without impossible classes that do not occur."""
    occurs = x > 0.0
    return ops.sum(x * ops.where(occurs, d.log_probs, 0.0), axis=-1)


ONE_HOT = ClosedForms(
    draw=lambda d, sizes: one_hot(draw_class(d, sizes), d.probs),
    log_prob=_log_prob_of_counts,
    mean=lambda d: d.probs,
    variance=_variances,
    mode=lambda d: one_hot(ops.argmax(d.log_probs, axis=-1), d.probs),
    entropy=lambda d: -class_mean(d, d.log_probs),
)


@distribution
class OneHotCategorical(ClassFamily):
    """Categorical distribution over one-hot vectors.

        P(the one of class k) = probs[k] = softmax(logits)[k]

    Args:
        probs: [..., n], non-negative; normalized to sum 1.
        logits: Instead of `probs`: their logarithms, up to an additive constant.
        dtype: As for `Categorical`.

    Raises:
        ProgramError: As for `Categorical`.
        ShapeError: If the class axis is missing.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.OneHotCategorical(logits=br.data("x", ["batch", 5]))
        ...     print(d.sample().type, d.mean.type, d.event_shape)
        f32[batch,5] f32[batch,5] (5,)
    """

    probs: Operand | None = None
    logits: Operand | None = None

    forms = ONE_HOT
    support = Vectors(Interval(lambda d: 0.0, lambda d: 1.0, whole=True), lambda d: 1.0)
    ranges: ClassVar = {"probs": FROM_ZERO}
    axes: ClassVar = {"probs": 1, "logits": 1}
    event_axes = 1
    instead = RELAXED


def _straight_draw(d: DistributionParams, sizes: Shape) -> Var:
    return ONE_HOT.draw(d, sizes) + (d.probs - ops.stop_gradient(d.probs))


@distribution
class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` with straight-through gradients of draws.

        out = one_hot(class) + probs - stop_gradient(probs)

    Source: Bengio, Léonard, Courville, Estimating or Propagating Gradients Through Stochastic
    Neurons, 2013.

    Args:
        probs: [..., n], non-negative; normalized to sum 1.
        logits: Instead of `probs`: their logarithms, up to an additive constant.
        dtype: As for `Categorical`.

    Raises:
        ProgramError: As for `Categorical`.
        ShapeError: If the class axis is missing.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 5])
        ...     d = br.distributions.OneHotCategoricalStraightThrough(logits=x)
        ...     print(d.rsample([2]).type)
        f32[2,batch,5]
    """

    forms = replace(ONE_HOT, draw=_straight_draw)
    instead = ""


def _multinomial_log_prob(d: DistributionParams, x: Var) -> Var:
    ways = ops.sum(log_binomial(ops.cumsum(x, axis=-1), x), axis=-1)
    return ways + _log_prob_of_counts(d, x)


def _trial_count(d: DistributionParams) -> Var:
    return ops.expand_dims(d.total_count, axis=-1)


@distribution
class Multinomial(ClassFamily):
    """Counts of each class in a number of independent trials.

        P(x) = total_count! product over k of probs[k]^x[k] / x[k]!

    Args:
        total_count: Number of trials.
        probs: [..., n], non-negative; normalized to sum 1.
        logits: Instead of `probs`: their logarithms, up to an additive constant.
        dtype: As for `Categorical`.

    Raises:
        ProgramError: As for `Categorical`; or `total_count` is not a positive integer.
        ShapeError: If the class axis is missing.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Multinomial(10, [0.2, 0.3, 0.5]).sample([7]).type)
        f32[7,3]
    """

    total_count: int = 1
    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(
        draw=lambda d, sizes: one_hot(draw_class(d, sizes), d.probs),
        log_prob=_multinomial_log_prob,
        mean=lambda d: _trial_count(d) * d.probs,
        variance=lambda d: _trial_count(d) * _variances(d),
    )
    support = Vectors(Interval(low=lambda d: 0.0, whole=True), lambda d: d.total_count)
    ranges: ClassVar = {"probs": FROM_ZERO}
    axes: ClassVar = {"probs": 1, "logits": 1}
    event_axes = 1
    instead = "the score-function estimator: " + SCORE

    def check(self) -> None:
        """Check the number of trials."""
        super().check()
        if self.total_count < 1:
            raise ProgramError(
                f"multinomial: expected total_count of 1 or more, got {self.total_count}.",
                fix="Pass the number of trials as an integer.",
            )

    def append_draws(self, sizes: Shape) -> Var:
        """Sum the draws of all trials."""
        return ops.sum(super().append_draws((self.total_count, *sizes)), axis=0)
