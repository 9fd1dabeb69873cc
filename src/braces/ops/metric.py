"""Metrics: numbers for people to read. They have no gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.define.axes import all_mixed
from braces.define.decorator import Indices, Tensor, op
from braces.define.inference import Context
from braces.dtypes import FLOAT32, TensorType
from braces.errors import ShapeError
from braces.lazy import jnp
from braces.ops.loss import at_label, labelled, out_of_range

EXAMPLES = (
    "logits=f32[4,3] labels=i32[4]",
    "logits=f64[b,5] labels=i64[b]",
    "logits=f32[b,t,4] labels=i32[b,t]",
    "logits=f32[2,3,4] labels=i64[2,4] axis=1",
    "logits=f32[3] labels=i64[]",
)


def share(context: Context, logits: TensorType, labels: TensorType, **attrs: Any) -> TensorType:
    """Inference: one float32 for all labels."""
    labelled(context, logits, labels, **attrs)
    return TensorType(FLOAT32, ())


@op(axes=all_mixed, infer=share, differentiable=False, examples=EXAMPLES)
def accuracy(logits: Tensor, labels: Indices, *, axis: int = -1) -> Tensor:
    """The share of rows whose largest logit is at the label.

        out = mean(argmax(logits, axis) == labels)

    Where several logits are the largest, the first counts. A label that is no class (-1 for
    padding, say) never matches. The share of no rows is NaN, as `br.mean` of nothing is.

    Inputs:
        logits: number[*shape], with an axis of classes; probabilities do as well.
        labels: integer[*shape without `axis`]. Class numbers from 0.

    Attributes:
        axis: The axis of classes.

    Outputs:
        out: f32[]. Between 0 and 1.

    Raises:
        ShapeError: Shapes differ, or there are no classes.
        DTypeError: `labels` are not integers.
    """
    if logits.shape[axis] == 0:
        return _mean(jnp.zeros(labels.shape, bool))
    best = jnp.argmax(logits, axis).astype(np.int64)
    return _mean(best == labels.astype(np.int64))


@op(axes=all_mixed, differentiable=False, examples=tuple(f"{one} k=2" for one in EXAMPLES))
def top_k_accuracy(logits: Tensor, labels: Indices, *, k: int = 5, axis: int = -1) -> Tensor:
    """The share of rows where fewer than `k` logits are larger than the one at the label.

        out = mean(sum_j(logits[..., j] > logits[..., labels[...]]) < k)

    A label that is no class never counts, nor does one whose logit is NaN. The share of no rows
    is NaN, as `br.mean` of nothing is.

    Inputs:
        logits: number[*shape], with an axis of classes; probabilities do as well.
        labels: integer[*shape without `axis`]. Class numbers from 0.

    Attributes:
        k: How many guesses a row has.
        axis: The axis of classes.

    Outputs:
        out: f32[]. Between 0 and 1.

    Raises:
        ShapeError: Shapes differ, there are no classes, or `k` is below 1.
        DTypeError: `labels` are not integers.
    """
    chosen = at_label(logits, labels, axis)
    larger = ~(logits <= jnp.expand_dims(chosen, axis))
    rank = jnp.sum(larger, axis, dtype=np.int64)
    return _mean((rank < k) & (chosen == chosen) & ~out_of_range(logits, labels, axis))


@top_k_accuracy.infer
def infer_top_k_accuracy(
    context: Context, logits: TensorType, labels: TensorType, *, k: int, axis: int
) -> TensorType:
    """One float32; `k` is at least 1."""
    if k < 1:
        raise ShapeError(f"top_k_accuracy cannot take the best {k}.", fix="Use k=1 or more.")
    return share(context, logits, labels, axis=axis)


def _mean(right: Any) -> Any:
    return jnp.mean(right, dtype=np.float32)
