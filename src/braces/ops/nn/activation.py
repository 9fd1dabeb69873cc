"""Activation functions; those of `jax.nn` if it has them."""

from __future__ import annotations

import math

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    normalize_axis,
    shape_of,
)
from braces.define.axes.axis_rules import mix_along_axis, resize_axis
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Axis, Tensor, op
from braces.dims import divide_exactly
from braces.lazy import jax, jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real, real_function
from braces.ops.elementwise.elementwise_derivatives import forward_as_backward
from braces.ops.elementwise.unary import UNARY, WITH_INTEGERS

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
ALONG = ("x=f32[2,3]", "x=f32[b,4,5] axis=1", "x=f64[3,t] axis=0", "x=f32[4]", "x=f32[0,3]")


# ---- piecewise linear ------------------------------------------------------------------------


@op(axes="... -> ...", dtypes=real, examples=WITH_INTEGERS)
def relu(x: Tensor) -> Tensor:
    """The rectified linear unit; its gradient at zero is zero.

    out[i] = max(x[i], 0)
    """
    return jax.nn.relu(x)


@relu.vjp
def relu_vjp(out: Tensor, out_grad: Tensor) -> Tensor:
    """The cotangent where the output is positive; `x` is not a residual."""
    return jnp.where(out > 0, out_grad, jnp.zeros_like(out_grad))


@op(axes="... -> ...", dtypes=real_function, operations=2, examples=WITH_INTEGERS)
def relu6(x: Tensor) -> Tensor:
    """The rectified linear unit, capped at 6.

    out[i] = min(max(x[i], 0), 6)
    """
    return jax.nn.relu6(as_floating(x))


@relu6.vjp
@in_float32
def relu6_vjp(out: Tensor, out_grad: Tensor) -> Tensor:
    """The cotangent where the output is between its bounds."""
    return jnp.where((out > 0) & (out < 6), out_grad, jnp.zeros_like(out_grad))


@op(
    axes="... -> ...",
    dtypes=real_function,
    operations=2,
    examples=(*UNARY, "x=f32[5] negative_slope=0.2"),
)
def leaky_relu(x: Tensor, *, negative_slope: float = 0.01) -> Tensor:
    """The leaky rectified linear unit: the identity, with a smaller slope below zero.

        out[i] = x[i] if x[i] >= 0 else negative_slope * x[i]

    Attributes:
        negative_slope: The slope below zero.
    """
    return jax.nn.leaky_relu(as_floating(x), negative_slope)


@leaky_relu.vjp
def leaky_relu_vjp(x: Tensor, out_grad: Tensor, *, negative_slope: float = 0.01) -> Tensor:
    """The cotangent, times the slope where x is negative."""
    return jnp.where(x >= 0, out_grad, negative_slope * out_grad)


@op(axes="... -> ...", dtypes=real_function, operations=4, examples=UNARY)
def hard_sigmoid(x: Tensor) -> Tensor:
    """The hard sigmoid, a piecewise linear approximation of the sigmoid.

        out[i] = min(max(x[i] + 3, 0), 6) / 6

    Outputs:
        out: float[*shape], between 0 and 1.
    """
    return jax.nn.hard_sigmoid(as_floating(x))


@hard_sigmoid.vjp
@in_float32
def hard_sigmoid_vjp(out: Tensor, out_grad: Tensor) -> Tensor:
    """A sixth of the cotangent where the output is between its bounds."""
    return jnp.where((out > 0) & (out < 1), out_grad / 6, jnp.zeros_like(out_grad))


@op(axes="... -> ...", dtypes=real_function, operations=3, examples=UNARY)
def hard_tanh(x: Tensor) -> Tensor:
    """The hard hyperbolic tangent: the identity, clipped to [-1, 1].

        out[i] = min(max(x[i], -1), 1)

    Outputs:
        out: float[*shape], between -1 and 1.
    """
    return jax.nn.hard_tanh(as_floating(x))


@hard_tanh.vjp
def hard_tanh_vjp(out: Tensor, out_grad: Tensor) -> Tensor:
    """The cotangent where the output is between its bounds."""
    return jnp.where(jnp.abs(out) < 1, out_grad, jnp.zeros_like(out_grad))


# ---- exponential -----------------------------------------------------------------------------


@op(
    axes="... -> ...",
    dtypes=real_function,
    operations=4,
    examples=(*UNARY, "x=f32[5] alpha=0.5"),
)
@in_float32
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """The exponential linear unit: the identity, saturating at -alpha for negative numbers.

        out[i] = x[i] if x[i] > 0 else alpha * (e^x[i] - 1)

    The gradient at zero is alpha, that of the exponential side.

    Clevert, Unterthiner, Hochreiter: Fast and Accurate Deep Network Learning by Exponential
    Linear Units, 2015.

    Attributes:
        alpha: The negated limit at minus infinity.
    """
    return jax.nn.elu(as_floating(x), alpha)


@elu.vjp
@in_float32
def elu_vjp(x: Tensor, out_grad: Tensor, *, alpha: float = 1.0) -> Tensor:
    """The cotangent, times `alpha * e^x` below zero; `out + alpha` would cancel there."""
    return jnp.where(x > 0, out_grad, out_grad * (alpha * negative_exp(x)))


def negative_exp(x: Tensor) -> Tensor:
    """Compute `e^min(x, 0)`."""
    return jnp.exp(jnp.where(x > 0, jnp.zeros_like(x), x))


