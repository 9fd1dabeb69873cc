"""Binary and multilabel classification losses."""

from __future__ import annotations

from typing import Any

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.classification import check_smoothing, class_weights_of
from braces.frontend.losses.reduction import (
    Reduction,
    broadcast_along,
    check_at_least,
    compose_loss,
    reduce_operator_loss,
    to_equal_shapes,
)
from braces.ops.common.rules import axis_index

__all__ = [
    "focal_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "sigmoid_binary_cross_entropy",
]


@transactional
def sigmoid_binary_cross_entropy(
    logits: Operand,
    target: Operand,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    positive_weight: Operand | None = None,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Binary cross-entropy of sigmoid(logits) with target probabilities, in nats.

        out = -target * log(sigmoid(logits)) - (1 - target) * log(1 - sigmoid(logits))
            = max(logits, 0) - logits * target + log(1 + exp(-|logits|))

    Args:
        logits: number[*shape].
        target: number[*shape], or a single number; between 0 and 1.
        label_smoothing: The fraction of the target that is replaced by one half.
        class_weights: number[size of the last axis], or a single number: weights of classes.
        positive_weight: As `class_weights`, for the first term of the formula only: the weight
            of positive examples.
        reduction: `"mean"`, `"sum"` or `"none"`. The mean is over all elements.
        name: For the result, or the block.

    Raises:
        ShapeError: If the shapes differ.
        ProgramError: If `label_smoothing` is not between 0 and 1.
    """
    what = "sigmoid_binary_cross_entropy"
    check_smoothing(what, label_smoothing)
    if class_weights is None and positive_weight is None and not label_smoothing:
        return reduce_operator_loss(what, logits, target, reduction=reduction, name=name)
    x, y = to_equal_shapes(what, logits=logits, target=target)
    weights = _last_weights(what, x, class_weights)
    positive_weights = _last_weights(what, x, positive_weight)

    def losses() -> Var:
        smoothed_target = _smoothed(y, label_smoothing)
        loss = emit(what, x, smoothed_target)
        if positive_weights is not None:
            loss = loss + (positive_weights - 1.0) * smoothed_target * ops.softplus(-x)
        return loss if weights is None else loss * weights

    return compose_loss(what, reduction, name, losses)


def _smoothed(target: Var, smoothing: float) -> Var:
    """Apply label smoothing: replace a fraction of the targets by one half."""
    return target * (1.0 - smoothing) + 0.5 * smoothing if smoothing else target


def _last_weights(what: str, x: Var, weights: Any) -> Var | None:
    """Convert weights along the last axis, or a single weight."""
    if weights is None:
        return None
    weight_var = as_var(weights)
    if not weight_var.ndim:
        return ops.cast(weight_var, x.dtype)
    return class_weights_of(what, x, axis_index(-1, x.ndim, what), weight_var)


@transactional
def multilabel_soft_margin_loss(
    logits: Operand,
    target: Operand,
    axis: int = -1,
    *,
    class_weights: Operand | None = None,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Multilabel loss: the mean over classes of binary cross-entropies.

        out[...] = mean_j(w[j] * sigmoid_binary_cross_entropy(logits, target)[..., j])

    Args:
        logits: number[*shape].
        target: number[*shape]: 1 for each class that is present, else 0.
        axis: The axis of classes.
        class_weights: number[classes]. The weight of each class.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    what = "multilabel_soft_margin_loss"
    x, y = to_equal_shapes(what, logits=logits, target=target)
    at = axis_index(axis, x.ndim, what)
    weights = class_weights_of(what, x, at, class_weights)

    def losses() -> Var:
        loss = emit("sigmoid_binary_cross_entropy", x, y)
        loss = loss if weights is None else loss * broadcast_along(weights, at, x.ndim)
        return ops.mean(loss, axis=at)

    return compose_loss(what, reduction, name, losses)


@transactional
def multilabel_margin_loss(
    prediction: Operand,
    target: Operand,
    axis: int = -1,
    *,
    margin: float = 1.0,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Multilabel hinge loss between each present class and each absent class.

        out[...] = sum_(j there) sum_(i not) max(0, margin - x[..., j] + x[..., i]) / classes

    with x the prediction.

    Args:
        prediction: number[*shape].
        target: number[*shape]: 1 for each class that is present, else 0.
        axis: The axis of classes.
        margin: The required difference between present and absent classes.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    what = "multilabel_margin_loss"
    x, y = to_equal_shapes(what, prediction=prediction, target=target)
    at = axis_index(axis, x.ndim, what)

    def losses() -> Var:
        own, other = ops.expand_dims(x, axis=at + 1), ops.expand_dims(x, axis=at)
        present, absent = ops.expand_dims(y > 0, axis=at + 1), ops.expand_dims(y <= 0, axis=at)
        counts = ops.logical_and(present, absent)
        hinge = ops.where(counts, ops.relu(margin - own + other), 0.0)
        return ops.mean(ops.sum(hinge, axis=at), axis=at)

    return compose_loss(what, reduction, name, losses)


@transactional
def focal_loss(
    logits: Operand,
    target: Operand,
    *,
    alpha: float | None = 0.25,
    gamma: float = 2.0,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Focal loss: binary cross-entropy that down-weights well-classified examples.

        q = target * (1 - p) + (1 - target) * p        with p = sigmoid(logits)
        a = target * alpha + (1 - target) * (1 - alpha)
        out = a * q^gamma * sigmoid_binary_cross_entropy(logits, target)

    Source: Lin et al., Focal Loss for Dense Object Detection, 2017.

    Args:
        logits: number[*shape].
        target: number[*shape], or a single number; between 0 and 1.
        alpha: The weight of positives; negatives have 1 - alpha. `None` gives all weight 1.
        gamma: The focusing exponent for well-classified examples; 0 or more.
        label_smoothing: The fraction of the target that is replaced by one half.
        reduction: `"mean"`, `"sum"` or `"none"`. The mean is over all elements.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
        ProgramError: If `gamma` is negative, or `label_smoothing` is not between 0 and 1.
    """
    what = "focal_loss"
    check_at_least(what, 0, gamma=gamma)
    check_smoothing(what, label_smoothing)
    x, y = to_equal_shapes(what, logits=logits, target=target)

    def losses() -> Var:
        smoothed_target = _smoothed(y, label_smoothing)
        loss = emit("sigmoid_binary_cross_entropy", x, smoothed_target)
        if gamma:
            missed = smoothed_target * ops.sigmoid(-x) + (1.0 - smoothed_target) * ops.sigmoid(
                x
            )
            loss = loss * ops.pow(missed, gamma)
        if alpha is None:
            return loss
        return loss * (smoothed_target * alpha + (1.0 - smoothed_target) * (1.0 - alpha))

    return compose_loss(what, reduction, name, losses)
