"""References of `braces.ops.nn.accuracy`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, apart
from tests.ops.references.nn.cross_entropy import labels_in_range


def accuracy(logits: Array, labels: Array, *, axis: int) -> Array:
    return share(logits.argmax(axis) == labels) if labels.size else share(labels)


def top_k_accuracy(logits: Array, labels: Array, *, k: int, axis: int) -> Array:
    best = np.argsort(-logits, axis)
    best = np.take(best, range(min(k, logits.shape[axis])), axis)
    return share((best == np.expand_dims(labels, axis)).any(axis))


def share(right: Array) -> Array:
    """The mean, which is NaN of nothing."""
    count = np.float32(right.size)
    return np.asarray(np.float32(right.sum()) / count if right.size else np.nan, np.float32)


REFERENCES = {
    "accuracy": Reference(accuracy, inputs={"logits": apart}, adjust=labels_in_range),
    "accumulate": Reference(lambda total, batch: total + batch),
    "top_k_accuracy": Reference(
        top_k_accuracy, inputs={"logits": apart}, adjust=labels_in_range
    ),
}
