"""Probabilities of classes from the decision values of all pairs of classes.

Each decision value becomes the probability of one class of its pair (Platt's sigmoid). The
probabilities of the classes are those that agree best with all pairs: the iteration of Wu, Lin
and Weng (2004), as in LIBSVM and ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braces.exchange.common.values.constants import Array
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.constructs import create_rnn

LEAST = 1e-7
"""The least probability of a class of a pair."""
STEPS = 100
"""The most steps of the iteration, unless there are more classes."""
ACCURACY = 0.005
"""The largest error at which the iteration of a row ends, times the number of classes."""


def class_probabilities(
    scores: Var, pairs: Sequence[tuple[int, int]], slopes: Array, offsets: Array, classes: int
) -> Var:
    """Return the probability of each class.

    Args:
        scores: The decision values, one for each pair: f32[rows, pairs].
        pairs: The classes of each pair.
        slopes: The factor of each sigmoid.
        offsets: The offset of each sigmoid.
        classes: The number of classes.
    """
    first = ops.clip(ops.sigmoid(-(scores * slopes + offsets)), min=LEAST, max=1 - LEAST)
    wins = [np.zeros((len(pairs), classes * classes), np.float32) for _ in range(2)]
    for at, (a, b) in enumerate(pairs):
        wins[0][at, a * classes + b] = wins[1][at, b * classes + a] = 1.0
    flat = ops.matmul(first, wins[0]) + ops.matmul(1.0 - first, wins[1])
    return _agree_with_pairs(ops.reshape(flat, (scores.shape[0], classes, classes)), classes)


def _agree_with_pairs(r: Var, classes: int) -> Var:
    """Return the probabilities `p` with the least sum of `(r[j, i] p[i] - r[i, j] p[j])^2`.

    Args:
        r: The probability of the first class of each pair; zero on the diagonal.
        classes: The number of classes.
    """
    back = ops.swapaxes(r, 1, 2)
    diagonal = ops.sum(ops.square(back), axis=2)
    q = ops.expand_dims(diagonal, axis=2) * np.eye(classes, dtype=np.float32) - back * r
    start = ops.broadcast_to(np.full((), 1.0 / classes, np.float32), (r.shape[0], classes))
    loop = create_rnn(steps=max(STEPS, classes))
    with loop.stepnet() as net:
        memory = net.add_memory(init=start)
        memory.update(_improved(memory.pre(), q, classes))
    return loop.final(memory)


def _improved(p: Var, q: Var, classes: int) -> Var:
    """Return the probabilities after one step; rows that are accurate enough stay."""
    qp = ops.sum(q * ops.expand_dims(p, axis=1), axis=2)
    pqp = ops.sum(p * qp, axis=1, keepdims=True)
    error = ops.max(ops.abs(qp - pqp), axis=1, keepdims=True)
    after = p
    for at, unit in enumerate(np.eye(classes, dtype=np.float32)):
        row = q[:, at]
        own, own_qp = row[:, at : at + 1], qp[:, at : at + 1]
        step = (pqp - own_qp) / own
        scale = 1.0 + step
        after = (after + step * unit) / scale
        pqp = (pqp + step * (step * own + 2.0 * own_qp)) / (scale * scale)
        qp = (qp + step * row) / scale
    return ops.where(error < ACCURACY / classes, p, after)
