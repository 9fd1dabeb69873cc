"""Losses with a margin, and of vectors or regions beside others."""

from __future__ import annotations

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
    of_operators,
    shown_types,
)
from braces.ops.rules import axis_index, axis_indices

__all__ = [
    "cosine_embedding_loss",
    "dice_loss",
    "hinge_embedding_loss",
    "hinge_loss",
    "info_nce_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]

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
