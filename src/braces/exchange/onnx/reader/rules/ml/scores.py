"""What regressors and classifiers make of scores: probabilities, and the labels of classes.

Where ONNX leaves open what that is, it is what ONNX Runtime gives, by which such models were
tried when they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

import numpy as np

from braces.builder.var import Var
from braces.exchange.common.rules.elementwise import number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import Node
from braces.frontend.core import functions as ops

NOTHING = 1e-7
"""Scores nearer to zero are none to SOFTMAX_ZERO."""


def softmax_of_others(scores: Var) -> Var:
    """A softmax of what is not zero; zeros stay."""
    some = ops.abs(scores) > NOTHING
    best = ops.max(scores, axis=-1, keepdims=True)
    made = ops.where(some, ops.exp(scores - best), ops.zeros_like(scores))
    whole = ops.sum(made, axis=-1, keepdims=True)
    return made / ops.where(whole > 0, whole, ops.ones_like(whole))


def probit(scores: Var) -> Var:
    """Where the normal distribution reaches these probabilities."""
    return sqrt(2.0) * ops.erfinv(2.0 * scores - 1.0)


TRANSFORMS: Mapping[str, Callable[[Var], Var]] = {
    "NONE": lambda scores: scores,
    "SOFTMAX": lambda scores: ops.softmax(scores, axis=-1),
    "LOGISTIC": ops.sigmoid,
    "SOFTMAX_ZERO": softmax_of_others,
    "PROBIT": probit,
}
"""By their names, in the order of their numbers."""


def transform_of(node: Node) -> str:
    """What a node says becomes of its scores, by name or number."""
    found, names = node.attr("post_transform", "NONE"), list(TRANSFORMS)
    if isinstance(found, int) and 0 <= found < len(names):
        return names[found]
    if found not in names:
        node.refuse(f"transforms its scores by `{found:.80}`")
    return str(found)


def transformed(node: Node, scores: Var) -> Var:
    """Scores as a node gives them, a row of them for each example."""
    way = transform_of(node)
    if scores.shape[-1] == 1 and way != "PROBIT":  # nothing else is meant of one score alone
        return scores
    return TRANSFORMS[way](scores)


def labels_of(node: Node, name: str) -> Array:
    """The labels of classes, which are integers.

    Raises:
        ProgramError: They are texts, or there are not two.
    """
    if node.attr("classlabels_strings"):
        node.refuse(
            "labels its classes with texts",
            "Export the model with integers as labels, and keep their texts beside it.",
        )
    labels = np.asarray(node.attr(name) or (), np.int64)
    if len(labels) < 2:
        node.refuse("has less than two classes")
    return labels


def classified(
    node: Node, scores: Var, labels: Array, heard: Array | None = None
) -> tuple[Var, Var]:
    """The label of the largest score of each row, and the scores.

    Args:
        node: The node.
        scores: One for each class.
        labels: Those of the classes.
        heard: The classes that anything speaks for, where that need not be all.
    """
    best = scores
    if heard is not None and heard.any():
        best = ops.where(heard, scores, number(-np.inf, scores.dtype))
    return ops.take(labels, ops.argmax(best, axis=-1)), transformed(node, scores)


def of_two(
    node: Node, score: Var, labels: Array, bound: float, other: Callable[[Var], Var]
) -> tuple[Var, Var]:
    """The label of one of two classes, and the scores of both.

    Args:
        node: The node.
        score: That of the second class, the last axis of size 1.
        labels: Those of the classes.
        bound: A larger score means the second class.
        other: The score of the first class where they are not transformed.
    """
    way = transform_of(node)
    if way == "PROBIT":
        node.refuse("has one score for two classes, and takes the probit of it")
    chosen = ops.cast(ops.squeeze(score, axis=-1) > bound, "int64")
    if way == "LOGISTIC":
        both = [ops.sigmoid(-score), ops.sigmoid(score)]
    else:
        both = [other(score), score]
    return ops.take(labels[:2], chosen), ops.concat(both, axis=-1)
