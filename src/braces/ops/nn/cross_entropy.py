"""Cross-entropy losses, with class labels and with target probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    LOWEST,
    Attrs,
    AxisError,
    AxisMap,
    Types,
    normalize_axis,
    shape_of,
)
from braces.define.axes.axis_rules import mixing_reduction
from braces.define.core.check_code import encode_offender
from braces.define.decorator import Axis, Indices, Tensor, op
from braces.dtypes import FLOAT32, DType, is_integer
from braces.errors import DTypeError, IndexRangeError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import at_least_float32, in_float32, result_dtype
from braces.ops.common.rules import (
    Backward,
    as_floating,
    promote,
    promote_arrays,
    real_numbers,
    sum_to,
)
from braces.ops.nn.elementwise_losses import paired_axes

# ---- labels ----------------------------------------------------------------------------------


def label_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: labels have the axes of logits but that of classes, which is not empty."""
    shape = shape_of(types["logits"][0])
    at = normalize_axis(attrs["axis"], len(shape))
    if shape[at] == 0:
        raise AxisError(f"expected at least one class on axis {attrs['axis']}.")

    def wanted() -> str:
        sizes = ",".join(map(str, (*shape[:at], *shape[at + 1 :])))
        return f"labels of the shape of logits without axis {attrs['axis']}: [{sizes}]"

    return replace(mixing_reduction(types, attrs), wanted={"labels": wanted})


def integer_labels(what: str, logits: DType, labels: DType, **attrs: Any) -> DType:
    """Dtype rule: that of a real function of the logits.

    Raises:
        DTypeError: If labels are not integers, or logits are not real.
    """
    if not is_integer(labels):
        raise DTypeError(
            f"{what}: expected an integer dtype for `labels`, got {labels}.",
            fix="Pass class indices; use br.softmax_cross_entropy_soft for probabilities.",
        )
    return real_numbers(what, logits, **attrs)


def out_of_range(logits: Any, labels: Any, axis: int) -> Any:
    """Return a mask of the labels out of range; for checks."""
    wider = labels.astype(np.int64)
    return (wider < 0) | (wider >= logits.shape[axis])


def at_label(x: Any, labels: Any, axis: int) -> Any:
    """Gather the elements of `x` at the labels; labels out of range are clipped."""
    if x.shape[axis] == 0:
        return jnp.zeros(labels.shape, x.dtype)
    index = jnp.expand_dims(labels.astype(np.int64), axis)
    return jnp.take_along_axis(x, index, axis, mode="clip").squeeze(axis)


def is_label(x: Any, labels: Any, axis: int) -> Any:
    """Return the one-hot mask of the labels, by a comparison instead of a scatter."""
    classes = jnp.arange(x.shape[axis], dtype=np.int64)
    other_axes = [a for a in range(x.ndim) if a != axis % x.ndim]
    return jnp.expand_dims(classes, other_axes) == jnp.expand_dims(
        labels.astype(np.int64), axis
    )


# ---- softmax ---------------------------------------------------------------------------------


def exponentials(logits: Any, axis: int) -> tuple[Any, Any, Any]:
    """Return the maximum, the exponentials of `logits - maximum`, and their sum.

    A loss and its gradient share this code, so that XLA's CSE computes the exponentials once.
    """
    largest = jnp.max(logits, axis, keepdims=True, initial=-np.inf)
    largest = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0))
    powers = jnp.exp(logits - largest)
    return largest, powers, jnp.sum(powers, axis, keepdims=True)


@op(
    axes=label_axes,
    dtypes=integer_labels,
    function=False,
    operations=6,
    examples=(
        "logits=f32[2,3] labels=i32[2]",
        "logits=f64[b,4] labels=i64[b]",
        "logits=f32[b,t,5] labels=i32[b,t]",
        "logits=f64[2,3,4] labels=i64[2,4] axis=1",
        "logits=f32[3] labels=i64[]",
        "logits=f32[0,3] labels=i32[0]",
    ),
)
def softmax_cross_entropy(logits: Tensor, labels: Indices, *, axis: Axis = -1) -> Tensor:
    """The cross-entropy of softmax(logits) with the class that each label names, in nats.

        out[...] = log(sum_j exp(logits[..., j])) - logits[..., labels[...]]

    The maximum is subtracted first, so large logits do not overflow; 16-bit logits are summed
    in float32.

    Inputs:
        logits: number[*shape], with an axis of classes.
        labels: integer[*shape without `axis`]. Class numbers from 0.

    Attributes:
        axis: The axis of classes.

    Outputs:
        out: float[*shape without `axis`]; integer logits give float32.

    Raises:
        ShapeError: If the shapes differ, or the class axis is missing.
        DTypeError: If `labels` are not integers.
        IndexRangeError: If a label is out of range.
    """
    wider = at_least_float32(logits)
    largest, _, total = exponentials(wider, axis)
    chosen = at_label(wider, labels, axis) - largest.squeeze(axis)
    return (jnp.log(total).squeeze(axis) - chosen).astype(result_dtype(logits))


