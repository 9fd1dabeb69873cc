"""Losses of classes that each are there or not."""

from __future__ import annotations

from typing import Any

from braces.builder.append import as_var, one
from braces.builder.var import Operand, Var
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.losses.classification import check_smoothing, class_weights_of
from braces.frontend.losses.reduction import (
    Reduction,
    alike,
    along_axis,
    check_at_least,
    of_operator,
    of_operators,
)
from braces.ops.common.rules import axis_index

__all__ = [
    "focal_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "sigmoid_binary_cross_entropy",
]


@building
def sigmoid_binary_cross_entropy(
    logits: Operand,
    target: Operand,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    positive_weight: Operand | None = None,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The cross-entropy of sigmoid(logits) with target probabilities, in nats.

        out = -target * log(sigmoid(logits)) - (1 - target) * log(1 - sigmoid(logits))
            = max(logits, 0) - logits * target + log(1 + exp(-|logits|))

    Args:
        logits: number[*shape].
        target: number[*shape], or a single number; between 0 and 1.
        label_smoothing: The share of the target that is brought to one half.
        class_weights: number[size of the last axis], or a single number: how much each counts.
        positive_weight: Likewise, of the first term of the formula alone: how much more it
            counts that something is there.
        reduction: `"none"`, `"mean"` or `"sum"`. The mean is over all elements.
        name: For the result, or the block.

    Raises:
        ShapeError: The shapes differ.
        ProgramError: Smoothing is not between 0 and 1.
    """
    what = "sigmoid_binary_cross_entropy"
    check_smoothing(what, label_smoothing)
    if class_weights is None and positive_weight is None and not label_smoothing:
        return of_operator(what, logits, target, reduction=reduction, name=name)
    x, y = alike(what, logits=logits, target=target)
    weights = _last_weights(what, x, class_weights)
    more = _last_weights(what, x, positive_weight)

    def losses() -> Var:
        wanted = _smoothed(y, label_smoothing)
        found = one(what, x, wanted)
        if more is not None:
            found = found + (more - 1.0) * wanted * ops.softplus(-x)
        return found if weights is None else found * weights

    return of_operators(what, reduction, name, losses)


def _smoothed(target: Var, smoothing: float) -> Var:
    """Targets, of which a share is brought to one half."""
    return target * (1.0 - smoothing) + 0.5 * smoothing if smoothing else target


def _last_weights(what: str, x: Var, weights: Any) -> Var | None:
    """Weights along the last axis, or a single one."""
    if weights is None:
        return None
    given = as_var(weights)
    if not given.ndim:
        return ops.cast(given, x.dtype)
    return class_weights_of(what, x, axis_index(-1, x.ndim, what), given)


@building
def multilabel_soft_margin_loss(
    logits: Operand,
    target: Operand,
    axis: int = -1,
    *,
    class_weights: Operand | None = None,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The mean over classes of their binary cross-entropies.

        out[...] = mean_j(w[j] * sigmoid_binary_cross_entropy(logits, target)[..., j])

    Args:
        logits: number[*shape].
        target: number[*shape]: 1 for each class that is there, else 0.
        axis: The axis of classes.
        class_weights: number[classes]. How much each class counts.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    what = "multilabel_soft_margin_loss"
    x, y = alike(what, logits=logits, target=target)
    at = axis_index(axis, x.ndim, what)
    weights = class_weights_of(what, x, at, class_weights)

    def losses() -> Var:
        found = one("sigmoid_binary_cross_entropy", x, y)
        found = found if weights is None else found * along_axis(weights, at, x.ndim)
        return ops.mean(found, axis=at)

    return of_operators(what, reduction, name, losses)


@building
def multilabel_margin_loss(
    prediction: Operand,
    target: Operand,
    axis: int = -1,
    *,
    margin: float = 1.0,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """How far classes that are not there are not below each that is.

        out[...] = sum_(j there) sum_(i not) max(0, margin - x[..., j] + x[..., i]) / classes

    with x the prediction.

    Args:
        prediction: number[*shape].
        target: number[*shape]: 1 for each class that is there, else 0.
        axis: The axis of classes.
        margin: By how much others are to be below.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    what = "multilabel_margin_loss"
    x, y = alike(what, prediction=prediction, target=target)
    at = axis_index(axis, x.ndim, what)

    def losses() -> Var:
        own, other = ops.expand_dims(x, axis=at + 1), ops.expand_dims(x, axis=at)
        there, absent = ops.expand_dims(y > 0, axis=at + 1), ops.expand_dims(y <= 0, axis=at)
        counts = ops.logical_and(there, absent)
        lacking = ops.where(counts, ops.relu(margin - own + other), 0.0)
        return ops.mean(ops.sum(lacking, axis=at), axis=at)

    return of_operators(what, reduction, name, losses)


@building
def focal_loss(
    logits: Operand,
    target: Operand,
    *,
    alpha: float | None = 0.25,
    gamma: float = 2.0,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The binary cross-entropy in which what is predicted well counts little.

        q = target * (1 - p) + (1 - target) * p        with p = sigmoid(logits)
        a = target * alpha + (1 - target) * (1 - alpha)
        out = a * q^gamma * sigmoid_binary_cross_entropy(logits, target)

    Source: Lin et al., Focal Loss for Dense Object Detection, 2017.

    Args:
        logits: number[*shape].
        target: number[*shape], or a single number; between 0 and 1.
        alpha: The weight of what is there, beside 1 - alpha of what is not; `None` for 1.
        gamma: How much less what is predicted well counts; 0 or more.
        label_smoothing: The share of the target that is brought to one half.
        reduction: `"none"`, `"mean"` or `"sum"`. The mean is over all elements.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
        ProgramError: `gamma` is negative, or smoothing is not between 0 and 1.
    """
    what = "focal_loss"
    check_at_least(what, 0, gamma=gamma)
    check_smoothing(what, label_smoothing)
    x, y = alike(what, logits=logits, target=target)

    def losses() -> Var:
        wanted = _smoothed(y, label_smoothing)
        found = one("sigmoid_binary_cross_entropy", x, wanted)
        if gamma:
            missed = wanted * ops.sigmoid(-x) + (1.0 - wanted) * ops.sigmoid(x)
            found = found * ops.pow(missed, gamma)
        if alpha is None:
            return found
        return found * (wanted * alpha + (1.0 - wanted) * (1.0 - alpha))

    return of_operators(what, reduction, name, losses)
