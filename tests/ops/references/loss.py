"""References of `braces.ops.loss`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from references import Array, Reference, Values, apart, between, floating, positive


def log_softmax(x: Array, axis: int) -> Array:
    shifted = x - x.max(axis, keepdims=True, initial=-1e30)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def labels_in_range(values: Values, attrs: Mapping[str, Any]) -> Values:
    """Labels that are numbers of classes, where there are classes."""
    (logits,), (labels,) = values["logits"], values["labels"]
    classes = max(logits.shape[attrs["axis"]], 1)
    return values | {"labels": (np.abs(labels) % classes,)}


def at_label(x: Array, labels: Array, axis: int) -> Array:
    index = np.expand_dims(labels.astype(np.int64), axis)
    return np.take_along_axis(x, index, axis).squeeze(axis)


def softmax_cross_entropy(logits: Array, labels: Array, *, axis: int) -> Array:
    if not labels.size:
        return np.zeros(labels.shape, logits.dtype)
    return -at_label(log_softmax(floating(logits), axis), labels, axis)


def softmax_cross_entropy_soft(logits: Array, target: Array, *, axis: int) -> Array:
    return -(target * log_softmax(floating(logits), axis)).sum(axis)


def sigmoid_binary_cross_entropy(logits: Array, target: Array) -> Array:
    probability = 1 / (1 + np.exp(-floating(logits).astype(np.float64)))
    loss = -target * np.log(probability) - (1 - target) * np.log1p(-probability)
    return np.asarray(loss).astype(floating(logits).dtype)


def difference(prediction: Array, target: Array) -> Array:
    dtype = floating(prediction + target).dtype
    if "f" in (prediction.dtype.kind, target.dtype.kind):
        dtype = max((x.dtype for x in (prediction, target) if x.dtype.kind == "f"), key=str)
    return prediction.astype(dtype) - target.astype(dtype)


def squared_error(prediction: Array, target: Array) -> Array:
    return difference(prediction, target) ** 2


def absolute_error(prediction: Array, target: Array) -> Array:
    return np.abs(difference(prediction, target))


def huber_loss(prediction: Array, target: Array, *, delta: float) -> Array:
    far = np.abs(difference(prediction, target))
    return np.where(far <= delta, far * far / 2, delta * (far - delta / 2)).astype(far.dtype)


def kl_divergence(log_prediction: Array, target: Array, *, axis: int) -> Array:
    return (target * (np.log(target) - log_prediction)).sum(axis)


def cosine_similarity(prediction: Array, target: Array, *, axis: int, epsilon: float) -> Array:
    lengths = [np.sqrt(np.maximum((x * x).sum(axis), epsilon)) for x in (prediction, target)]
    return (prediction * target).sum(axis) / lengths[0] / lengths[1]


PAIR = {"prediction": apart}

REFERENCES = {
    "softmax_cross_entropy": Reference(softmax_cross_entropy, adjust=labels_in_range),
    "softmax_cross_entropy_soft": Reference(
        softmax_cross_entropy_soft, inputs={"target": positive}
    ),
    "sigmoid_binary_cross_entropy": Reference(
        sigmoid_binary_cross_entropy, inputs={"target": between(0, 1)}
    ),
    "squared_error": Reference(squared_error),
    "absolute_error": Reference(absolute_error, inputs=PAIR),
    "huber_loss": Reference(huber_loss, inputs=PAIR),
    "kl_divergence": Reference(kl_divergence, inputs={"target": positive}),
    "cosine_similarity": Reference(cosine_similarity),
}
