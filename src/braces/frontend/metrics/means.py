"""Metrics that are means over examples."""

from __future__ import annotations

from typing import Any

from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.public_names import arange
from braces.frontend.losses.classification import softmax_cross_entropy
from braces.frontend.metrics.base import (
    Metric,
    Sums,
    accumulate_metric,
    check_same_shape,
    mean_metric,
    weights_of,
    zero_unweighted,
)

# ---- means -----------------------------------------------------------------------------------


@transactional
def mean(values: Any, weights: Operand | None = None, *, name: str | None = None) -> Metric:
    """The mean over all batches, for example of a loss.

        value = sum(weights * values) / sum(weights)

    Args:
        values: Numbers or bools, of any shape.
        weights: Broadcast against the values: numbers, or a mask. Values of zero weight are
            ignored, even if NaN.
        name: The name of the metric.

    Raises:
        ProgramError: If the metric is in an inner block; this applies to all metrics.
        DTypeError: If the weights are not numbers.
        ShapeError: If the weights do not broadcast to the values.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["n"])
        ...     m = br.metrics.mean(x)
        >>> exe, scope = br.Executor(), br.Scope()
        >>> _ = exe.init(prog, scope)
        >>> [float(exe.run(prog, scope, {"x": [n, n + 2.0]}, m.value)) for n in (1.0, 4.0)]
        [2.0, 3.5]
        >>> [state.name for state in m.states]
        ['mean/total', 'mean/count']
    """
    return mean_metric("mean", name, operand(values, "mean"), weights, better=None)


