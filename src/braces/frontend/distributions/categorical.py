"""Distributions of classes, and of what is nearly one class."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast, final

import ml_dtypes
import numpy as np

from braces.builder.append import one
from braces.builder.var import Operand, Var
from braces.dims import Shape, Size
from braces.errors import ProgramError
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.distributions.core.constraints import INNER_UNIT, UNIT, Interval, Support
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.parameterization import Form, Forms, Given
from braces.frontend.distributions.discrete import FROM_ZERO, SCORE, Chances, log_ways

RELAXED = "RelaxedOneHotCategorical, or the score: " + SCORE

# ---- their probabilities ---------------------------------------------------------------------


class Classes(Chances):
    """What has probabilities of classes along the last axis of a parameter, or logits."""

    def completed(self, given: Given) -> Given:
        """With probabilities that have the sum 1, and their logarithms."""
        if "logits" in given.vars:
            log_probs = ops.log_softmax(given.logits, axis=-1)
            return given.but(probs=ops.exp(log_probs), log_probs=log_probs)
        probs = given.probs / ops.sum(given.probs, axis=-1, keepdims=True)
        some = probs > 0.0
        log_probs = ops.where(some, ops.log(ops.where(some, probs, 1.0)), -np.inf)
        return given.but(probs=probs, log_probs=log_probs)


def mean_of(d: Given, what: Var) -> Var:
    """The mean over the classes; what is impossible does not count, whatever is there."""
    some = d.probs > 0.0
    return ops.sum(ops.where(some, d.probs, 0.0) * ops.where(some, what, 0.0), axis=-1)


def class_count(d: Given) -> Size:
    """How many classes there are."""
    return d.probs.shape[-1]


def drawn_class(d: Given, sizes: Shape) -> Var:
    """The number of a class."""
    wide = ops.broadcast_to(d.log_probs, (*sizes, class_count(d)))
    return random.categorical(wide)


def _chosen(d: Given, x: Var) -> Var:
    """The logarithm of the probability of classes."""
    table = d.log_probs + ops.expand_dims(ops.zeros_like(x), axis=-1)
    places = ops.cast(ops.expand_dims(x, axis=-1), "int64")
    places = ops.broadcast_to(places, (*table.shape[:-1], 1))
    return ops.squeeze(ops.take_along_axis(table, places, axis=-1), axis=-1)


def _numbers(d: Given) -> Var:
    return ops.cast(one("arange", stop=class_count(d)), d.probs.dtype)


CATEGORICAL = Forms(
    draw=drawn_class,
    log_prob=_chosen,
    mean=lambda d: np.nan,
    variance=lambda d: np.nan,
    mode=lambda d: ops.argmax(d.log_probs, axis=-1),
    entropy=lambda d: -mean_of(d, d.log_probs),
)


@distribution
class Categorical(Classes):
    """The number of a class, i64.

        P(k) = probs[k] = softmax(logits)[k],  k = 0, …, n - 1

    Numbers of classes have no mean: it is NaN. What has a logit of -inf is impossible, and is
    never drawn; entropy and gradients are finite.

    Args:
        probs: [..., n], from 0 on; divided by their sum.
        logits: In its place: their logarithms, up to a number that is added to all.
        dtype: Of probabilities; that of the parameters where it is not said.

    Raises:
        ProgramError: Not exactly one of `probs` and `logits` is given, or a number in `probs`
            is below 0.
        ShapeError: There is no axis of classes.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Categorical(logits=br.data("x", ["batch", 5]))
        ...     print(d.sample().type, d.log_prob(3).type, d.batch_shape)
        i64[batch] f32[batch] (batch,)
    """

    probs: Operand | None = None
    logits: Operand | None = None

    forms = CATEGORICAL
    support = Interval(low=lambda d: 0.0, high=lambda d: _numbers(d)[-1], whole=True)
    ranges: ClassVar = {"probs": FROM_ZERO}
    axes: ClassVar = {"probs": 1, "logits": 1}
    instead = RELAXED


# ---- vectors ---------------------------------------------------------------------------------


def size_of_last(x: Var) -> Var:
    """How many numbers a vector has, as one of its dtype; it may be known in a run alone."""
    return ops.sum(ops.ones_like(x), axis=-1, keepdims=True)


@final
@dataclass(frozen=True)
class Vectors(Support):
    """Vectors of numbers in an interval, with a certain sum.

    Attributes:
        part: The interval.
        total: The sum.
    """

    part: Interval
    total: Form

    def outside(self, given: Given, x: Var) -> Var | None:
        """See Support."""
        near = math.sqrt(cast("Any", ml_dtypes).finfo(x.dtype).eps)
        total = self.total(given)
        apart = ops.abs(ops.sum(x, axis=-1) - total) > near * (1.0 + total)
        wrong = self.part.outside(given, x)
        return apart if wrong is None else ops.any(wrong, axis=-1) | apart

    def inner(self, given: Given, x: Var) -> Var | float:
        """See Support."""
        del given
        return 1.0 / size_of_last(x)


SIMPLEX = Vectors(UNIT, lambda d: 1.0)
INNER_SIMPLEX = Vectors(INNER_UNIT, lambda d: 1.0)


def _variances(d: Given) -> Var:
    return d.probs * (1.0 - d.probs)


def one_hot(numbers: Var, like: Var) -> Var:
    """Classes as vectors of one 1."""
    return ops.one_hot(numbers, like.shape[-1], dtype=like.dtype)


def _log_prob_of_counts(d: Given, x: Var) -> Var:
    """What is impossible and does not happen counts nothing."""
    met = x > 0.0
    return ops.sum(x * ops.where(met, d.log_probs, 0.0), axis=-1)


ONE_HOT = Forms(
    draw=lambda d, sizes: one_hot(drawn_class(d, sizes), d.probs),
    log_prob=_log_prob_of_counts,
    mean=lambda d: d.probs,
    variance=_variances,
    mode=lambda d: one_hot(ops.argmax(d.log_probs, axis=-1), d.probs),
    entropy=lambda d: -mean_of(d, d.log_probs),
)


@distribution
class OneHotCategorical(Classes):
    """A class as a vector that is 1 there, and else 0.

        P(the one of class k) = probs[k] = softmax(logits)[k]

    Args:
        probs: [..., n], from 0 on; divided by their sum.
        logits: In its place: their logarithms, up to a number that is added to all.
        dtype: As that of `Categorical`.

    Raises:
        ProgramError: As that of `Categorical`.
        ShapeError: There is no axis of classes.

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


