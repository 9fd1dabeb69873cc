"""Metrics that are made of counts of rows by their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, FLOAT64, is_integer
from braces.errors import DTypeError, ProgramError
from braces.frontend import functions as ops
from braces.frontend.guard import building, operand
from braces.frontend.metrics.metric import (
    Metric,
    Sums,
    check_alike,
    kept,
    looked_at,
    weights_of,
)
from braces.frontend.spelling import arange

# ---- counts ----------------------------------------------------------------------------------


def _counts(
    kind: str, predictions: Any, labels: Any, classes: int, weights: Operand | None
) -> tuple[Var, Var, Var]:
    """Which class is said of each row and which it is, one-hot, and its weight.

    A row whose label is no class has none.
    """
    said, true = operand(predictions, kind), operand(labels, kind)
    for given in (said, true):
        if not (is_integer(given.dtype) or given.dtype == BOOL):
            raise DTypeError(
                f"{kind} takes classes by number, not {given.type}.",
                fix="Take br.argmax(logits, axis=-1), or br.cast(scores > 0.5, 'int32').",
            )
    if classes < 2:
        raise ProgramError(f"{kind} cannot count {classes!r} classes.", fix="Use 2 or more.")
    check_alike(kind, predictions=said, labels=true)
    weight = ops.reshape(weights_of(kind, true, weights), [-1])
    flat = (ops.reshape(ops.cast(one_, "int64"), [-1, 1]) for one_ in (said, true))
    places = arange(classes)
    hot = [ops.cast(ops.equal(one_, places), FLOAT64) for one_ in flat]
    known = ops.sum(hot[1], axis=1, keepdims=True)
    return hot[0], hot[1], known * ops.expand_dims(weight, axis=1)


@building
def confusion_matrix(
    predictions: Any,
    labels: Any,
    classes: int,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """How often each class is taken for each: [label, prediction].

    Args:
        predictions: integer[...], or bool: the class that is said of each row.
        labels: The class of each row, of the same shape. Rows of no class are not counted.
        classes: How many there are.
        weights: As those of `mean`.
        name: That of the metric.
    """
    said, true, weight = _counts("confusion_matrix", predictions, labels, classes, weights)
    sums = {"counts": ops.matmul(ops.matrix_transpose(true * weight), said)}
    return kept("confusion_matrix", name, sums, lambda sums: sums["counts"] + 0.0)


Ratio = Callable[[Var, Var, Var], Var]


def _ratio_of(
    kind: str,
    ratio: Ratio,
    predictions: Any,
    labels: Any,
    classes: int,
    average: str | None,
    weights: Operand | None,
    name: str | None,
) -> Metric:
    """A ratio of hits, of what is said to be of a class, and of what is."""
    if average not in ("binary", "micro", "macro", None) or (average, classes > 2) == (
        "binary",
        True,
    ):
        raise ProgramError(
            f"{kind} of {classes} classes has no average={average!r}.",
            fix="Use 'micro', 'macro' or None; 'binary' is the class 1 of two.",
        )
    said, true, weight = _counts(kind, predictions, labels, classes, weights)
    sums = {
        "hits": ops.sum(said * true * weight, axis=0),
        "said": ops.sum(said * weight, axis=0),
        "true": ops.sum(true * weight, axis=0),
    }

    def number(sums: Sums) -> Var:
        parts = [sums[role] for role in ("hits", "said", "true")]
        if average == "micro":
            parts = [ops.sum(part) for part in parts]
        found = ratio(*parts)
        if average == "binary":
            return found[1]
        met = ops.cast(parts[1] + parts[2] > 0.0, FLOAT64)
        return _share(ops.sum(found), ops.sum(met)) if average == "macro" else found

    return kept(kind, name, sums, number)


def _share(part: Var, whole: Var) -> Var:
    """A quotient, 0 of nothing."""
    none = ops.equal(whole, 0.0)
    return ops.where(none, 0.0, part / ops.where(none, 1.0, whole))


@building
def precision(
    predictions: Any,
    labels: Any,
    classes: int = 2,
    average: str | None = "binary",
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """Of the rows that are said to be of a class, the share that are; 0 where none is said.

    Args:
        predictions: integer[...], or bool: the class that is said of each row.
        labels: The class of each row, of the same shape. Rows of no class are not counted.
        classes: How many there are.
        average: `"binary"` is of the class 1 of two, `"macro"` the mean over classes that are
            met or said, `"micro"` of all rows together; `None` gives a number for each class.
        weights: As those of `mean`.
        name: That of the metric.
    """
    return _ratio_of(
        "precision", lambda hits, said, _: _share(hits, said), predictions, labels, classes,
        average, weights, name,
    )  # fmt: skip


@building
def recall(
    predictions: Any,
    labels: Any,
    classes: int = 2,
    average: str | None = "binary",
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """Of the rows of a class, the share that are said to be; as `precision`."""
    return _ratio_of(
        "recall", lambda hits, _, true: _share(hits, true), predictions, labels, classes,
        average, weights, name,
    )  # fmt: skip


@building
def f1(
    predictions: Any,
    labels: Any,
    classes: int = 2,
    average: str | None = "binary",
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The harmonic mean of precision and recall, 2 hits / (said + true); as `precision`."""
    return _ratio_of(
        "f1", lambda hits, said, true: _share(2.0 * hits, said + true), predictions, labels,
        classes, average, weights, name,
    )  # fmt: skip


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
    """
    scores, labels = operand(scores, "auc"), operand(labels, "auc")
    if thresholds < 2:
        raise ProgramError(f"auc cannot keep {thresholds!r} thresholds.", fix="Use 2 or more.")
    if labels.dtype != BOOL and not is_integer(labels.dtype):
        raise DTypeError(f"auc takes labels that are bools or integers, not {labels.type}.")
    check_alike("auc", scores=scores, labels=labels)
    weight = weights_of("auc", scores, weights)
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
    return kept("auc", name, sums, _area)


def _area(sums: Sums) -> Var:
    """Of pairs of a positive and a negative row the share in order; ties count half."""
    positive, negative = sums["positive"], sums["negative"]
    below = ops.cumsum(negative, axis=0) - negative
    pairs = ops.sum(positive * (below + negative / 2.0))
    return pairs / (ops.sum(positive) * ops.sum(negative))
