"""Metrics over many batches: sums that are states of the program, and a number made of them.

    right = br.metrics.accuracy(logits, labels)
    loss_value, so_far = exe.run(prog, scope, feed, [loss, right.value])
    right.reset(scope)                       before the next epoch

The sums are called after the metric, `accuracy/total`, and are states: each run that computes
updates adds its batch to them, they are saved with the others, and `Program.for_test` keeps
them moving. `value` is of all batches since the last reset, that of this run included; `batch`
is of this run alone. Of nothing, a metric is NaN.

Sums are float64, in which 2^53 rows are counted exactly. Metrics have no gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from braces.builder.append import as_var, one
from braces.builder.program import current_program
from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, FLOAT64, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend import functions as ops
from braces.frontend.bleu import bleu
from braces.frontend.class_losses import softmax_cross_entropy
from braces.frontend.guard import building, missing_from, operand
from braces.frontend.spelling import arange
from braces.frontend.variables import persistable
from braces.ir.records import STATE
from braces.ops.control.building import free_block_name

__all__ = [
    "Metric", "accuracy", "auc", "bleu", "confusion_matrix", "f1", "mean",
    "mean_absolute_error", "mean_squared_error", "perplexity", "precision", "r2", "recall",
    "root_mean_squared_error", "top_k_accuracy",
]  # fmt: skip

Sums = Mapping[str, Var]


@dataclass(frozen=True, eq=False)
class Metric:
    """A number over all batches since the last reset.

    Attributes:
        name: What its states begin with.
        value: The number over all batches, that of this run included; to be fetched.
        batch: The number of this run alone.
        states: The sums that are kept.
    """

    name: str
    value: Var
    batch: Var
    states: tuple[Var, ...]

    def reset(self, scope: Any) -> None:
        """Begin anew: set the sums in a scope to zero."""
        for state in self.states:
            scope.var(state.name).set(np.zeros(state.shape, state.dtype))  # pyright: ignore[reportArgumentType]


def _kept(kind: str, name: str | None, sums: Sums, number: Callable[[Sums], Var]) -> Metric:
    """A metric of some sums over the rows of a batch."""
    program = current_program()
    if not program.current.runs_once:
        raise ProgramError(
            f"{kind} cannot be counted in an inner block, which runs many times or never.",
            fix="Give what the loop or branch gives to the metric after it.",
        )
    table = program.current
    called = table.prefixed(name) if name else free_block_name(table, kind)
    states, totals = list[Var](), dict[str, Var]()
    for role, batch in sums.items():
        sizes = [size for size in batch.shape if isinstance(size, int)]
        with table.naming(""):
            state = persistable(
                f"{called}/{role}", sizes, 0.0, FLOAT64, kind=STATE, trainable=False
            )
        totals[role] = one("accumulate", state, batch)
        program.update(state.name, totals[role].name)
        states.append(state)
    return Metric(called, number(totals), number(sums), tuple(states))


def _weights(kind: str, values: Var, weights: Operand | None) -> Var:
    """A weight for each value, float64."""
    ones = ops.ones_like(values, dtype=FLOAT64)
    if weights is None:
        return ones
    given = as_var(weights)
    if given.dtype != BOOL and given.dtype.kind not in "iuf":
        raise DTypeError(f"{kind} takes weights that are numbers or a mask, not {given.type}.")
    return ops.multiply(ones, ops.cast(given, FLOAT64))


def _mean_of(
    kind: str,
    name: str | None,
    values: Var,
    weights: Operand | None,
    shape: Callable[[Var], Var] | None = None,
) -> Metric:
    """The weighted mean of some values, or a function of that."""
    values = ops.cast(values, FLOAT64)
    weight = _weights(kind, values, weights)
    kept = ops.where(ops.equal(weight, 0.0), 0.0, values)
    sums = {"total": ops.sum(kept * weight), "count": ops.sum(weight)}

    def number(sums: Sums) -> Var:
        found = sums["total"] / sums["count"]
        return found if shape is None else shape(found)

    return _kept(kind, name, sums, number)


# ---- means -----------------------------------------------------------------------------------


@building
def mean(values: Any, weights: Operand | None = None, *, name: str | None = None) -> Metric:
    """The mean over all rows of all batches: of a loss, say.

        value = sum(weights * values) / sum(weights)

    Args:
        values: Numbers or bools, of any shape.
        weights: Broadcast against the values: numbers, or a mask of those that count. What has
            no weight is not looked at, NaN included.
        name: That of the metric.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["n"])
        ...     m = br.metrics.mean(x)
        >>> exe, scope = br.Executor(), br.Scope()
        >>> exe.init(prog, scope)
        >>> [float(exe.run(prog, scope, {"x": [n, n + 2.0]}, m.value)) for n in (1.0, 4.0)]
        [2.0, 3.5]
        >>> [state.name for state in m.states]
        ['mean/total', 'mean/count']
    """
    return _mean_of("mean", name, operand(values, "mean"), weights)


@building
def mean_squared_error(
    predictions: Any,
    targets: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The mean of (predictions - targets)^2; see `mean`."""
    error = ops.square(operand(predictions, "mean_squared_error") - targets)
    return _mean_of("mean_squared_error", name, error, weights)