@transactional
def mean_squared_error(
    prediction: Any,
    target: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The mean of (prediction - target)^2; see `mean`."""
    error = ops.square(_error("mean_squared_error", prediction, target))
    return mean_metric("mean_squared_error", name, error, weights, better="min")


@transactional
def root_mean_squared_error(
    prediction: Any,
    target: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The square root of the mean of (prediction - target)^2; see `mean`."""
    what = "root_mean_squared_error"
    error = ops.square(_error(what, prediction, target))
    return mean_metric(what, name, error, weights, ops.sqrt, better="min")


@transactional
def mean_absolute_error(
    prediction: Any,
    target: Operand,
    weights: Operand | None = None,
    *,
    name: str | None = None,
) -> Metric:
    """The mean of |prediction - target|; see `mean`."""
    error = ops.abs(_error("mean_absolute_error", prediction, target))
    return mean_metric("mean_absolute_error", name, error, weights, better="min")


def _error(kind: str, prediction: Any, target: Any) -> Var:
    """Return the difference of two variables of one shape."""
    left, right = check_same_shape(kind, prediction=prediction, target=target)
    return left - right


@transactional
def accuracy(
    logits: Any,
    labels: Any,
    weights: Operand | None = None,
    *,
    ignored_label: int | None = None,
    name: str | None = None,
) -> Metric:
    """The share of examples whose largest logit, on the last axis, is at the label; see `mean`.

    In a tie, the first class counts. A label out of range never matches.

    Args:
        logits: number[..., classes]; or probabilities.
        labels: integer[...].
        weights: As for `mean`, one for each label.
        ignored_label: Examples of this label do not count, as in `br.softmax_cross_entropy`.
        name: The name of the metric.

    Raises:
        DTypeError: If labels are not integers.
        ShapeError: If the shapes of labels and logits do not match.
    """
    logits = _scores("accuracy", logits, labels)
    hits = ops.equal(ops.argmax(logits, axis=-1), ops.cast(labels, "int64"))
    return _share("accuracy", name, hits, labels, weights, ignored_label)


@transactional
def binary_accuracy(
    scores: Any,
    labels: Any,
    weights: Operand | None = None,
    *,
    threshold: float,
    ignored_label: int | None = None,
    name: str | None = None,
) -> Metric:
    """The share of examples on the right side of a threshold, for two classes; see `mean`.

        value = mean((scores > threshold) == labels)

    Args:
        scores: number[...]. Logits or probabilities, one for each label.
        labels: number or bool[...]: 0 or 1. Another label never matches.
        weights: As for `mean`, one for each label.
        threshold: 0.0 for logits, 0.5 for probabilities; a score above it is of class 1.
        ignored_label: As for `accuracy`.
        name: The name of the metric.

    Raises:
        DTypeError: If the scores are bools.
        ShapeError: If the shapes of scores and labels differ.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     logits, y = br.data("logits", ["n"]), br.data("y", ["n"])
        ...     right = br.metrics.binary_accuracy(logits, y, threshold=0.0)
        >>> exe, feed = br.Executor(), {"logits": [-2.0, 3.0, 1.0, -1.0], "y": [0, 1, 1, 1]}
        >>> float(exe.run(prog, exe.init(prog), feed, right.value))
        0.75
    """
    kind = "binary_accuracy"
    left, right = check_same_shape(kind, scores=scores, labels=labels)
    if left.dtype == BOOL:
        raise DTypeError(
            f"{kind}: expected real scores, got {left.type}.",
            fix="Use br.metrics.mean(predictions == labels).",
        )
    predicted = left > threshold
    hits = ops.equal(ops.cast(predicted, right.dtype), right)
    return _share(kind, name, hits, right, weights, ignored_label)


@transactional
def top_k_accuracy(
    logits: Any,
    labels: Any,
    k: int,
    weights: Operand | None = None,
    *,
    ignored_label: int | None = None,
    name: str | None = None,
) -> Metric:
    """The share of examples whose label is among the `k` largest logits.

    Fewer than `k` logits are larger than that of the label. See `accuracy`.
    """
    logits = _scores("top_k_accuracy", logits, labels)
    if k < 1:
        raise ProgramError(
            f"top_k_accuracy: expected k of 1 or more, got {k!r}.", fix="Use k=1 or more."
        )
    label = ops.expand_dims(ops.cast(labels, "int64"), axis=-1)
    is_label = ops.equal(arange(logits.shape[-1]), label)
    label_score = ops.sum(ops.where(is_label, logits, 0), axis=-1, keepdims=True)
    larger = ops.logical_not(logits <= label_score)
    rank = ops.sum(ops.cast(larger, "int64"), axis=-1, keepdims=True)
    hits = ops.any(ops.logical_and(is_label, rank < k), axis=-1)
    return _share("top_k_accuracy", name, hits, labels, weights, ignored_label)


@transactional
def perplexity(
    logits: Any,
    labels: Any,
    weights: Operand | None = None,
    *,
    ignored_label: int | None = None,
    name: str | None = None,
) -> Metric:
    """Perplexity: the exponential of the mean cross-entropy.

        value = exp(mean(-log(softmax(logits)[label])))

    Args:
        logits: float[..., words].
        labels: integer[...].
        weights: As for `mean`, one for each label: a mask of non-padding positions, whose
            labels may be out of range.
        ignored_label: As for `accuracy`.
        name: The name of the metric.
    """
    logits = _scores("perplexity", logits, labels)
    weights = _without_ignored("perplexity", labels, weights, ignored_label)
    weight = weights_of("perplexity", labels, weights)
    safe_labels = ops.where(ops.equal(weight, 0.0), ops.zeros_like(labels), labels)
    loss = softmax_cross_entropy(logits, safe_labels, reduction="none")
    return mean_metric("perplexity", name, loss, weight, ops.exp, better="min")


def _share(
    kind: str,
    name: str | None,
    hits: Var,
    labels: Any,
    weights: Operand | None,
    ignored_label: int | None,
) -> Metric:
    """Return a metric: the share of hits among the examples that count."""
    weights = _without_ignored(kind, labels, weights, ignored_label)
    return mean_metric(kind, name, hits, weights, better="max")


def _without_ignored(
    kind: str, labels: Any, weights: Operand | None, ignored_label: int | None
) -> Operand | None:
    """Return the weights of examples, 0 for those of the ignored label."""
    if ignored_label is None:
        return weights
    counts = ops.not_equal(operand(labels, kind), ignored_label)
    return (
        counts if weights is None else ops.where(counts, weights_of(kind, counts, weights), 0)
    )


def _scores(kind: str, logits: Any, labels: Any) -> Var:
    """Check that logits have one label for each example."""
    logits, labels = operand(logits, kind), operand(labels, kind)
    if not is_integer(labels.dtype):
        raise DTypeError(
            f"{kind}: expected integer labels, got {labels.type}.", fix=_label_advice(kind)
        )
    types_text = f"{logits.name}: {logits.type}   {labels.name}: {labels.type}"
    if logits.ndim != labels.ndim + 1:
        raise ShapeError(
            f"{kind}: expected logits with one axis more than labels: the class axis.",
            given=types_text,
            fix=_label_advice(kind) if logits.ndim == labels.ndim else "",
        )
    if not all(map(same_size, logits.shape, labels.shape)):
        raise ShapeError(
            f"{kind}: expected one label for each example of the logits.",
            given=types_text,
        )
    return logits


def _label_advice(kind: str) -> str:
    """Return advice about labels that are not class numbers."""
    numbers = "Use br.argmax(labels, axis=-1) for one-hot labels"
    if kind != "accuracy":
        return f"{numbers}."
    return (
        f"{numbers}, or br.metrics.binary_accuracy(logits, labels, threshold=0.0) for two "
        "classes with one logit for each example."
    )


@transactional
def r2(
    prediction: Any, target: Any, weights: Operand | None = None, *, name: str | None = None
) -> Metric:
    """R2: the share of the variance of targets that is explained.

        value = 1 - sum((target - prediction)^2) / sum((target - mean(target))^2)

    The variance is computed from sums of targets and of their squares. It loses precision if
    the mean is much larger than the standard deviation.
    """
    predicted, true = check_same_shape("r2", prediction=prediction, target=target)
    weight = weights_of("r2", true, weights)
    predicted, true = zero_unweighted(predicted, weight), zero_unweighted(true, weight)
    sums = {
        "error": ops.sum(weight * ops.square(predicted - true)),
        "total": ops.sum(weight * true),
        "squares": ops.sum(weight * true * true),
        "count": ops.sum(weight),
    }

    def number(sums: Sums) -> Var:
        variance_sum = sums["squares"] - ops.square(sums["total"]) / sums["count"]
        return 1.0 - sums["error"] / variance_sum

    return accumulate_metric("r2", name, sums, number, "max")
