"""Shrinkage activations, and variants of the sigmoid and exponential units."""

from __future__ import annotations

from braces.define.completed_doc import described
from braces.define.decorator import Tensor, op
from braces.dtypes import DType
from braces.errors import ProgramError
from braces.lazy import jax, jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import FLOATS, as_floating, real_function
from braces.ops.elementwise.elementwise_derivatives import forward_as_backward
from braces.ops.elementwise.unary import UNARY

WITH_THRESHOLD = (*UNARY, "x=f32[5] threshold=1.0")


@described("real", FLOATS, "If the dtype is complex.")
def _check_threshold(what: str, x: DType, *, threshold: float) -> DType:
    """Dtype rule: that of a real function; the threshold is not negative."""
    if not threshold >= 0:
        raise ProgramError(f"{what}: expected a nonnegative threshold, got {threshold}.")
    return real_function(what, x)


@described("real", FLOATS, "If the dtype is complex.")
def _check_alpha(what: str, x: DType, *, alpha: float) -> DType:
    """Dtype rule: that of a real function; alpha is a divisor and not 0."""
    if alpha == 0:
        raise ProgramError(f"{what}: expected a nonzero alpha, got 0.", fix="Use br.relu.")
    return real_function(what, x)


@op(axes="... -> ...", dtypes=_check_threshold, operations=2, examples=WITH_THRESHOLD)
def hard_shrink(x: Tensor, *, threshold: float = 0.5) -> Tensor:
    """Hard shrinkage: numbers up to a threshold become 0, with gradient 0.

        out[i] = x[i] if |x[i]| > threshold else 0

    Attributes:
        threshold: The largest absolute value that becomes 0.

    Raises:
        ProgramError: If the threshold is below 0.
        DTypeError: If the dtype is complex.
    """
    x = as_floating(x)
    return jnp.where(jnp.abs(x) <= threshold, jnp.zeros_like(x), x)


@op(axes="... -> ...", dtypes=_check_threshold, operations=4, examples=WITH_THRESHOLD)
def softshrink(x: Tensor, *, threshold: float = 0.5) -> Tensor:
    """Soft shrinkage: move numbers towards 0 by a threshold; numbers within it have gradient 0.

        out[i] = sign(x[i]) * max(|x[i]| - threshold, 0)

    The proximal operator of `threshold * |x|`.

    Attributes:
        threshold: The amount by which absolute values shrink.

    Raises:
        ProgramError: If the threshold is below 0.
        DTypeError: If the dtype is complex.
    """
    x = as_floating(x)
    return jnp.where(jnp.abs(x) <= threshold, jnp.zeros_like(x), x - jnp.sign(x) * threshold)


@op(axes="... -> ...", dtypes=real_function, operations=2, examples=UNARY)
@in_float32
def tanhshrink(x: Tensor) -> Tensor:
    """Tanh shrinkage: x minus its hyperbolic tangent.

    out[i] = x[i] - tanh(x[i])
    """
    x = as_floating(x)
    return x - jnp.tanh(x)


@tanhshrink.vjp
@in_float32
def tanhshrink_vjp(x: Tensor, out_grad: Tensor) -> Tensor:
    """The cotangent times tanh(x)^2; the form `1 - tanh'(x)` would cancel."""
    return out_grad * jnp.square(jnp.tanh(x))


@op(axes="... -> ...", dtypes=real_function, operations=5, examples=UNARY)
@in_float32
def hard_swish(x: Tensor) -> Tensor:
    """The hard swish: x times its hard sigmoid.

        out[i] = x[i] * min(max(x[i] + 3, 0), 6) / 6

    Howard et al.: Searching for MobileNetV3, 2019.
    """
    return jax.nn.hard_swish(as_floating(x))


@op(axes="... -> ...", dtypes=real_function, operations=4, examples=UNARY)
@in_float32
def log_sigmoid(x: Tensor) -> Tensor:
    """The logarithm of the sigmoid, precise far below 0.

        out[i] = -log(1 + e^-x[i])

    Outputs:
        out: float[*shape], not above 0.
    """
    return jax.nn.log_sigmoid(as_floating(x))


@op(
    axes="... -> ...",
    dtypes=_check_alpha,
    operations=4,
    examples=(*UNARY, "x=f32[5] alpha=0.5"),
)
@in_float32
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """The continuously differentiable exponential linear unit; it saturates at -alpha.

        out[i] = x[i] if x[i] > 0 else alpha * (e^(x[i] / alpha) - 1)

    Barron: Continuously Differentiable Exponential Linear Units, 2017.

    Attributes:
        alpha: The negated limit at minus infinity.

    Raises:
        ProgramError: If `alpha` is 0.
        DTypeError: If the dtype is complex.
    """
    return jax.nn.celu(as_floating(x), alpha)


@celu.vjp
@in_float32
def celu_vjp(x: Tensor, out_grad: Tensor, *, alpha: float = 1.0) -> Tensor:
    """The cotangent, times `e^(x / alpha)` below zero, where `out / alpha + 1` would cancel."""
    slope = jnp.exp(jnp.where(x > 0, jnp.zeros_like(x), x) / alpha)
    return jnp.where(x > 0, out_grad, out_grad * slope)


forward_as_backward(celu, tanhshrink)