@building
def root_mean_squared_error(
    predictions: Any,
    targets: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The square root of the mean of (predictions - targets)^2; see `mean`."""
    what = "root_mean_squared_error"
    error = ops.square(operand(predictions, what) - targets)
    return _mean_of(what, name, error, weights, ops.sqrt)


@building
def mean_absolute_error(
    predictions: Any,
    targets: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The mean of |predictions - targets|; see `mean`."""
    error = ops.abs(operand(predictions, "mean_absolute_error") - targets)
    return _mean_of("mean_absolute_error", name, error, weights)


@building
def accuracy(
    logits: Any, labels: Any, weights: Operand | None = None, *, name: str | None = None
) -> Metric:
    """The share of rows whose largest logit, on the last axis, is at the label; see `mean`.

    Where several are the largest, the first counts. A label that is no class never matches.

    Args:
        logits: number[..., classes]; probabilities do as well.
        labels: integer[...].
        weights: As those of `mean`, one for each label.
        name: That of the metric.
    """
    logits = _scores("accuracy", logits, labels)
    hits = ops.equal(ops.argmax(logits, axis=-1), ops.cast(labels, "int64"))
    return _mean_of("accuracy", name, hits, weights)


@building
def top_k_accuracy(
    logits: Any, labels: Any, k: int, weights: Operand | None = None, *, name: str | None = None
) -> Metric:
    """The share of rows where fewer than `k` logits are larger than that of the label.

    See `accuracy`.
    """
    logits = _scores("top_k_accuracy", logits, labels)
    if k < 1:
        raise ProgramError(
            f"top_k_accuracy cannot take the best {k!r}.", fix="Use k=1 or more."
        )
    label = ops.expand_dims(ops.cast(labels, "int64"), axis=-1)
    here = ops.equal(arange(logits.shape[-1]), label)
    own = ops.sum(ops.where(here, logits, 0), axis=-1, keepdims=True)
    larger = ops.logical_not(logits <= own)
    rank = ops.sum(ops.cast(larger, "int64"), axis=-1, keepdims=True)
    hits = ops.any(ops.logical_and(here, rank < k), axis=-1)
    return _mean_of("top_k_accuracy", name, hits, weights)


@building
def perplexity(
    logits: Any, labels: Any, weights: Operand | None = None, *, name: str | None = None
) -> Metric:
    """How many words a language model hesitates between.

        value = exp(mean(-log(softmax(logits)[label])))

    Args:
        logits: float[..., words].
        labels: integer[...].
        weights: As those of `mean`, one for each label: a mask of what is no padding.
        name: That of the metric.
    """
    logits = _scores("perplexity", logits, labels)
    loss = softmax_cross_entropy(logits, labels)
    return _mean_of("perplexity", name, loss, weights, ops.exp)


def _scores(kind: str, logits: Any, labels: Any) -> Var:
    """Logits that have one label for each row."""
    logits, labels = operand(logits, kind), operand(labels, kind)
    if not is_integer(labels.dtype):
        raise DTypeError(f"{kind} takes integers as labels, not {labels.type}.")
    if logits.ndim != labels.ndim + 1:
        raise ShapeError(
            f"{kind} takes logits with one axis more than labels, that of classes.",
            given=f"{logits.name}: {logits.type}   {labels.name}: {labels.type}",
        )
    return logits


# ---- counts ----------------------------------------------------------------------------------


def _counts(
    kind: str, predictions: Any, labels: Any, classes: int, weights: Operand | None
) -> tuple[Var, Var, Var]:
    """Which class is said of each row and which it is, one-hot, and its weight."""
    said, true = operand(predictions, kind), operand(labels, kind)
    for given in (said, true):
        if not (is_integer(given.dtype) or given.dtype == BOOL):
            raise DTypeError(
                f"{kind} takes classes by number, not {given.type}.",
                fix="Take br.argmax(logits, axis=-1), or br.cast(scores > 0.5, 'int32').",
            )
    if classes < 2:
        raise ProgramError(f"{kind} cannot count {classes!r} classes.", fix="Use 2 or more.")
    weight = ops.reshape(_weights(kind, true, weights), [-1])
    flat = (ops.reshape(ops.cast(one_, "int64"), [-1, 1]) for one_ in (said, true))
    places = arange(classes)
    hot = [ops.cast(ops.equal(one_, places), FLOAT64) for one_ in flat]
    return hot[0], hot[1], ops.expand_dims(weight, axis=1)


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
    return _kept("confusion_matrix", name, sums, lambda sums: sums["counts"] + 0.0)


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
        return ops.mean(found) if average == "macro" else found

    return _kept(kind, name, sums, number)


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
        labels: The class of each row, of the same shape.
        classes: How many there are.
        average: `"binary"` is of the class 1 of two, `"macro"` the mean over classes,
            `"micro"` of all rows together; `None` gives a number for each class.
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
        scores: float[...], probabilities from 0 to 1.
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
    weight = ops.reshape(_weights("auc", scores, weights), [-1])
    high = float(thresholds - 1)
    place = ops.clip(ops.round(ops.cast(scores, FLOAT64) * high), 0.0, high)
    place = ops.reshape(ops.cast(place, "int64"), [-1, 1])
    hot = ops.cast(ops.equal(place, arange(thresholds)), FLOAT64)
    true = ops.cast(ops.not_equal(ops.reshape(ops.cast(labels, "int64"), [-1]), 0), FLOAT64)
    sums = {
        "positive": ops.matmul(true * weight, hot),
        "negative": ops.matmul((1.0 - true) * weight, hot),
    }
    return _kept("auc", name, sums, _area)


def _area(sums: Sums) -> Var:
    """Of pairs of a positive and a negative row the share in order; ties count half."""
    positive, negative = sums["positive"], sums["negative"]
    below = ops.cumsum(negative, axis=0) - negative
    pairs = ops.sum(positive * (below + negative / 2.0))
    return pairs / (ops.sum(positive) * ops.sum(negative))


@building
def r2(
    predictions: Any, targets: Any, weights: Operand | None = None, *, name: str | None = None
) -> Metric:
    """The share of the targets' variance that is explained.

        value = 1 - sum((targets - predictions)^2) / sum((targets - mean(targets))^2)

    The variance is found from sums of targets and of their squares, so it loses digits where
    the targets are much larger than they vary.
    """
    wide = [ops.cast(operand(x, "r2"), FLOAT64) for x in (predictions, targets)]
    weight = _weights("r2", wide[1], weights)
    sums = {
        "error": ops.sum(weight * ops.square(wide[0] - wide[1])),
        "total": ops.sum(weight * wide[1]),
        "squares": ops.sum(weight * wide[1] * wide[1]),
        "count": ops.sum(weight),
    }

    def number(sums: Sums) -> Var:
        spread = sums["squares"] - ops.square(sums["total"]) / sums["count"]
        return 1.0 - sums["error"] / spread

    return _kept("r2", name, sums, number)


if not TYPE_CHECKING:
    __getattr__ = missing_from("br.metrics", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
