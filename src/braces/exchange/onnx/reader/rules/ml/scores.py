"""Post-transforms of regressors and classifiers: probabilities and class labels.

Cases that ONNX leaves open follow ONNX Runtime, against which such models were tested when they
were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

import numpy as np

from braces.exchange.common.rules.elementwise import number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import OnnxNode
from braces.extend import functions as ops
from braces.extend.building import Var

NOTHING = 1e-7
"""The largest absolute score that SOFTMAX_ZERO treats as zero."""


def softmax_zero(scores: Var) -> Var:
    """A softmax of the nonzero scores; zeros stay."""
    nonzero = ops.abs(scores) > NOTHING
    best = ops.max(scores, axis=-1, keepdims=True)
    exponentials = ops.where(nonzero, ops.exp(scores - best), ops.zeros_like(scores))
    total = ops.sum(exponentials, axis=-1, keepdims=True)
    return exponentials / ops.where(total > 0, total, ops.ones_like(total))


def probit(scores: Var) -> Var:
    """The inverse of the normal distribution function."""
    return sqrt(2.0) * ops.erfinv(2.0 * scores - 1.0)


TRANSFORMS: Mapping[str, Callable[[Var], Var]] = {
    "NONE": lambda scores: scores,
    "SOFTMAX": lambda scores: ops.softmax(scores, axis=-1),
    "LOGISTIC": ops.sigmoid,
    "SOFTMAX_ZERO": softmax_zero,
    "PROBIT": probit,
}
"""The transforms by name, in the order of their codes."""


def transform_of(node: OnnxNode) -> str:
    """Return the name of a node's post-transform, which it gives by name or code."""
    transform, names = node.attr("post_transform", "NONE"), list(TRANSFORMS)
    if isinstance(transform, int) and 0 <= transform < len(names):
        return names[transform]
    if transform not in names:
        node.refuse(f"unknown post_transform `{transform:.80}`")
    return str(transform)


def apply_post_transform(node: OnnxNode, scores: Var) -> Var:
    """Apply the post-transform of a node to a row of scores for each example."""
    transform = transform_of(node)
    if scores.shape[-1] == 1 and transform != "PROBIT":  # a single score has no other transform
        return scores
    return TRANSFORMS[transform](scores)


def labels_of(node: OnnxNode, name: str) -> Array:
    """Return the integer labels of classes.

    Raises:
        ProgramError: If the labels are strings, or fewer than two.
    """
    if node.attr("classlabels_strings"):
        node.refuse(
            "unsupported string labels",
            "Export the model with integer labels, and store their strings separately.",
        )
    labels = np.asarray(node.attr(name) or (), np.int64)
    if len(labels) < 2:
        node.refuse(f"expected at least two classes, got {len(labels)}")
    return labels


def classify(
    node: OnnxNode, scores: Var, labels: Array, heard: Array | None = None
) -> tuple[Var, Var]:
    """Return the label of the largest score of each row, and the scores.

    Args:
        node: The node.
        scores: The scores, one for each class.
        labels: The labels of the classes.
        heard: The classes with any weight, if some have none.
    """
    best = scores
    if heard is not None and heard.any():
        best = ops.where(heard, scores, number(-np.inf, scores.dtype))
    return ops.take(labels, ops.argmax(best, axis=-1)), apply_post_transform(node, scores)


def classify_binary(
    node: OnnxNode, score: Var, labels: Array, bound: float, other: Callable[[Var], Var]
) -> tuple[Var, Var]:
    """Return the label of one of two classes, and the scores of both.

    Args:
        node: The node.
        score: The score of the second class, with a last axis of size 1.
        labels: The labels of the classes.
        bound: A larger score means the second class.
        other: Maps the score to that of the first class if there is no transform.
    """
    transform = transform_of(node)
    if transform == "PROBIT":
        node.refuse("unsupported post_transform `PROBIT` of one score for two classes")
    chosen = ops.cast(ops.squeeze(score, axis=-1) > bound, "int64")
    if transform == "LOGISTIC":
        pair = [ops.sigmoid(-score), ops.sigmoid(score)]
    else:
        pair = [other(score), score]
    return ops.take(labels[:2], chosen), ops.concat(pair, axis=-1)
