"""Metrics: numbers for people to read. They have no gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from braces.define.axes.axis_map import Attrs, AxisError, AxisMap, Types
from braces.define.decorator import Axis, Indices, Tensor, op
from braces.dtypes import FLOAT32, DType
from braces.lazy import jnp
from braces.ops.elementwise.arithmetic import common
from braces.ops.nn.cross_entropy import at_label, integer_labels, labelled, out_of_range

EXAMPLES = (
    "logits=f32[4,3] labels=i32[4]",
    "logits=f64[b,5] labels=i64[b]",
    "logits=f32[b,t,4] labels=i32[b,t]",
    "logits=f32[2,3,4] labels=i64[2,4] axis=1",
    "logits=f32[3] labels=i64[]",
)


def of_rows(types: Types, attrs: Attrs) -> AxisMap:
    """One number for all labels, which have the axes of logits without that of the classes."""
    found = labelled(types, attrs)
    every = frozenset(index for index in found.inputs["logits"][0] if index)
    return replace(found, outputs={"out": ((),)}, mixed=every, fills={})


def of_best(types: Types, attrs: Attrs) -> AxisMap:
    """As `of_rows`; of the best logits, one at least is taken."""
    if int(str(attrs["k"])) < 1:
        raise AxisError(f"cannot take the best {attrs['k']}.", fix="Use k=1 or more.")
    return of_rows(types, attrs)


def share(what: str, logits: DType, labels: DType, **attrs: Any) -> DType:
    """A number; labels are integers, logits are real."""
    integer_labels(what, logits, labels, **attrs)
    return FLOAT32


@op(axes=of_rows, dtypes=share, differentiable=False, operations=2, examples=EXAMPLES)
def accuracy(logits: Tensor, labels: Indices, *, axis: Axis = -1) -> Tensor:
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


@op(
    axes=of_best,
    dtypes=share,
    differentiable=False,
    operations=2,
    examples=tuple(f"{one} k=2" for one in EXAMPLES),
)
def top_k_accuracy(logits: Tensor, labels: Indices, *, k: int = 5, axis: Axis = -1) -> Tensor:
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
    """The sum that a metric keeps, with that of a batch.

        out[i] = total[i] + batch[i]

    It is an operator of its own for what it says of a state: programs for testing count on.

    Inputs:
        total: number[*shape]. What was counted before.
        batch: number[*shape].

    Outputs:
        out: As `total`.

    Raises:
        DTypeError: Bools.
    """
    return total + batch
