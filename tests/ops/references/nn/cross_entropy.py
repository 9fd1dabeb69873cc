"""References of `braces.ops.nn.cross_entropy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, Values, between, floating, positive


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


REFERENCES = {
    "softmax_cross_entropy": Reference(softmax_cross_entropy, adjust=labels_in_range),
    "softmax_cross_entropy_soft": Reference(
        softmax_cross_entropy_soft, inputs={"target": positive}
    ),
    "sigmoid_binary_cross_entropy": Reference(
        sigmoid_binary_cross_entropy, inputs={"target": between(0, 1)}
    ),
}
