"""References of `braces.ops.nn.elementwise_losses`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, apart, floating, positive


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
    "squared_error": Reference(squared_error),
    "absolute_error": Reference(absolute_error, inputs=PAIR),
    "huber_loss": Reference(huber_loss, inputs=PAIR),
    "kl_divergence": Reference(kl_divergence, inputs={"target": positive}),
    "cosine_similarity": Reference(cosine_similarity),
}