def _straight_draw(d: Given, sizes: Shape) -> Var:
    return ONE_HOT.draw(d, sizes) + (d.probs - ops.stop_gradient(d.probs))


@distribution
class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As `OneHotCategorical`, with draws that have the gradients of the probabilities.

        out = one_hot(class) + probs - stop_gradient(probs)

    Source: Bengio, Léonard, Courville, Estimating or Propagating Gradients Through Stochastic
    Neurons, 2013.

    Args:
        probs: [..., n], from 0 on; divided by their sum.
        logits: In its place: their logarithms, up to a number that is added to all.
        dtype: As that of `Categorical`.

    Raises:
        ProgramError: As that of `Categorical`.
        ShapeError: There is no axis of classes.

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


def _multinomial_log_prob(d: Given, x: Var) -> Var:
    ways = ops.sum(log_ways(ops.cumsum(x, axis=-1), x), axis=-1)
    return ways + _log_prob_of_counts(d, x)


def _as_often(d: Given) -> Var:
    return ops.expand_dims(d.total_count, axis=-1)


@distribution
class Multinomial(Classes):
    """How often each class comes up in some trials.

        P(x) = total_count! product over k of probs[k]^x[k] / x[k]!

    Args:
        total_count: How many trials.
        probs: [..., n], from 0 on; divided by their sum.
        logits: In its place: their logarithms, up to a number that is added to all.
        dtype: As that of `Categorical`.

    Raises:
        ProgramError: As that of `Categorical`; or `total_count` is no whole number from 1 on.
        ShapeError: There is no axis of classes.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.distributions.Multinomial(10, [0.2, 0.3, 0.5]).sample([7]).type)
        f32[7,3]
    """

    total_count: int = 1
    probs: Operand | None = None
    logits: Operand | None = None

    forms = Forms(
        draw=lambda d, sizes: one_hot(drawn_class(d, sizes), d.probs),
        log_prob=_multinomial_log_prob,
        mean=lambda d: _as_often(d) * d.probs,
        variance=lambda d: _as_often(d) * _variances(d),
    )
    support = Vectors(Interval(low=lambda d: 0.0, whole=True), lambda d: d.total_count)
    ranges: ClassVar = {"probs": FROM_ZERO}
    axes: ClassVar = {"probs": 1, "logits": 1}
    event_axes = 1
    instead = "the score: " + SCORE

    def check(self) -> None:
        """The trials can be counted."""
        super().check()
        if self.total_count < 1:
            raise ProgramError(
                f"Multinomial has total_count={self.total_count}.",
                fix="It is a whole number from 1 on.",
            )

    def drawn(self, sizes: Shape) -> Var:
        """All trials at once."""
        return ops.sum(super().drawn((self.total_count, *sizes)), axis=0)
