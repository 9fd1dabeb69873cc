"""Metrics that are made of counts of rows by their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, FLOAT64, is_integer
from braces.errors import DTypeError, ProgramError
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.public_names import arange
from braces.frontend.metrics.base import Metric, Sums, alike, kept, share, weights_of

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
    alike(kind, predictions=said, labels=true)
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

    Raises:
        DTypeError: Predictions or labels are no classes.
        ShapeError: Their shapes differ.
        ProgramError: There are fewer than two classes.
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
    known = average in ("binary", "micro", "macro", None)
    if not known or (average == "binary" and classes > 2):
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
        return share(ops.sum(found), ops.sum(met)) if average == "macro" else found

    return kept(kind, name, sums, number)


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

    Raises:
        DTypeError: Predictions or labels are no classes.
        ShapeError: Their shapes differ.
        ProgramError: There are fewer than two classes, or there is no such average of them.
    """
    return _ratio_of(
        "precision", lambda hits, said, _: share(hits, said), predictions, labels, classes,
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
        "recall", lambda hits, _, true: share(hits, true), predictions, labels, classes,
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
        "f1", lambda hits, said, true: share(2.0 * hits, said + true), predictions, labels,
        classes, average, weights, name,
    )  # fmt: skip
