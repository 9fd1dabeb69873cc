"""Metrics, which are not differentiable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from braces.define.axes.axis_map import Attrs, AxisError, AxisMap, Types
from braces.define.decorator import Axis, Indices, Tensor, op
from braces.dtypes import FLOAT32, DType
from braces.lazy import jnp
from braces.ops.elementwise.arithmetic import common
from braces.ops.nn.cross_entropy import at_label, integer_labels, label_axes, out_of_range

EXAMPLES = (
    "logits=f32[4,3] labels=i32[4]",
    "logits=f64[b,5] labels=i64[b]",
    "logits=f32[b,t,4] labels=i32[b,t]",
    "logits=f32[2,3,4] labels=i64[2,4] axis=1",
    "logits=f32[3] labels=i64[]",
)


def of_rows(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of a metric: one number; labels have the axes of logits but that of classes."""
    axis_map = label_axes(types, attrs)
    all_axes = frozenset(index for index in axis_map.inputs["logits"][0] if index)
    return replace(axis_map, outputs={"out": ((),)}, mixed=all_axes, fills={})


def of_best(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `top_k_accuracy`: that of `of_rows`; `k` is at least 1."""
    if int(str(attrs["k"])) < 1:
        raise AxisError(f"expected k of 1 or more, got {attrs['k']}.", fix="Use k=1 or more.")
    return of_rows(types, attrs)


def share(what: str, logits: DType, labels: DType, **attrs: Any) -> DType:
    """Dtype rule: float32; labels are integers, logits are real."""
    integer_labels(what, logits, labels, **attrs)
    return FLOAT32


@op(axes=of_rows, dtypes=share, differentiable=False, operations=2, examples=EXAMPLES)
def accuracy(logits: Tensor, labels: Indices, *, axis: Axis = -1) -> Tensor:
    """The fraction of examples whose largest logit is that of the label.

        out = mean(argmax(logits, axis) == labels)

    Of equal largest logits, the first counts. A label out of range (such as -1 for padding)
    never matches and counts as an error; `br.metrics.accuracy` has `ignored_label=`. The
    result for no examples is NaN, as with `br.mean`.

    Inputs:
        logits: number[*shape], with an axis of classes; probabilities do as well.
        labels: integer[*shape without `axis`]. Class numbers from 0.

    Attributes:
        axis: The axis of classes.

    Outputs:
        out: f32[]. Between 0 and 1.

    Raises:
        ShapeError: If the shapes differ, or the class axis is missing.
        DTypeError: If `labels` are not integers.
    """
    if logits.shape[axis] == 0:
        return _mean(jnp.zeros(labels.shape, bool))
    best = jnp.argmax(logits, axis).astype(np.int64)
    return _mean(best == labels.astype(np.int64))


@op(
    axes=of_best,
    dtypes=share,
    differentiable=False,
    operations=2,
    examples=tuple(f"{example} k=2" for example in EXAMPLES),
)
def top_k_accuracy(logits: Tensor, labels: Indices, *, k: int = 5, axis: Axis = -1) -> Tensor:
    """The fraction of examples with fewer than `k` logits larger than that of the label.

        out = mean(sum_j(logits[..., j] > logits[..., labels[...]]) < k)

    A label that is out of range, or whose logit is NaN, never matches. The result for no
    examples is NaN, as with `br.mean`.

    Inputs:
        logits: number[*shape], with an axis of classes; probabilities do as well.
        labels: integer[*shape without `axis`]. Class numbers from 0.

    Attributes:
        k: The number of guesses per example.
        axis: The axis of classes.

    Outputs:
        out: f32[]. Between 0 and 1.

    Raises:
        ShapeError: If the shapes do not match, the class axis is missing, or `k` is below 1.
        DTypeError: If `labels` are not integers.
    """
    chosen = at_label(logits, labels, axis)
    larger = ~(logits <= jnp.expand_dims(chosen, axis))
    rank = jnp.sum(larger, axis, dtype=np.int64)
    return _mean((rank < k) & (chosen == chosen) & ~out_of_range(logits, labels, axis))


def _mean(right: Any) -> Any:
    return jnp.mean(right, dtype=np.float32)


@op(
    function=False,
    axes="..., ... -> ...",
    dtypes=common,
    differentiable=False,
    counts=True,
    examples=("total=f64[] batch=f64[]", "total=f64[3,b] batch=f64[3,b]"),
)
def accumulate(total: Tensor, batch: Tensor) -> Tensor:
    """Add a batch's count to the running total of a metric.

        out[i] = total[i] + batch[i]

    A separate operator from `add`, because it marks its state as a counter: `for_test` keeps
    the update.

    Inputs:
        total: number[*shape]. The total of earlier batches.
        batch: number[*shape].

    Outputs:
        out: As `total`.

    Raises:
        DTypeError: If the dtype is bool.
    """
    return total + batch
