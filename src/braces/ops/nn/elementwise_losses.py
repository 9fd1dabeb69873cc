"""Losses by element or example; reduce them with `br.mean` or `br.sum`.

Predictions and targets do not broadcast: they have the same shape, or one is a scalar. A
`[b,1]` beside a `[b]` is an error here, not a `[b,b]`.
"""

from __future__ import annotations

from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
)
from braces.define.decorator import Axis, Tensor, op
from braces.lazy import jnp, optax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import Backward, as_floating, promote_arrays, real_numbers, sum_to

PAIRS = (
    "prediction=f32[2,3] target=f32[2,3]",
    "prediction=f64[b,4] target=f64[b,4]",
    "prediction=f32[b] target=f32[]",
    "prediction=f32[] target=f32[]",
    "prediction=f32[0,2] target=f32[0,2]",
)


def paired_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of a loss: elementwise; the shapes are equal, or one is a scalar."""
    del attrs
    ranks = {slot: first_rank(types, slot) for slot in types if slot != "out"}
    indices = numbered_indices(next((rank for rank in ranks.values() if rank), 0))
    inputs = {slot: (indices if rank else (),) for slot, rank in ranks.items()}
    return make_axis_map(types, inputs, {"out": (indices,)})


# ---- differences -----------------------------------------------------------------------------


@op(
    axes=paired_axes,
    dtypes=real_numbers,
    function=False,
    operations=2,
    examples=(*PAIRS, "prediction=i32[3] target=f32[3]"),
)
@in_float32
def squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """The squared difference; its mean is the mean squared error.

        out = (prediction - target)^2

    Inputs:
        prediction: number[*shape].
        target: number[*shape].

    Outputs:
        out: float[*shape], in the promoted dtype; integers give float32.

    Raises:
        ShapeError: If the shapes differ.
    """
    return jnp.square(_difference(prediction, target))


def _difference(prediction: Any, target: Any) -> Any:
    prediction, target = map(as_floating, promote_arrays(prediction, target))
    return prediction - target


def _difference_vjp(g: Backward, derivative: Var) -> dict[str, Var]:
    """Return the cotangents of a function of `prediction - target`, given its derivative."""
    weighted, grads = g.out_grad * derivative, dict[str, Var]()
    if g.wants("prediction"):
        grads["prediction"] = sum_to(weighted, g["prediction"])
    if g.wants("target"):
        grads["target"] = sum_to(-weighted, g["target"])
    return grads


@squared_error.gradient
def squared_error_gradient(g: Backward) -> dict[str, Var]:
    """prediction_grad = 2 * (prediction - target) * out_grad."""
    return _difference_vjp(g, (g["prediction"] - g["target"]) * 2)


@op(axes=paired_axes, dtypes=real_numbers, function=False, operations=2, examples=PAIRS)
def absolute_error(prediction: Tensor, target: Tensor) -> Tensor:
    """The absolute difference; its mean is the mean absolute error.

        out = |prediction - target|

    Inputs:
        prediction: number[*shape].
        target: number[*shape].

    Outputs:
        out: float[*shape], in the promoted dtype; integers give float32.

    Raises:
        ShapeError: If the shapes differ.
    """
    return jnp.abs(_difference(prediction, target))


@absolute_error.gradient
def absolute_error_gradient(g: Backward) -> dict[str, Var]:
    """prediction_grad = sign(prediction - target) * out_grad; 0 where they are equal."""
    return _difference_vjp(g, emit("sign", g["prediction"] - g["target"]))


@op(
    axes=paired_axes,
    dtypes=real_numbers,
    function=False,
    operations=5,
    examples=(*PAIRS, "prediction=f64[b] target=f64[b] delta=0.5"),
)
@in_float32
def huber_loss(prediction: Tensor, target: Tensor, *, delta: float = 1.0) -> Tensor:
    """The Huber loss: quadratic for small differences, linear for large ones.

        d = |prediction - target|
        out = d^2 / 2 where d <= delta, delta * (d - delta / 2) elsewhere

    Source: Huber, Robust Estimation of a Location Parameter, 1964.

    Inputs:
        prediction: number[*shape].
        target: number[*shape].

    Attributes:
        delta: The difference at which it becomes linear.

    Outputs:
        out: float[*shape], in the promoted dtype; integers give float32.

    Raises:
        ShapeError: If the shapes differ.
    """
    return optax.losses.huber_loss(_difference(prediction, target), delta=delta)


@huber_loss.gradient
def huber_loss_gradient(g: Backward) -> dict[str, Var]:
    """prediction_grad = clip(prediction - target, -delta, delta) * out_grad."""
    delta = g.attrs["delta"]
    difference = g["prediction"] - g["target"]
    return _difference_vjp(g, emit("minimum", emit("maximum", difference, -delta), delta))


# ---- distributions and directions ------------------------------------------------------------


@op(
    axes={"log_prediction": 0, "target": 0},
    dtypes=real_numbers,
    function=False,
    operations=5,
    examples=(
        "log_prediction=f32[2,3] target=f32[2,3]",
        "log_prediction=f64[b,t,4] target=f64[b,t,4]",
        "log_prediction=f64[2,3,4] target=f64[2,3,4] axis=1",
        "log_prediction=f32[0,3] target=f32[0,3]",
    ),
)
@in_float32
def kl_divergence(log_prediction: Tensor, target: Tensor, *, axis: Axis = -1) -> Tensor:
    """The Kullback-Leibler divergence of a prediction from a target, in nats.

        out[...] = sum_j target[..., j] * (log(target[..., j]) - log_prediction[..., j])

    A probability of 0 adds 0.

    Inputs:
        log_prediction: number[*shape]. Log-probabilities, such as those of br.log_softmax.
        target: number[*shape]. Probabilities.

    Attributes:
        axis: The axis of classes.

    Outputs:
        out: float[*shape without `axis`], in the promoted dtype.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    log_prediction, target = map(as_floating, promote_arrays(log_prediction, target))
    is_zero = target == 0
    log_target = jnp.log(jnp.where(is_zero, 1, target))
    log_prediction = jnp.where(is_zero & jnp.isinf(log_prediction), 0, log_prediction)
    return jnp.sum(target * (log_target - log_prediction), axis)


@op(
    axes={"prediction": 0, "target": 0},
    dtypes=real_numbers,
    operations=8,
    examples=(
        "prediction=f32[2,3] target=f32[2,3]",
        "prediction=f64[b,t,4] target=f64[b,t,4]",
        "prediction=f64[2,3,4] target=f64[2,3,4] axis=1",
        "prediction=f32[0,3] target=f32[0,3]",
    ),
)
@in_float32
def cosine_similarity(
    prediction: Tensor, target: Tensor, *, axis: Axis = -1, epsilon: float = 1e-8
) -> Tensor:
    """The cosine of the angle between two vectors; 1 minus it is the cosine distance.

        out[...] = sum_j prediction * target / (|prediction| * |target|)

    16-bit numbers are multiplied and summed in float32.

    Inputs:
        prediction: number[*shape].
        target: number[*shape].

    Attributes:
        axis: The axis of the vectors.
        epsilon: The lower bound for the squared length of a vector; zeros give 0.

    Outputs:
        out: float[*shape without `axis`], in the promoted dtype; between -1 and 1.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    prediction, target = map(as_floating, promote_arrays(prediction, target))
    return optax.losses.cosine_similarity(prediction, target, epsilon=epsilon, axis=axis)