@softmax_cross_entropy.checked(IndexRangeError, "A label is out of range.")
def softmax_cross_entropy_check(logits: Tensor, labels: Indices, *, axis: Axis = -1) -> Tensor:
    """Return a check failure code for a label out of range."""
    return encode_offender(out_of_range(logits, labels, axis), labels)


@softmax_cross_entropy.vjp
def softmax_cross_entropy_vjp(
    logits: Tensor, labels: Indices, out_grad: Tensor, *, axis: Axis = -1
) -> Tensor:
    """logits_grad = out_grad * (softmax(logits) - [class is the label])."""
    wider = at_least_float32(logits)
    _, powers, total = exponentials(wider, axis)
    grad = jnp.expand_dims(at_least_float32(out_grad), axis)
    logits_grad = powers * (grad / total) - jnp.where(is_label(wider, labels, axis), grad, 0)
    return logits_grad.astype(logits.dtype)


@op(
    axes={"logits": LOWEST, "target": 0},
    dtypes=real_numbers,
    function=False,
    operations=8,
    examples=(
        "logits=f32[2,3] target=f32[2,3]",
        "logits=f64[b,t,4] target=f64[b,t,4]",
        "logits=f64[2,3,4] target=f64[2,3,4] axis=1",
        "logits=f32[3] target=f32[3]",
        "logits=f32[0,3] target=f32[0,3]",
    ),
)
def softmax_cross_entropy_soft(logits: Tensor, target: Tensor, *, axis: Axis = -1) -> Tensor:
    """The cross-entropy of softmax(logits) with target probabilities, in nats.

        out[...] = -sum_j target[..., j] * log_softmax(logits)[..., j]

    A probability of 0 adds 0, even if the logit is minus infinity.

    Inputs:
        logits: number[*shape], with an axis of classes.
        target: number[*shape]. Probabilities; their sum is not checked.

    Attributes:
        axis: The axis of classes.

    Outputs:
        out: float[*shape without `axis`], in the promoted dtype.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    log_softmax, weights = _log_softmax(logits, target, axis), at_least_float32(target)
    return -jnp.sum(weights * log_softmax, axis).astype(result_dtype(logits, target))


def _log_softmax(logits: Any, target: Any, axis: int) -> Any:
    wider = at_least_float32(logits)
    largest, _, total = exponentials(wider, axis)
    result = (wider - largest) - jnp.log(total)
    return jnp.where((target == 0) & jnp.isinf(result), 0, result)


@softmax_cross_entropy_soft.vjp
def softmax_cross_entropy_soft_vjp(
    logits: Tensor, target: Tensor, out_grad: Tensor, *, axis: Axis = -1
) -> tuple[Tensor, Tensor]:
    """logits_grad = out_grad * (softmax * sum(target) - target); target_grad = -log_softmax."""
    weights, grad = at_least_float32(target), jnp.expand_dims(at_least_float32(out_grad), axis)
    _, powers, total = exponentials(at_least_float32(logits), axis)
    share = weights.sum(axis, keepdims=True) / total
    logits_grad = grad * (powers * share - weights)
    target_grad = -grad * _log_softmax(logits, target, axis)
    return logits_grad.astype(logits.dtype), target_grad.astype(target.dtype)


# ---- sigmoid ---------------------------------------------------------------------------------


@op(
    axes=paired_axes,
    dtypes=real_numbers,
    function=False,
    operations=8,
    examples=(
        "logits=f32[2,3] target=f32[2,3]",
        "logits=f64[b] target=f64[b]",
        "logits=f32[] target=f32[]",
        "logits=f32[0,2] target=f32[0,2]",
    ),
)
@in_float32
def sigmoid_binary_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The cross-entropy of sigmoid(logits) with target probabilities, in nats.

        out = -target * log(sigmoid(logits)) - (1 - target) * log(1 - sigmoid(logits))
            = max(logits, 0) - logits * target + log(1 + exp(-|logits|))

    Inputs:
        logits: number[*shape].
        target: number[*shape]; between 0 and 1.

    Outputs:
        out: float[*shape], in the promoted dtype; integers give float32.

    Raises:
        ShapeError: If the shapes differ.
    """
    logits, target = map(as_floating, promote_arrays(logits, target))
    # The difference comes first: it is exactly 0 for a certain and correct prediction.
    return jnp.maximum(logits, 0) - logits * target + jnp.log1p(jnp.exp(-jnp.abs(logits)))


@sigmoid_binary_cross_entropy.gradient
def sigmoid_binary_cross_entropy_gradient(g: Backward) -> dict[str, Var]:
    """logits_grad = out_grad * (sigmoid(logits) - target); target_grad = -out_grad * logits."""
    grads: dict[str, Var] = {}
    if g.wants("logits"):
        # With 16 bits, a certain and correct prediction would have no error.
        logits = emit("cast", g["logits"], dtype=promote(g["out"].dtype, FLOAT32))
        error = emit("sigmoid", logits) - g["target"]
        grads["logits"] = sum_to(g.out_grad * error, g["logits"])
    if g.wants("target"):
        grads["target"] = sum_to(-(g.out_grad * g["logits"]), g["target"])
    return grads
