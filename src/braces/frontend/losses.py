"""Losses of predictions beside targets, and of vectors beside vectors.

A loss has a number for each element or example; `reduction="mean"` or `"sum"` makes one of
them. What is made of more than three operators is a plain block.
"""

from __future__ import annotations

import math

from braces.builder.append import as_var, one
from braces.builder.var import Operand, Var
from braces.define.decorator import Axes
from braces.errors import ProgramError, ShapeError
from braces.frontend import functions as ops
from braces.frontend.guard import building
from braces.frontend.reducing import (
    Reduction,
    alike,
    check_at_least,
    in_floats,
    of_operator,
    of_operators,
    shown_types,
)
from braces.ops.rules import axis_index, axis_indices

__all__ = [
    "absolute_error",
    "cosine_embedding_loss",
    "dice_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "hinge_loss",
    "huber_loss",
    "info_nce_loss",
    "kl_divergence",
    "log_cosh_loss",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "squared_error",
    "triplet_margin_loss",
]

# ---- differences -----------------------------------------------------------------------------


def squared_error(
    prediction: Operand, target: Operand, *, reduction: Reduction = "none", name: str = ""
) -> Var:
    """The squared difference; its mean is the mean squared error.

        out = (prediction - target)^2

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the result.

    Raises:
        ShapeError: The shapes differ.
    """
    return of_operator("squared_error", prediction, target, reduction=reduction, name=name)


def absolute_error(
    prediction: Operand, target: Operand, *, reduction: Reduction = "none", name: str = ""
) -> Var:
    """The absolute difference; its mean is the mean absolute error.

        out = |prediction - target|

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the result.

    Raises:
        ShapeError: The shapes differ.
    """
    return of_operator("absolute_error", prediction, target, reduction=reduction, name=name)


