"""Regression losses: differences, and likelihoods of distributions.

A loss is the mean over elements or examples; `reduction="none"` keeps the loss of each of them.
A loss of more than three operators is a plain block.
"""

from __future__ import annotations

import math

from braces.builder.append import emit
from braces.builder.var import Operand, Var
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import (
    Reduction,
    check_at_least,
    check_reduction,
    compose_loss,
    reduce_operator_loss,
    to_equal_shapes,
)
from braces.keywords import hint_keywords

__all__ = [
    "absolute_error",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div_loss",
    "log_cosh_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "squared_error",
]

# ---- differences -----------------------------------------------------------------------------


@hint_keywords
def squared_error(
    prediction: Operand, target: Operand, *, reduction: Reduction = "mean", name: str = ""
) -> Var:
    """The squared difference; its mean is the mean squared error.

        out = (prediction - target)^2

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the result.

    Raises:
        ShapeError: If the shapes differ.
    """
    return reduce_operator_loss(
        "squared_error", prediction, target, reduction=reduction, name=name
    )


@hint_keywords
def absolute_error(
    prediction: Operand, target: Operand, *, reduction: Reduction = "mean", name: str = ""
) -> Var:
    """The absolute difference; its mean is the mean absolute error.

        out = |prediction - target|

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the result.

    Raises:
        ShapeError: If the shapes differ.
    """
    return reduce_operator_loss(
        "absolute_error", prediction, target, reduction=reduction, name=name
    )


@hint_keywords
def huber_loss(
    prediction: Operand,
    target: Operand,
    delta: float = 1.0,
    *,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Huber loss: quadratic for small differences, linear for large ones.

        d = |prediction - target|
        out = d^2 / 2 where d <= delta, delta * (d - delta / 2) elsewhere

    Source: Huber, Robust Estimation of a Location Parameter, 1964.

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        delta: The difference from which it is linear.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the result.

    Raises:
        ShapeError: If the shapes differ.
    """
    return reduce_operator_loss(
        "huber_loss", prediction, target, delta=delta, reduction=reduction, name=name
    )


@transactional
def smooth_l1_loss(
    prediction: Operand,
    target: Operand,
    beta: float = 1.0,
    *,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Smooth L1 loss: the Huber loss divided by its threshold, with slope 1 in the tails.

        d = |prediction - target|
        out = d^2 / (2 * beta) where d <= beta, d - beta / 2 elsewhere

    Source: Girshick, Fast R-CNN, 2015.

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        beta: The difference from which it is linear; with 0 it is the absolute error.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the result.

    Raises:
        ShapeError: If the shapes differ.
        ProgramError: If `beta` is negative.
    """
    check_at_least("smooth_l1_loss", 0, beta=beta)
    check_reduction("smooth_l1_loss", reduction)
    if beta == 0:
        return absolute_error(prediction, target, reduction=reduction, name=name)
    huber = huber_loss(prediction, target, beta, reduction=reduction)
    return emit("divide", huber, beta, name=name)


@transactional
def log_cosh_loss(
    prediction: Operand, target: Operand, *, reduction: Reduction = "mean", name: str = ""
) -> Var:
    """Log-cosh loss of the difference: a smooth approximation of `huber_loss`.

        d = prediction - target
        out = log(cosh(d)) = |d| + log(1 + exp(-2 |d|)) - log(2)

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
    """
    x, y = to_equal_shapes("log_cosh_loss", prediction=prediction, target=target)

    def losses() -> Var:
        difference = ops.abs(x - y)
        return difference + ops.softplus(difference * -2.0) - math.log(2)

    return compose_loss("log_cosh_loss", reduction, name, losses)


# ---- distributions ---------------------------------------------------------------------------


@hint_keywords
def kl_div_loss(
    log_prediction: Operand,
    target: Operand,
    axis: int = -1,
    *,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Kullback-Leibler divergence of a prediction from a target, in nats.

        out[...] = sum_j target[..., j] * (log(target[..., j]) - log_prediction[..., j])

    A probability of 0 adds 0. The mean is over examples.

    Args:
        log_prediction: number[*shape]. Log-probabilities, such as results of br.log_softmax.
        target: number[*shape]. Probabilities.
        axis: The axis of classes.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the result.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    return reduce_operator_loss(
        "kl_divergence",
        log_prediction,
        target,
        axis=axis,
        reduction=reduction,
        name=name,
        function="kl_div_loss",
    )


@transactional
def poisson_nll_loss(
    prediction: Operand,
    target: Operand,
    *,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Negative log-likelihood of counts under a Poisson distribution.

        out = exp(prediction) - target * prediction             with log_input
        out = prediction - target * log(prediction + epsilon)   without

    Args:
        prediction: number[*shape]. The logarithm of the expected count, or that count.
        target: number[*shape]. The counts.
        log_input: Whether predictions are logarithms.
        full: Whether log(target!) is added for targets above 1, by Stirling's formula.
        epsilon: Keeps the logarithm finite.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
    """
    x, y = to_equal_shapes("poisson_nll_loss", prediction=prediction, target=target)

    def losses() -> Var:
        loss = ops.exp(x) - y * x if log_input else x - y * ops.log(x + epsilon)
        return loss + _stirling(y) if full else loss

    return compose_loss("poisson_nll_loss", reduction, name, losses)


def _stirling(y: Var) -> Var:
    """Return Stirling's approximation of log(y!), and 0 where `y` is at most 1."""
    count = ops.maximum(y, 1.0)
    approximation = count * ops.log(count) - count + 0.5 * ops.log(count * (2 * math.pi))
    return ops.where(y > 1.0, approximation, 0.0)


@transactional
def gaussian_nll_loss(
    prediction: Operand,
    target: Operand,
    var: Operand,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Negative log-likelihood under a normal distribution.

        v = max(var, epsilon)
        out = (log(v) + (prediction - target)^2 / v) / 2

    Args:
        prediction: number[*shape]. The expected value.
        target: number[*shape].
        var: number[*shape], or a single number.
        full: Whether log(2 pi) / 2 is added.
        epsilon: The smallest variance.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
    """
    x, y, v = to_equal_shapes(
        "gaussian_nll_loss", prediction=prediction, target=target, var=var
    )

    def losses() -> Var:
        bounded = ops.maximum(v, epsilon)
        loss = 0.5 * (ops.log(bounded) + ops.square(x - y) / bounded)
        return loss + 0.5 * math.log(2 * math.pi) if full else loss

    return compose_loss("gaussian_nll_loss", reduction, name, losses)
