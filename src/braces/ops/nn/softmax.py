"""Softmax, log-softmax, and log-sum-exp, whose gradient is the softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.builder.append import apply, emit
from braces.define.axes.axis_map import LOWEST, Attrs, AxisMap, Types
from braces.define.axes.axis_rules import mix_along_axis, reduce_exponentials, with_tails
from braces.define.decorator import Axes, Axis, Tensor, op
from braces.lazy import jax, jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import as_floating, real_function
from braces.ops.reduction.reduce import EMPTY, restore_axes

ALONG = ("x=f32[2,3]", "x=f32[b,4,5] axis=1", "x=f64[3,t] axis=0", "x=f32[4]", "x=f32[0,3]")


def normalized_along(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: non-pointwise along the axis; the identity element is minus infinity."""
    return with_tails(mix_along_axis(types, attrs), {"x": LOWEST})


@op(axes=normalized_along, dtypes=real_function, operations=5, examples=ALONG)
@in_float32
def softmax(x: Tensor, *, axis: Axis = -1) -> Tensor:
    """The softmax: exponentials along one axis, normalised to sum 1.

        out[..., i, ...] = exp(x[..., i, ...]) / sum_j exp(x[..., j, ...])

    The maximum along `axis` is subtracted first, so large inputs do not overflow.

    Inputs:
        x: real[*shape]. Logits, in nats.

    Attributes:
        axis: The axis that is normalised; negative counts from the end.

    Outputs:
        out: float[*shape]. Not negative; sums to one along `axis`.
    """
    return jax.nn.softmax(as_floating(x), axis=axis)


@softmax.vjp
@in_float32
def softmax_vjp(out: Tensor, out_grad: Tensor, *, axis: Axis = -1) -> Tensor:
    """x_grad = out * (out_grad - sum(out * out_grad, axis)); `x` is not a residual."""
    weighted = out * out_grad
    return weighted - out * jnp.sum(weighted, axis, keepdims=True)


@op(axes=normalized_along, dtypes=real_function, operations=5, examples=ALONG)
@in_float32
def log_softmax(x: Tensor, *, axis: Axis = -1) -> Tensor:
    """The logarithm of the softmax along one axis, precise even if the softmax underflows.

        out[..., i, ...] = x[..., i, ...] - log(sum_j exp(x[..., j, ...]))

    Inputs:
        x: real[*shape]. Logits, in nats.

    Attributes:
        axis: The axis that is normalised; negative counts from the end.

    Outputs:
        out: float[*shape]. At most zero.
    """
    return jax.nn.log_softmax(as_floating(x), axis=axis)


@log_softmax.vjp
@in_float32
def log_softmax_vjp(out: Tensor, out_grad: Tensor, *, axis: Axis = -1) -> Tensor:
    """x_grad = out_grad - exp(out) * sum(out_grad, axis); `x` is not a residual."""
    return out_grad - jnp.exp(out) * jnp.sum(out_grad, axis, keepdims=True)


@op(axes=reduce_exponentials, dtypes=real_function, operations=4, examples=EMPTY)
@in_float32
def logsumexp(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The logarithm of a sum of exponentials along axes, without intermediate overflow.

        out = log(sum_i exp(x[..., i, ...]))

    The gradient is the softmax. Positive infinite elements share it; it is zero if all elements
    are -inf.

    Outputs:
        out: float[*rest]; -inf for no elements.
    """
    return jax.nn.logsumexp(as_floating(x), axis=axis, keepdims=keepdims)


@logsumexp.vjp
@in_float32
def logsumexp_vjp(
    x: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """x_grad = out_grad * softmax(x); infinite maxima share it evenly."""
    largest = jax.lax.stop_gradient(jnp.max(x, axis, keepdims=True, initial=-np.inf))
    infinite = jnp.where(x == largest, jnp.zeros_like(x), -np.inf)
    shifted = jnp.where(jnp.isinf(largest), infinite, x - largest)
    powers = jnp.where(jnp.isneginf(largest), jnp.zeros_like(x), jnp.exp(shifted))
    total = jnp.sum(powers, axis, keepdims=True)
    grad = restore_axes(out_grad, axis, keepdims, x.ndim)
    return grad * (powers / jnp.where(total == 0, jnp.ones_like(total), total))


@logsumexp.jvp
def logsumexp_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """out_tangent = sum(softmax(x) * x_tangent)."""
    ones = emit("ones_like", values["out"][0])
    (softmax,) = apply("logsumexp.vjp", {"x": values["x"], "out_grad": (ones,)}, attrs)[
        "x_grad"
    ]
    return {"out": (emit("sum", softmax * tangents["x"][0], **attrs),)}