def huber_loss(
    prediction: Operand,
    target: Operand,
    delta: float = 1.0,
    *,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """Half the squared difference where that is small, linear where it is large.

        d = |prediction - target|
        out = d^2 / 2 where d <= delta, delta * (d - delta / 2) elsewhere

    Source: Huber, Robust Estimation of a Location Parameter, 1964.

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        delta: Where it turns linear.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the result.

    Raises:
        ShapeError: The shapes differ.
    """
    return of_operator(
        "huber_loss", prediction, target, delta=delta, reduction=reduction, name=name
    )


@building
def smooth_l1_loss(
    prediction: Operand,
    target: Operand,
    beta: float = 1.0,
    *,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The Huber loss over its bound: the slope far away is 1.

        d = |prediction - target|
        out = d^2 / (2 * beta) where d <= beta, d - beta / 2 elsewhere

    Source: Girshick, Fast R-CNN, 2015.

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        beta: Where it turns linear; with 0 it is the absolute error.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the result.

    Raises:
        ShapeError: The shapes differ.
        ProgramError: `beta` is negative.
    """
    check_at_least("smooth_l1_loss", 0, beta=beta)
    if beta == 0:
        return absolute_error(prediction, target, reduction=reduction, name=name)
    found = huber_loss(prediction, target, beta, reduction=reduction)
    return one("divide", found, beta, name=name)


@building
def log_cosh_loss(
    prediction: Operand, target: Operand, *, reduction: Reduction = "none", name: str = ""
) -> Var:
    """The logarithm of the hyperbolic cosine of the difference: nearly `huber_loss`, smooth.

        d = prediction - target
        out = log(cosh(d)) = |d| + log(1 + exp(-2 |d|)) - log(2)

    Args:
        prediction: number[*shape].
        target: number[*shape], or a single number.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
    """
    x, y = alike("log_cosh_loss", prediction=prediction, target=target)

    def losses() -> Var:
        apart = ops.abs(x - y)
        return apart + ops.softplus(apart * -2.0) - math.log(2)

    return of_operators("log_cosh_loss", reduction, name, losses)


# ---- distributions ---------------------------------------------------------------------------


def kl_divergence(
    log_prediction: Operand,
    target: Operand,
    axis: int = -1,
    *,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The Kullback-Leibler divergence of a prediction from a target, in nats.

        out[...] = sum_j target[..., j] * (log(target[..., j]) - log_prediction[..., j])

    A probability of 0 adds 0. The mean is that over examples.

    Args:
        log_prediction: number[*shape]. Logarithms of probabilities, as br.log_softmax gives.
        target: number[*shape]. Probabilities.
        axis: The axis of classes.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the result.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    return of_operator(
        "kl_divergence", log_prediction, target, axis=axis, reduction=reduction, name=name
    )


@building
def poisson_nll_loss(
    prediction: Operand,
    target: Operand,
    *,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The negative logarithm of the likelihood of counts, which follow Poisson's law.

        out = exp(prediction) - target * prediction             with log_input
        out = prediction - target * log(prediction + epsilon)   without

    Args:
        prediction: number[*shape]. The logarithm of the expected count, or that count.
        target: number[*shape]. The counts.
        log_input: Whether predictions are logarithms.
        full: Whether log(target!) is added for targets above 1, by Stirling's formula.
        epsilon: Keeps the logarithm finite.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
    """
    x, y = alike("poisson_nll_loss", prediction=prediction, target=target)

    def losses() -> Var:
        found = ops.exp(x) - y * x if log_input else x - y * ops.log(x + epsilon)
        return found + _stirling(y) if full else found

    return of_operators("poisson_nll_loss", reduction, name, losses)


def _stirling(y: Var) -> Var:
    """Nearly log(y!), and 0 where `y` is at most 1."""
    count = ops.maximum(y, 1.0)
    found = count * ops.log(count) - count + 0.5 * ops.log(count * (2 * math.pi))
    return ops.where(y > 1.0, found, 0.0)


@building
def gaussian_nll_loss(
    prediction: Operand,
    target: Operand,
    variance: Operand,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The negative logarithm of the likelihood of a normal distribution.

        v = max(variance, epsilon)
        out = (log(v) + (prediction - target)^2 / v) / 2

    Args:
        prediction: number[*shape]. The expected value.
        target: number[*shape].
        variance: number[*shape], or a single number.
        full: Whether log(2 pi) / 2 is added.
        epsilon: The smallest variance.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
    """
    x, y, v = alike(
        "gaussian_nll_loss", prediction=prediction, target=target, variance=variance
    )

    def losses() -> Var:
        bounded = ops.maximum(v, epsilon)
        found = 0.5 * (ops.log(bounded) + ops.square(x - y) / bounded)
        return found + 0.5 * math.log(2 * math.pi) if full else found

    return of_operators("gaussian_nll_loss", reduction, name, losses)


# ---- margins ---------------------------------------------------------------------------------


@building
def hinge_loss(
    prediction: Operand, target: Operand, *, reduction: Reduction = "none", name: str = ""
) -> Var:
    """How far predictions lack of 1 on the right side.

        out = max(0, 1 - target * prediction)

    Args:
        prediction: number[*shape].
        target: number[*shape]: 1 or -1.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
    """
    x, y = alike("hinge_loss", prediction=prediction, target=target)
    return of_operators("hinge_loss", reduction, name, lambda: ops.relu(1.0 - y * x))


@building
def soft_margin_loss(
    prediction: Operand, target: Operand, *, reduction: Reduction = "none", name: str = ""
) -> Var:
    """The logistic loss of two classes.

        out = log(1 + exp(-target * prediction))

    Args:
        prediction: number[*shape].
        target: number[*shape]: 1 or -1.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
    """
    x, y = alike("soft_margin_loss", prediction=prediction, target=target)
    return of_operators("soft_margin_loss", reduction, name, lambda: ops.softplus(-(y * x)))


@building
def hinge_embedding_loss(
    distance: Operand,
    target: Operand,
    margin: float = 1.0,
    *,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """Distances of what is alike, and how far others lack of a margin.

        out = distance where target is 1, max(0, margin - distance) elsewhere

    Args:
        distance: number[*shape].
        target: number[*shape]: 1 or -1.
        margin: How far apart what differs is to be.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
    """
    x, y = alike("hinge_embedding_loss", distance=distance, target=target)
    return of_operators(
        "hinge_embedding_loss",
        reduction,
        name,
        lambda: ops.where(y > 0.0, x, ops.relu(margin - x)),
    )


@building
def margin_ranking_loss(
    first: Operand,
    second: Operand,
    target: Operand,
    margin: float = 0.0,
    *,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """How far of two numbers the one that is to be larger is not.

        out = max(0, margin - target * (first - second))

    Args:
        first: number[*shape].
        second: number[*shape].
        target: number[*shape]: 1 where `first` is to be larger, -1 where `second` is.
        margin: By how much.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: The shapes differ.
    """
    x, z, y = alike("margin_ranking_loss", first=first, second=second, target=target)
    return of_operators(
        "margin_ranking_loss", reduction, name, lambda: ops.relu(margin - y * (x - z))
    )


# ---- vectors ---------------------------------------------------------------------------------


@building
def cosine_embedding_loss(
    first: Operand,
    second: Operand,
    target: Operand,
    margin: float = 0.0,
    *,
    axis: int = -1,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The cosine distance of what is alike, and how far others are above a margin.

        out[...] = 1 - cos(first, second) where target is 1
        out[...] = max(0, cos(first, second) - margin) elsewhere

    Args:
        first: number[*shape].
        second: number[*shape].
        target: number[*shape without `axis`]: 1 or -1.
        margin: The largest cosine of what differs that is no loss.
        axis: The axis along which vectors lie.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    what = "cosine_embedding_loss"
    x, z = alike(what, first=first, second=second)
    sign = as_var(target)
    _check_examples(what, x, sign, axis)

    def losses() -> Var:
        cosine = one("cosine_similarity", x, z, axis=axis)
        return ops.where(sign > 0, 1.0 - cosine, ops.relu(cosine - margin))

    return of_operators(what, reduction, name, losses)


def _check_examples(what: str, x: Var, target: Var, axis: int) -> None:
    """Refuse targets that are not one for each vector."""
    at = axis_index(axis, x.ndim, what)
    if target.ndim and target.shape != (*x.shape[:at], *x.shape[at + 1 :]):
        raise ShapeError(
            f"{what} needs a target for each vector.",
            given=shown_types({"first": x, "target": target}),
            fix=f"A target has the shape of the vectors without axis {axis}.",
        )


@building
def triplet_margin_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    margin: float = 1.0,
    *,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    axis: int = -1,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """How far an anchor is not nearer to what is alike than to what differs.

        d(x, y) = (sum_j |x[..., j] - y[..., j] + epsilon|^p)^(1/p)
        out[...] = max(0, d(anchor, positive) - d(anchor, negative) + margin)

    Source: Balntas et al., Learning shallow convolutional feature descriptors with triplet
    losses, 2016.

    Args:
        anchor: number[*shape].
        positive: number[*shape]. What is alike.
        negative: number[*shape]. What differs.
        margin: By how much it is to be nearer.
        p: The power of the distance, 1 or more.
        epsilon: Keeps gradients finite where two are equal.
        swap: Whether the distance of `positive` and `negative` counts where it is smaller.
        axis: The axis along which vectors lie.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
        ProgramError: `p` is below 1.
    """
    what = "triplet_margin_loss"
    check_at_least(what, 1, p=p)
    x, near, far = alike(what, anchor=anchor, positive=positive, negative=negative)
    at = axis_index(axis, x.ndim, what)

    def distance(x: Var, y: Var) -> Var:
        apart = ops.abs(x - y + epsilon)
        if p == 2:
            return ops.norm(apart, axis=at)
        return ops.pow(ops.sum(ops.pow(apart, p), axis=at), 1.0 / p)

    def losses() -> Var:
        apart = distance(x, far)
        apart = ops.minimum(apart, distance(near, far)) if swap else apart
        return ops.relu(distance(x, near) - apart + margin)

    return of_operators(what, reduction, name, losses)


@building
def info_nce_loss(
    query: Operand,
    key: Operand,
    negatives: Operand | None = None,
    *,
    temperature: float = 0.1,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """How well each query tells its key from others: the contrastive loss.

        s[i, j] = cos(query[i], key[j]) / temperature
        out[i] = log(sum_j exp(s[i, j])) - s[i, i]

    The others are the keys of the other rows; or `negatives` beside its own key. Source: van
    den Oord, Li, Vinyals, Representation Learning with Contrastive Predictive Coding, 2018.

    Args:
        query: number[rows, size].
        key: number[rows, size]. The one that belongs to each query.
        negatives: number[others, size]. What belongs to none.
        temperature: By which cosines are divided; above 0.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or are no rows of vectors.
        ProgramError: The temperature is not above 0.
    """
    what = "info_nce_loss"
    if not temperature > 0:
        raise ProgramError(f"{what} needs a temperature above 0, not {temperature!r:.40}.")
    x, k = alike(what, query=query, key=key)
    others = None if negatives is None else in_floats(what, negatives=as_var(negatives))[0]
    shapes = {"query": x} if others is None else {"query": x, "negatives": others}
    if any(var.ndim != 2 or var.shape[1] != x.shape[1] for var in shapes.values()):
        raise ShapeError(
            f"{what} takes rows of vectors of one size.",
            given=shown_types(shapes),
            fix="Vectors lie along the last of two axes.",
        )

    def losses() -> Var:
        found, keys = ops.l2_normalize(x), ops.l2_normalize(k)
        if others is None:
            scores = ops.matmul(found, ops.matrix_transpose(keys)) / temperature
            own = ops.sum(found * keys, axis=1) / temperature
            return ops.logsumexp(scores, axis=1) - own
        own = ops.sum(found * keys, axis=1, keepdims=True)
        apart = ops.matmul(found, ops.matrix_transpose(ops.l2_normalize(others)))
        scores = ops.concat([own, apart], axis=1) / temperature
        return ops.logsumexp(scores, axis=1) - ops.squeeze(own, axis=1) / temperature

    return of_operators(what, reduction, name, losses)


@building
def dice_loss(
    prediction: Operand,
    target: Operand,
    *,
    axis: Axes = (),
    smooth: float = 1.0,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """How little two regions overlap, which are given by probabilities.

        out = 1 - (2 * sum(prediction * target) + smooth)
                  / (sum(prediction) + sum(target) + smooth)

    Source: Milletari, Navab, Ahmadi, V-Net, 2016; here with sums of probabilities.

    Args:
        prediction: number[*shape], between 0 and 1.
        target: number[*shape], between 0 and 1.
        axis: The axes that sums are over; `None` is all of them, and where none is named all
            but the first, so that there is a loss for each example.
        smooth: Keeps the quotient finite where nothing is predicted and nothing there.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    x, y = alike("dice_loss", prediction=prediction, target=target)
    said = axis if axis != () else tuple(range(1, x.ndim))
    over = axis_indices(said, x.ndim, "dice_loss")

    def losses() -> Var:
        shared = ops.sum(x * y, axis=over)
        whole = ops.sum(x, axis=over) + ops.sum(y, axis=over)
        return 1.0 - (2.0 * shared + smooth) / (whole + smooth)

    return of_operators("dice_loss", reduction, name, losses)
