"""Metrics of binary scores, from counts of both classes by score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, FLOAT64, is_integer
from braces.errors import DTypeError, ProgramError
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.public_names import arange
from braces.frontend.metrics.base import (
    Metric,
    Sums,
    accumulate_metric,
    check_same_shape,
    safe_ratio,
    weights_of,
    zero_unweighted,
)


def _curve(
    kind: str, scores: Any, labels: Any, weights: Operand | None, thresholds: int,
    name: str | None, number: Callable[[Sums], Var],
) -> Metric:  # fmt: skip
    """Return a metric computed from histograms of the scores of both classes."""
    scores, labels = operand(scores, kind), operand(labels, kind)
    if thresholds < 2:
        raise ProgramError(
            f"{kind}: expected 2 or more thresholds, got {thresholds!r}.",
            fix="Use thresholds=200.",
        )
    if labels.dtype != BOOL and not is_integer(labels.dtype):
        raise DTypeError(f"{kind}: expected bool or integer labels, got {labels.type}.")
    check_same_shape(kind, scores=scores, labels=labels)
    weight = weights_of(kind, scores, weights)
    high, values = float(thresholds - 1), zero_unweighted(scores, weight)
    nan_if_invalid = ops.sum(values - values)  # NaN if a score is not finite
    bucket = ops.clip(ops.round(ops.where(ops.isfinite(values), values, 0.0) * high), 0.0, high)
    weight = ops.reshape(weight, [-1])
    bucket = ops.reshape(ops.cast(bucket, "int64"), [-1, 1])
    one_hot = ops.cast(ops.equal(bucket, arange(thresholds)), FLOAT64)
    true = ops.cast(ops.not_equal(ops.reshape(ops.cast(labels, "int64"), [-1]), 0), FLOAT64)
    sums = {
        "positive": ops.matmul(true * weight, one_hot) + nan_if_invalid,
        "negative": ops.matmul((1.0 - true) * weight, one_hot),
    }
    return accumulate_metric(kind, name, sums, number, "max")


# ---- area under the curve --------------------------------------------------------------------


@transactional
def auc(
    scores: Any,
    labels: Any,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The area under the ROC curve (true over false positives), by trapezoids.

    Scores are counted in bins of equal width, and scores of one bin count as equal: the area is
    that of scores rounded to 1 / (thresholds - 1). NaN if a class is missing.

    Args:
        scores: float[...], probabilities, clipped to [0, 1]. After a NaN or infinite score the
            area is NaN.
        labels: bool[...], or integers with 0 for negative, of the same shape.
        weights: As for `mean`.
        thresholds: Number of points of the curve, at least 2.
        name: The name of the metric.

    Raises:
        DTypeError: If labels are neither bools nor integers.
        ShapeError: If the shapes differ.
        ProgramError: If `thresholds` is below 2.
    """
    return _curve("auc", scores, labels, weights, thresholds, name, _area)


def _area(sums: Sums) -> Var:
    """Return the share of correctly ordered pairs of both classes; ties count half."""
    positive, negative = sums["positive"], sums["negative"]
    below = ops.cumsum(negative, axis=0) - negative
    pairs = ops.sum(positive * (below + negative / 2.0))
    return pairs / (ops.sum(positive) * ops.sum(negative))


# ---- best value under a constraint -----------------------------------------------------------


@transactional
def precision_at_recall(
    scores: Any,
    labels: Any,
    recall: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best precision over all thresholds with at least the given recall.

    Examples with a score at or above the threshold are predicted positive. The value is 0 if no
    threshold reaches the recall. It is NaN without positive examples, or without negative ones
    for a specificity.

    Args:
        scores: As for `auc`, like all further arguments.
        labels: bool[...], or integers with 0 for negative.
        recall: The required share of positive examples found, from 0 to 1.
        weights: As for `mean`.
        thresholds: Number of thresholds, at least 2.
        name: The name of the metric.

    Raises:
        ProgramError: If the recall is outside [0, 1]; otherwise as for `auc`.
    """
    return _best_under_constraint(
        "precision_at_recall", scores, labels, recall, weights, thresholds, name
    )


@transactional
def recall_at_precision(
    scores: Any,
    labels: Any,
    precision: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best recall with at least the given precision; see `precision_at_recall`."""
    return _best_under_constraint(
        "recall_at_precision", scores, labels, precision, weights, thresholds, name
    )


@transactional
def sensitivity_at_specificity(
    scores: Any,
    labels: Any,
    specificity: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best true positive rate with at least the given true negative rate.

    See `precision_at_recall`.
    """
    what = "sensitivity_at_specificity"
    return _best_under_constraint(what, scores, labels, specificity, weights, thresholds, name)


@transactional
def specificity_at_sensitivity(
    scores: Any,
    labels: Any,
    sensitivity: float,
    weights: Operand | None = None,
    *,
    thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The best true negative rate with at least the given true positive rate.

    See `precision_at_recall`.
    """
    what = "specificity_at_sensitivity"
    return _best_under_constraint(what, scores, labels, sensitivity, weights, thresholds, name)


def _best_under_constraint(
    kind: str, scores: Any, labels: Any, least: float, weights: Operand | None,
    thresholds: int, name: str | None,
) -> Metric:  # fmt: skip
    wanted, _, other = kind.partition("_at_")
    if not 0 <= least <= 1:
        raise ProgramError(f"{kind}: expected a {other} between 0 and 1, got {least!r:.40}.")

    def number(sums: Sums) -> Var:
        curves = _threshold_curves(sums)
        is_sufficient = curves[other] >= least
        best = ops.max(ops.where(is_sufficient, curves[wanted], 0.0))
        return best + 0.0 * ops.sum(curves[wanted] + curves[other])  # NaN of nothing

    return _curve(kind, scores, labels, weights, thresholds, name, number)


def _threshold_curves(sums: Sums) -> dict[str, Var]:
    """Return precision, recall, sensitivity and specificity at each threshold."""
    positive, negative = sums["positive"], sums["negative"]
    true_positives = ops.cumsum(positive, axis=0, reverse=True)
    false_positives = ops.cumsum(negative, axis=0, reverse=True)
    recall = true_positives / ops.sum(positive)
    return {
        "precision": safe_ratio(true_positives, true_positives + false_positives),
        "recall": recall,
        "sensitivity": recall,
        "specificity": 1.0 - false_positives / ops.sum(negative),
    }