@op(axes="... -> ...", dtypes=real_function, operations=5, examples=UNARY)
@in_float32
def selu(x: Tensor) -> Tensor:
    """The scaled exponential linear unit: it keeps mean 0 and variance 1 over layers.

        out[i] = 1.0507 * (x[i] if x[i] > 0 else 1.6733 * (e^x[i] - 1))

    Klambauer, Unterthiner, Mayr, Hochreiter: Self-Normalizing Neural Networks, 2017.
    """
    return jax.nn.selu(as_floating(x))


@selu.vjp
@in_float32
def selu_vjp(x: Tensor, out_grad: Tensor) -> Tensor:
    """The gradient of `elu`, scaled."""
    return SELU_SCALE * jnp.where(x > 0, out_grad, out_grad * (SELU_ALPHA * negative_exp(x)))


forward_as_backward(relu, relu6, leaky_relu, hard_sigmoid, hard_tanh, elu, selu)


@op(
    axes="... -> ...",
    dtypes=real_function,
    operations=5,
    examples=(*UNARY, "x=f32[5] approximate=True"),
)
@in_float32
def gelu(x: Tensor, *, approximate: bool = False) -> Tensor:
    """The Gaussian error linear unit: x times the normal distribution function of x.

        out[i] = x[i] * (1 + erf(x[i] / sqrt(2))) / 2

    Hendrycks, Gimpel: Gaussian Error Linear Units, 2016. In float32 the error is below
    2e-6 times the larger of 1 and the result; from x = -5.3 down, the result is zero.

    Attributes:
        approximate: Use `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))` instead.
    """
    x = as_floating(x)
    if approximate or x.dtype == np.float64:
        return jax.nn.gelu(x, approximate)  # by `erfc`, which takes twice as long as `erf`
    return x * (0.5 * (1 + lax.erf(x * np.float32(math.sqrt(0.5)))))


@op(axes="... -> ...", dtypes=real_function, operations=5, examples=UNARY)
@in_float32
def silu(x: Tensor) -> Tensor:
    """The sigmoid linear unit, x times its sigmoid; also called swish.

        out[i] = x[i] / (1 + e^-x[i])

    Elfwing, Uchibe, Doya: Sigmoid-Weighted Linear Units, 2017.
    """
    return jax.nn.silu(as_floating(x))


@silu.vjp
@in_float32
def silu_vjp(x: Tensor, out_grad: Tensor) -> Tensor:
    """x_grad = out_grad * s * (1 + x * (1 - s)), s = sigmoid(x)."""
    s = jax.nn.sigmoid(x)
    return out_grad * (s * (1 + x * (1 - s)))


@op(axes="... -> ...", dtypes=real_function, operations=8, examples=UNARY)
@in_float32
def mish(x: Tensor) -> Tensor:
    """The mish activation: x times the tanh of its softplus.

        out[i] = x[i] * tanh(log(1 + e^x[i]))

    Misra: Mish, a Self Regularized Non-Monotonic Activation Function, 2019.
    """
    return jax.nn.mish(as_floating(x))


@op(axes="... -> ...", dtypes=real_function, operations=5, examples=UNARY)
@in_float32
def softplus(x: Tensor) -> Tensor:
    """The softplus, a smooth approximation of relu, without overflow.

        out[i] = log(1 + e^x[i])

    Outputs:
        out: float[*shape], positive.
    """
    return jax.nn.softplus(as_floating(x))


softplus.vjp(in_float32(lambda x, out_grad: out_grad * jax.nn.sigmoid(x)))


@op(axes="... -> ...", dtypes=real_function, operations=3, examples=UNARY)
@in_float32
def softsign(x: Tensor) -> Tensor:
    """The softsign: x divided by 1 + |x|, between -1 and 1.

    out[i] = x[i] / (1 + abs(x[i]))
    """
    return jax.nn.soft_sign(as_floating(x))


softsign.vjp(in_float32(lambda x, out_grad: out_grad / jnp.square(1 + jnp.abs(x))))


# ---- gated -----------------------------------------------------------------------------------


def glu_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `glu`: the axis is non-pointwise, and halved."""
    shape = shape_of(types["x"][0])
    at = normalize_axis(attrs["axis"], len(shape))
    half = divide_exactly(shape[at], 2)
    if half is None:
        raise AxisError(
            f"axis {attrs['axis']} of size {shape[at]} is not divisible by 2.",
            fix="Use an axis of even size.",
        )
    axis_map = mix_along_axis(types, attrs)
    return resize_axis(axis_map, at, "half", half)


@op(
    axes=glu_axes,
    dtypes=real_function,
    operations=count_per_element("out", 5),
    examples=("x=f32[2,6]", "x=f32[2*b,3] axis=0", "x=f64[4]", "x=f32[0,4]"),
)
@in_float32
def glu(x: Tensor, *, axis: Axis = -1) -> Tensor:
    """The gated linear unit: one half of an axis times the sigmoid of the other half.

        out = a * sigmoid(b), where [a, b] = x along `axis`

    Dauphin, Fan, Auli, Grangier: Language Modeling with Gated Convolutional Networks, 2016.

    Inputs:
        x: real[..., 2 * n, ...].

    Attributes:
        axis: The axis that is halved; negative counts from the end.

    Outputs:
        out: float[..., n, ...].

    Raises:
        ShapeError: If `axis` is not an axis of `x`, or its size is odd.
        DTypeError: If the dtype is complex.
    """
    return jax.nn.glu(as_floating(x), axis=axis)
