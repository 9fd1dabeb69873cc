"""Rules of linear models and support vector machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype, number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import ML_DOMAIN, OnnxNode, Rule
from braces.exchange.onnx.reader.rules.ml.pairwise_probabilities import class_probabilities
from braces.exchange.onnx.reader.rules.ml.scores import (
    apply_post_transform,
    classify,
    classify_binary,
    labels_of,
    transform_of,
)
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.types import FLOAT32


def batched_features(node: OnnxNode) -> Var:
    """Return the features, one row for each example; add the batch axis to a vector."""
    x = node.var(0)
    return ops.reshape(x, (1, -1)) if x.ndim == 1 else x


def linear_scores(node: OnnxNode, count: int) -> Var:
    """Return the scores of linear models."""
    x, weights = cast_to_dtype(batched_features(node), FLOAT32), node.floats("coefficients")
    if not count or not len(weights) or len(weights) % count:
        node.refuse(f"{len(weights)} coefficients do not match {count} scores")
    scores = ops.matmul(x, weights.reshape(count, -1).T)
    intercepts = node.floats("intercepts")
    if len(intercepts) not in (0, count):
        node.refuse(f"expected {count} intercepts, got {len(intercepts)}")
    return scores + intercepts if len(intercepts) else scores


def linear_regressor(node: OnnxNode) -> Var:
    """Linear regression."""
    return apply_post_transform(node, linear_scores(node, int(node.attr("targets", 1))))


def linear_classifier(node: OnnxNode) -> tuple[Var, ...]:
    """Linear classification: the class with the largest score, and the scores."""
    labels = labels_of(node, "classlabels_ints")
    count = len(node.floats("intercepts")) or len(labels)
    scores = linear_scores(node, count)
    if count == 1 and len(labels) == 2:
        return classify_binary(node, scores, labels, 0.0, lambda score: 1.0 - score)
    if count != len(labels):
        node.refuse(f"expected {count} labels, got {len(labels)}")
    return classify(node, scores, labels)


# ---- support vectors -------------------------------------------------------------------------


def _polynomial(dot: Var, gamma: float, bias: float, degree: float) -> Var:
    return ops.pow(gamma * dot + bias, number(degree, FLOAT32))


KERNELS: Mapping[str, Callable[[Var, float, float, float], Var]] = {
    "LINEAR": lambda dot, gamma, bias, degree: dot,
    "POLY": _polynomial,
    "SIGMOID": lambda dot, gamma, bias, degree: ops.tanh(gamma * dot + bias),
}
"""Kernel functions of the products of examples and support vectors."""


def kernel_values(node: OnnxNode, x: Var, vectors: Array) -> Var:
    """Return the kernel values of all pairs of examples and support vectors."""
    kind, params = str(node.attr("kernel_type", "LINEAR")), node.floats("kernel_params")
    gamma, bias, degree = params.tolist() if len(params) == 3 else (0.0, 0.0, 0.0)
    if kind == "RBF":
        differences = ops.expand_dims(x, axis=1) - vectors
        return ops.exp(-gamma * ops.sum(ops.square(differences), axis=-1))
    if kind not in KERNELS:
        node.refuse(f"unknown kernel `{kind:.80}`")
    return KERNELS[kind](ops.matmul(x, vectors.T), gamma, bias, degree)


def svm_regressor(node: OnnxNode) -> Var:
    """Support vector regression; linear regression if there are no support vectors."""
    x, count = cast_to_dtype(batched_features(node), FLOAT32), int(node.attr("n_supports", 0))
    weights, vectors = node.floats("coefficients"), node.floats("support_vectors")
    if count > 0:
        if len(weights) != count or not len(vectors) or len(vectors) % count:
            node.refuse(f"coefficients or support vectors do not match {count} supports")
        x = kernel_values(node, x, vectors.reshape(count, -1))
    decision = ops.matmul(x, weights.reshape(-1, 1)) + node.floats("rho")[:1]
    if not node.flag("one_class"):
        return apply_post_transform(node, decision)
    return ops.where(decision > 0, number(1, FLOAT32), number(-1, FLOAT32))


def svm_classifier(node: OnnxNode) -> tuple[Var, ...]:
    """One-vs-one support vector classification.

    The label is the class with the most votes. The scores are the decision values of all pairs
    of classes, or probabilities of the classes if the node has sigmoids.
    """
    labels = labels_of(node, "classlabels_ints")
    counts = list(node.attr("vectors_per_class") or ())
    if not counts:
        node.refuse("unsupported linear mode", "Export a LinearClassifier.")
    ends, classes = np.cumsum(counts).tolist(), len(labels)
    vectors, weights = node.floats("support_vectors"), node.floats("coefficients")
    pairs = list(combinations(range(classes), 2))
    counts_given = len(counts), len(weights), len(node.floats("rho")), len(vectors) % ends[-1]
    if counts_given != (classes, ends[-1] * (classes - 1), len(pairs), 0):
        node.refuse(f"coefficients, rho or support vectors do not match {classes} classes")
    likeness = kernel_values(
        node, cast_to_dtype(batched_features(node), FLOAT32), vectors.reshape(ends[-1], -1)
    )
    owner, each = np.repeat(range(classes), counts), weights.reshape(classes - 1, -1)
    duels = [(owner == a) * each[b - 1] + (owner == b) * each[a] for a, b in pairs]
    scores = ops.matmul(likeness, np.stack(duels, axis=1)) + node.floats("rho")
    slopes, offsets = node.floats("prob_a"), node.floats("prob_b")
    if len(slopes) and not len(slopes) == len(offsets) == len(pairs):
        node.refuse(f"expected `prob_a` and `prob_b` of {len(pairs)} pairs of classes")
    won = np.eye(classes, dtype=np.float32)[np.array(pairs)]
    votes = ops.where(ops.expand_dims(scores, axis=-1) > 0, won[:, 0], won[:, 1])
    label = ops.take(labels, ops.argmax(ops.sum(votes, axis=1), axis=-1))
    if len(slopes):
        probabilities = class_probabilities(scores, pairs, slopes, offsets, classes)
        return label, apply_post_transform(node, probabilities)
    if classes > 2:
        return label, apply_post_transform(node, scores)
    untransformed = transform_of(node) == "NONE"
    return label, classify_binary(
        node, scores, labels, 0.0, lambda s: -s if untransformed else 1.0 - s
    )[1]


LINEAR: Mapping[str, Rule] = {
    f"{ML_DOMAIN}.LinearClassifier": linear_classifier,
    f"{ML_DOMAIN}.LinearRegressor": linear_regressor,
    f"{ML_DOMAIN}.SVMClassifier": svm_classifier,
    f"{ML_DOMAIN}.SVMRegressor": svm_regressor,
}
