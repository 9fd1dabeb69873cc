"""Margin losses and embedding (metric learning) losses."""

from __future__ import annotations

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.sequence_lengths import LOG_ZERO, widen_half
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import (
    Reduction,
    check_at_least,
    check_labels,
    compose_loss,
    format_types,
    to_common_float,
    to_equal_shapes,
)
from braces.ops.common.rules import axis_index

__all__ = [
    "circle_loss",
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "hinge_loss",
    "info_nce_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]

# ---- margins ---------------------------------------------------------------------------------


@transactional
def hinge_loss(
    prediction: Operand, target: Operand, *, reduction: Reduction = "mean", name: str = ""
) -> Var:
    """Hinge loss of two classes.

        out = max(0, 1 - target * prediction)

    Args:
        prediction: number[*shape].
        target: number[*shape]: 1 or -1.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
    """
    x, y = to_equal_shapes("hinge_loss", prediction=prediction, target=target)
    return compose_loss("hinge_loss", reduction, name, lambda: ops.relu(1.0 - y * x))


@transactional
def soft_margin_loss(
    prediction: Operand, target: Operand, *, reduction: Reduction = "mean", name: str = ""
) -> Var:
    """Logistic loss of two classes.

        out = log(1 + exp(-target * prediction))

    Args:
        prediction: number[*shape].
        target: number[*shape]: 1 or -1.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
    """
    x, y = to_equal_shapes("soft_margin_loss", prediction=prediction, target=target)
    return compose_loss("soft_margin_loss", reduction, name, lambda: ops.softplus(-(y * x)))


@transactional
def hinge_embedding_loss(
    distance: Operand,
    target: Operand,
    margin: float = 1.0,
    *,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Hinge embedding loss: distances of similar pairs, and a margin for dissimilar ones.

        out = distance where target is 1, max(0, margin - distance) elsewhere

    Args:
        distance: number[*shape].
        target: number[*shape]: 1 or -1.
        margin: The required distance of dissimilar pairs.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
    """
    x, y = to_equal_shapes("hinge_embedding_loss", distance=distance, target=target)
    return compose_loss(
        "hinge_embedding_loss",
        reduction,
        name,
        lambda: ops.where(y > 0.0, x, ops.relu(margin - x)),
    )


@transactional
def margin_ranking_loss(
    first: Operand,
    second: Operand,
    target: Operand,
    margin: float = 0.0,
    *,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Pairwise ranking loss with a margin.

        out = max(0, margin - target * (first - second))

    Args:
        first: number[*shape].
        second: number[*shape].
        target: number[*shape]: 1 if `first` should be larger, -1 if `second` should.
        margin: The required difference.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
    """
    x, z, y = to_equal_shapes("margin_ranking_loss", first=first, second=second, target=target)
    return compose_loss(
        "margin_ranking_loss", reduction, name, lambda: ops.relu(margin - y * (x - z))
    )


# ---- vectors ---------------------------------------------------------------------------------


@transactional
def cosine_embedding_loss(
    first: Operand,
    second: Operand,
    target: Operand,
    margin: float = 0.0,
    *,
    axis: int = -1,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Cosine embedding loss: cosine distance of similar pairs, a margin for dissimilar ones.

        out[...] = 1 - cos(first, second) where target is 1
        out[...] = max(0, cos(first, second) - margin) elsewhere

    Args:
        first: number[*shape].
        second: number[*shape].
        target: number[*shape without `axis`]: 1 or -1.
        margin: The largest cosine of dissimilar pairs without a loss.
        axis: The axis of the vectors.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    what = "cosine_embedding_loss"
    x, z = to_equal_shapes(what, first=first, second=second)
    sign = as_var(target)
    _check_examples(what, x, sign, axis)

    def losses() -> Var:
        cosine = emit("cosine_similarity", x, z, axis=axis)
        return ops.where(sign > 0, 1.0 - cosine, ops.relu(cosine - margin))

    return compose_loss(what, reduction, name, losses)


def _check_examples(what: str, x: Var, target: Var, axis: int) -> None:
    """Refuse targets unless there is one for each vector."""
    at = axis_index(axis, x.ndim, what)
    if target.ndim and target.shape != (*x.shape[:at], *x.shape[at + 1 :]):
        raise ShapeError(
            f"{what}: expected one target for each vector.",
            given=format_types({"first": x, "target": target}),
            fix=f"Pass a target with the shape of the vectors without axis {axis}.",
        )


@transactional
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
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Triplet loss: the anchor should be nearer to the positive than to the negative.

        d(x, y) = (sum_j |x[..., j] - y[..., j] + epsilon|^p)^(1/p)
        out[...] = max(0, d(anchor, positive) - d(anchor, negative) + margin)

    Source: Balntas et al., Learning shallow convolutional feature descriptors with triplet
    losses, 2016.

    Args:
        anchor: number[*shape].
        positive: number[*shape]. Vectors similar to the anchors.
        negative: number[*shape]. Vectors dissimilar to the anchors.
        margin: The required difference of distances.
        p: The order of the norm, 1 or more.
        epsilon: Keeps gradients finite if two vectors are equal.
        swap: Whether to use the distance from `positive` to `negative` if it is smaller.
        axis: The axis of the vectors.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
        ProgramError: If `p` is below 1.
    """
    what = "triplet_margin_loss"
    check_at_least(what, 1, p=p)
    x, near, far = to_equal_shapes(what, anchor=anchor, positive=positive, negative=negative)
    at = axis_index(axis, x.ndim, what)

    def distance(x: Var, y: Var) -> Var:
        difference = ops.abs(x - y + epsilon)
        if p == 2:
            return ops.norm(difference, axis=at)
        return ops.pow(ops.sum(ops.pow(difference, p), axis=at), 1.0 / p)

    def losses() -> Var:
        negative_distance = distance(x, far)
        negative_distance = (
            ops.minimum(negative_distance, distance(near, far)) if swap else negative_distance
        )
        return ops.relu(distance(x, near) - negative_distance + margin)

    return compose_loss(what, reduction, name, losses)


@transactional
def info_nce_loss(
    query: Operand,
    key: Operand,
    negatives: Operand | None = None,
    *,
    temperature: float = 0.1,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """InfoNCE contrastive loss: identify the key of each query among other keys.

        s[i, j] = cos(query[i], key[j]) / temperature
        out[i] = log(sum_j exp(s[i, j])) - s[i, i]

    The other keys are those of the other rows; or `negatives`, if given. Source: van den Oord,
    Li, Vinyals, Representation Learning with Contrastive Predictive Coding, 2018.

    Args:
        query: number[rows, size].
        key: number[rows, size]. The positive key of each query.
        negatives: number[others, size]. Negative keys, shared by all queries.
        temperature: The divisor of the cosines; above 0.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ, or the operands are not matrices.
        ProgramError: If the temperature is not above 0.
    """
    what = "info_nce_loss"
    _check_positive(what, temperature=temperature)
    x, k = to_equal_shapes(what, query=query, key=key)
    others = (
        None if negatives is None else to_common_float(what, negatives=as_var(negatives))[0]
    )
    _check_rows(what, query=x, **({} if others is None else {"negatives": others}))

    def losses() -> Var:
        queries, keys = ops.l2_normalize(x), ops.l2_normalize(k)
        if others is None:
            scores = ops.matmul(queries, ops.matrix_transpose(keys)) / temperature
            own = ops.sum(queries * keys, axis=1) / temperature
            return ops.logsumexp(scores, axis=1) - own
        own = ops.sum(queries * keys, axis=1, keepdims=True)
        negative_scores = ops.matmul(queries, ops.matrix_transpose(ops.l2_normalize(others)))
        scores = ops.concat([own, negative_scores], axis=1) / temperature
        return ops.logsumexp(scores, axis=1) - ops.squeeze(own, axis=1) / temperature

    return compose_loss(what, reduction, name, losses)


@transactional
def circle_loss(
    embeddings: Operand,
    labels: Operand,
    *,
    scale: float = 80.0,
    margin: float = 0.4,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Circle loss: similarity within classes, dissimilarity between classes.

        s[i, j] = cos(embeddings[i], embeddings[j])
        a = max(0, 1 + margin - s)   b = max(0, margin + s)
        out[i] = softplus(logsumexp_n(scale * b[i, n] * (s[i, n] - margin))
                          + logsumexp_p(scale * a[i, p] * (1 - margin - s[i, p])))

    p runs over the other rows with the label of row i, n over the rows with other labels; a row
    without p or n has no loss. No gradient goes through a and b. Source: Sun et al., Circle
    Loss, 2020.

    Args:
        embeddings: number[rows, size].
        labels: integer[rows]: the class of each.
        scale: The factor of the similarities; above 0.
        margin: The relaxation margin: similarities should be within it of 1 and of 0.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the embeddings are not a matrix, or the number of labels differs from the
            number of rows.
        DTypeError: If labels are not integers.
        ProgramError: If the scale is not above 0.
    """
    what = "circle_loss"
    x, classes = (
        widen_half(to_common_float(what, embeddings=as_var(embeddings))[0]),
        as_var(labels),
    )
    _check_rows(what, embeddings=x)
    check_labels(what, x, classes, 1)
    _check_positive(what, scale=scale)

    def losses() -> Var:
        unit = ops.l2_normalize(x)
        similarity = ops.matmul(unit, ops.matrix_transpose(unit))
        fixed = ops.stop_gradient(similarity)
        pull = ops.relu(1.0 + margin - fixed) * (1.0 - margin - similarity) * scale
        push = ops.relu(fixed + margin) * (similarity - margin) * scale
        same_class = ops.equal(ops.expand_dims(classes, axis=1), classes)
        rows = emit("arange", stop=x.shape[0])
        others = ops.not_equal(ops.expand_dims(rows, axis=1), rows)
        positive_terms = ops.where(ops.logical_and(same_class, others), pull, LOG_ZERO)
        negative_terms = ops.where(same_class, LOG_ZERO, push)
        return ops.softplus(
            ops.logsumexp(positive_terms, axis=1) + ops.logsumexp(negative_terms, axis=1)
        )

    return compose_loss(what, reduction, name, losses)


def _check_positive(what: str, **given: float) -> None:
    """Refuse options that are not positive."""
    for role, number in given.items():
        if not number > 0:
            raise ProgramError(f"{what}: expected {role} above 0, got {number!r:.40}.")


def _check_rows(what: str, **given: Var) -> None:
    """Refuse operands that are not rows of vectors of equal size."""
    size = next(iter(given.values())).shape[-1:]
    if any(var.ndim != 2 or var.shape[1:] != size for var in given.values()):
        raise ShapeError(
            f"{what}: expected arrays [rows, size] of equal size.",
            given=format_types(given),
            fix="Use br.reshape to get two axes, with the vectors along the last.",
        )
