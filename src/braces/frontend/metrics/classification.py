"""Metrics from counts of predicted and true classes."""

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
)

# ---- counts ----------------------------------------------------------------------------------


def _counts(
    kind: str, prediction: Any, labels: Any, num_classes: int, weights: Operand | None
) -> tuple[Var, Var, Var]:
    """Return one-hot predictions and labels, and the weights of examples.

    An example with a label out of range has weight 0.
    """
    predicted, true = operand(prediction, kind), operand(labels, kind)
    for ids in (predicted, true):
        if not (is_integer(ids.dtype) or ids.dtype == BOOL):
            raise DTypeError(
                f"{kind}: expected integer or bool classes, got {ids.type}.",
                fix="Use br.argmax(logits, axis=-1), or br.cast(scores > 0.5, 'int32').",
            )
    if num_classes < 2:
        raise ProgramError(
            f"{kind}: expected num_classes of 2 or more, got {num_classes!r}.",
            fix="Use num_classes=2 for a binary problem.",
        )
    check_same_shape(kind, prediction=predicted, labels=true)
    weight = ops.reshape(weights_of(kind, true, weights), [-1])
    flat = (ops.reshape(ops.cast(one_, "int64"), [-1, 1]) for one_ in (predicted, true))
    class_ids = arange(num_classes)
    one_hot = [ops.cast(ops.equal(one_, class_ids), FLOAT64) for one_ in flat]
    is_valid = ops.sum(one_hot[1], axis=1, keepdims=True)
    return one_hot[0], one_hot[1], is_valid * ops.expand_dims(weight, axis=1)


@transactional
def confusion_matrix(
    prediction: Any,
    labels: Any,
    num_classes: int,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """Confusion matrix: counts by [label, prediction].

    Args:
        prediction: integer[...], or bool: the predicted class of each example.
        labels: The class of each example, of the same shape. Labels out of range are not
            counted.
        num_classes: Number of classes.
        weights: As for `mean`.
        name: The name of the metric.

    Raises:
        DTypeError: If predictions or labels are not integers or bools.
        ShapeError: If the shapes differ.
        ProgramError: If `num_classes` is below 2.
    """
    what = "confusion_matrix"
    predicted, true, weight = _counts(what, prediction, labels, num_classes, weights)
    sums = {"counts": ops.matmul(ops.matrix_transpose(true * weight), predicted)}
    return accumulate_metric(what, name, sums, lambda sums: sums["counts"] + 0.0, None)


def _ratio_metric(ratio: Callable[[Var, Var, Var], Var]):
    """Declare a metric by a ratio of the hits, predictions and labels of each class."""
    kind = ratio.__name__

    def metric(
        prediction: Any, labels: Any, num_classes: int = 2, average: str | None = "binary",
        weights: Operand | None = None, *, name: str | None = None,
    ) -> Metric:  # fmt: skip
        is_known = average in ("binary", "micro", "macro", None)
        if not is_known or (average == "binary" and num_classes > 2):
            raise ProgramError(
                f"{kind} does not support average={average!r} for {num_classes} classes.",
                fix="Use 'micro', 'macro' or None; 'binary' requires two classes.",
            )
        predicted, true, weight = _counts(kind, prediction, labels, num_classes, weights)
        sums = {
            "hits": ops.sum(predicted * true * weight, axis=0),
            "said": ops.sum(predicted * weight, axis=0),
            "true": ops.sum(true * weight, axis=0),
        }

        def number(sums: Sums) -> Var:
            parts = [sums[role] for role in ("hits", "said", "true")]
            if average == "micro":
                parts = [ops.sum(part) for part in parts]
            ratios = ratio(*parts)
            if average == "binary":
                return ratios[1]
            occurs = ops.cast(parts[1] + parts[2] > 0.0, FLOAT64)
            return (
                safe_ratio(ops.sum(ratios), ops.sum(occurs)) if average == "macro" else ratios
            )

        return accumulate_metric(kind, name, sums, number, "max")

    metric.__name__ = metric.__qualname__ = kind
    metric.__doc__ = f"{ratio.__doc__}\n{ARGUMENTS}"
    return transactional(metric)


ARGUMENTS = """
Args:
    prediction: integer[...], or bool: the predicted class of each example.
    labels: The class of each example, of the same shape. Labels out of range are not
        counted.
    num_classes: Number of classes.
    average: `"binary"` is class 1 of two, `"macro"` the mean over classes that occur or are
        predicted, `"micro"` over all examples together; `None` gives a number for each
        class.
    weights: As for `mean`.
    name: The name of the metric.

Raises:
    DTypeError: If predictions or labels are not integers or bools.
    ShapeError: If the shapes differ.
    ProgramError: If `num_classes` is below 2, or `average` does not support that number.
"""


@_ratio_metric
def precision(hits: Var, predictions: Var, _: Var) -> Var:
    """Precision: the share of correct predictions of a class; 0 without predictions."""
    return safe_ratio(hits, predictions)


@_ratio_metric
def recall(hits: Var, _: Var, labels: Var) -> Var:
    """Recall: the share of the examples of a class that are found."""
    return safe_ratio(hits, labels)


@_ratio_metric
def f1(hits: Var, predictions: Var, labels: Var) -> Var:
    """F1: the harmonic mean of precision and recall, 2 hits / (predictions + labels)."""
    return safe_ratio(2.0 * hits, predictions + labels)
