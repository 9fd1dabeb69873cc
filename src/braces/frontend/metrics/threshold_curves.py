"""Metrics of scores of two classes, made of how many of each lie above thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, FLOAT64, is_integer
from braces.errors import DTypeError, ProgramError
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.public_names import arange
from braces.frontend.metrics.base import Metric, Sums, alike, kept, looked_at, share, weights_of


def _curve(
    kind: str, scores: Any, labels: Any, weights: Operand | None, thresholds: int,
    name: str | None, number: Callable[[Sums], Var],
) -> Metric:  # fmt: skip
    """A metric of how many rows of each class have each score."""
    scores, labels = operand(scores, kind), operand(labels, kind)
    if thresholds < 2:
        raise ProgramError(
            f"{kind} cannot keep {thresholds!r} thresholds.", fix="Use 2 or more."
        )
    if labels.dtype != BOOL and not is_integer(labels.dtype):
        raise DTypeError(f"{kind} takes labels that are bools or integers, not {labels.type}.")
    alike(kind, scores=scores, labels=labels)
    weight = weights_of(kind, scores, weights)
    high, wide = float(thresholds - 1), looked_at(scores, weight)
    spoilt = ops.sum(wide - wide)  # NaN where a score is no number
    place = ops.clip(ops.round(ops.where(ops.isfinite(wide), wide, 0.0) * high), 0.0, high)
    weight = ops.reshape(weight, [-1])
    place = ops.reshape(ops.cast(place, "int64"), [-1, 1])
    hot = ops.cast(ops.equal(place, arange(thresholds)), FLOAT64)
    true = ops.cast(ops.not_equal(ops.reshape(ops.cast(labels, "int64"), [-1]), 0), FLOAT64)
    sums = {
        "positive": ops.matmul(true * weight, hot) + spoilt,
        "negative": ops.matmul((1.0 - true) * weight, hot),
    }
    return kept(kind, name, sums, number)


# ---- the area --------------------------------------------------------------------------------


@building
def auc(
    scores: Any,
    labels: Any,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The area under the curve of true positives over false ones, by trapezoids.

    Scores are counted in intervals of equal width, and scores of one interval count as equal:
    the area is that of scores rounded to 1 / (thresholds - 1). NaN where a class is missing.

    Args:
        scores: float[...], probabilities; below 0 they count as 0, above 1 as 1. After one that
            is NaN or infinite the area is NaN.
        labels: bool[...], or integers of which 0 is negative, of the same shape.
        weights: As those of `mean`.
        thresholds: How many places of the curve are kept, at least 2.
        name: That of the metric.

    Raises:
        DTypeError: Labels are neither bools nor integers.
        ShapeError: Shapes differ.
        ProgramError: There are fewer than two thresholds.
    """
    return _curve("auc", scores, labels, weights, thresholds, name, _area)


def _area(sums: Sums) -> Var:
    """Of pairs of a positive and a negative row the share in order; ties count half."""
    positive, negative = sums["positive"], sums["negative"]
    below = ops.cumsum(negative, axis=0) - negative
    pairs = ops.sum(positive * (below + negative / 2.0))
    return pairs / (ops.sum(positive) * ops.sum(negative))


# ---- the best where another is good enough ---------------------------------------------------


@building
def precision_at_recall(
    scores: Any,
    labels: Any,
    recall: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best precision of all thresholds by which the recall is at least this.

    What has a score of the threshold or above is said to be positive; 0 where no threshold is
    good enough. NaN where there are no positive rows, or none to have a specificity.

    Args:
        scores: As those of `auc`, as all that follows.
        labels: bool[...], or integers of which 0 is negative.
        recall: The share of positive rows that are to be found, from 0 to 1.
        weights: As those of `mean`.
        thresholds: How many there are, at least 2.
        name: That of the metric.

    Raises:
        ProgramError: The share is not from 0 to 1; else as of `auc`.
    """
    return _best("precision_at_recall", scores, labels, recall, weights, thresholds, name)


@building
def recall_at_precision(
    scores: Any,
    labels: Any,
    precision: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best recall by which the precision is at least this; see `precision_at_recall`."""
    return _best("recall_at_precision", scores, labels, precision, weights, thresholds, name)


@building
def sensitivity_at_specificity(
    scores: Any,
    labels: Any,
    specificity: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best share of positive rows that are found, where so many negative ones are not.

    See `precision_at_recall`.
    """
    what = "sensitivity_at_specificity"
    return _best(what, scores, labels, specificity, weights, thresholds, name)


@building
def specificity_at_sensitivity(
    scores: Any,
    labels: Any,
    sensitivity: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best share of negative rows that are not found, where so many positive ones are.

    See `precision_at_recall`.
    """
    what = "specificity_at_sensitivity"
    return _best(what, scores, labels, sensitivity, weights, thresholds, name)


def _best(
    kind: str, scores: Any, labels: Any, least: float, weights: Operand | None,
    thresholds: int, name: str | None,
) -> Metric:  # fmt: skip
    wanted, _, given = kind.partition("_at_")
    if not 0 <= least <= 1:
        raise ProgramError(f"{kind} needs a {given} from 0 to 1, not {least!r:.40}.")

    def number(sums: Sums) -> Var:
        places = _places(sums)
        enough = places[given] >= least
        best = ops.max(ops.where(enough, places[wanted], 0.0))
        return best + 0.0 * ops.sum(places[wanted] + places[given])  # NaN of nothing

    return _curve(kind, scores, labels, weights, thresholds, name, number)


def _places(sums: Sums) -> dict[str, Var]:
    """What thresholds are worth, by what is measured."""
    positive, negative = sums["positive"], sums["negative"]
    found = ops.cumsum(positive, axis=0, reverse=True)
    false = ops.cumsum(negative, axis=0, reverse=True)
    recall = found / ops.sum(positive)
    return {
        "precision": share(found, found + false),
        "recall": recall,
        "sensitivity": recall,
        "specificity": 1.0 - false / ops.sum(negative),
    }
