"""Elementwise trigonometric, hyperbolic and error functions."""

from __future__ import annotations

import math

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.decorator import Tensor, op
from braces.lazy import jax, jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real_function, real_valued
from braces.ops.elementwise.elementwise_derivatives import by_precision
from braces.ops.elementwise.unary import WITH_INTEGERS

# ---- trigonometry ----------------------------------------------------------------------------


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def sin(x: Tensor) -> Tensor:
    """The sine of an angle in radians.

    out[i] = sin(x[i])
    """
    return jnp.sin(as_floating(x))


sin.gradient(lambda g: {"x": g.out_grad * emit("cos", g["x"])})


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def cos(x: Tensor) -> Tensor:
    """The cosine of an angle in radians.

    out[i] = cos(x[i])
    """
    return jnp.cos(as_floating(x))


cos.gradient(lambda g: {"x": -(g.out_grad * emit("sin", g["x"]))})


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
@in_float32
def tan(x: Tensor) -> Tensor:
    """The tangent of an angle in radians.

    out[i] = sin(x[i]) / cos(x[i])
    """
    return jnp.tan(as_floating(x))


tan.vjp(in_float32(lambda out, out_grad: out_grad * (1 + out * out)))


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
@in_float32
def arcsin(x: Tensor) -> Tensor:
    """The inverse sine; NaN outside of [-1, 1].

        out[i] = asin(x[i])

    Outputs:
        out: float[*shape]; integers give float32. Radians.
    """
    return jnp.arcsin(as_floating(x))


arcsin.vjp(in_float32(lambda x, out_grad: out_grad * lax.rsqrt(1 - x * x)))


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
@in_float32
def arccos(x: Tensor) -> Tensor:
    """The inverse cosine; NaN outside of [-1, 1].

        out[i] = acos(x[i])

    Outputs:
        out: float[*shape]; integers give float32. Radians.
    """
    return jnp.arccos(as_floating(x))


arccos.vjp(in_float32(lambda x, out_grad: -out_grad * lax.rsqrt(1 - x * x)))


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
@in_float32
def arctan(x: Tensor) -> Tensor:
    """The inverse tangent.

        out[i] = atan(x[i])

    Outputs:
        out: float[*shape]; integers give float32. Radians.
    """
    return jnp.arctan(as_floating(x))


arctan.vjp(in_float32(lambda x, out_grad: out_grad / (1 + x * x)))


# ---- hyperbolic and error functions ----------------------------------------------------------


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def sinh(x: Tensor) -> Tensor:
    """The hyperbolic sine.

    out[i] = (e^x[i] - e^-x[i]) / 2
    """
    return jnp.sinh(as_floating(x))


sinh.gradient(lambda g: {"x": g.out_grad * emit("cosh", g["x"])})


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def cosh(x: Tensor) -> Tensor:
    """The hyperbolic cosine.

    out[i] = (e^x[i] + e^-x[i]) / 2
    """
    return jnp.cosh(as_floating(x))


cosh.gradient(lambda g: {"x": g.out_grad * emit("sinh", g["x"])})


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
@in_float32
def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent, between -1 and 1.

    out[i] = sinh(x[i]) / cosh(x[i])
    """
    return jnp.tanh(as_floating(x))


@tanh.vjp
@in_float32
def tanh_vjp(out: Tensor, out_grad: Tensor) -> Tensor:
    """x_grad = out_grad * (1 - out^2); `x` is a residual for 16-bit floats only."""
    return out_grad * (1 - out * out)


@op(axes="... -> ...", dtypes=real_valued, operations=4, examples=WITH_INTEGERS)
@in_float32
def sigmoid(x: Tensor) -> Tensor:
    """The logistic function, between 0 and 1.

    out[i] = 1 / (1 + e^-x[i])
    """
    return jax.nn.sigmoid(as_floating(x))


@sigmoid.vjp
@in_float32
def sigmoid_vjp(out: Tensor, out_grad: Tensor) -> Tensor:
    """x_grad = out_grad * out * (1 - out); `x` is a residual for 16-bit floats only."""
    return out_grad * (out * (1 - out))


def bell(x: Var) -> Var:
    """Build the derivative of `sigmoid`, sigmoid(x) * sigmoid(-x), without cancellation."""
    return emit("sigmoid", x) * emit("sigmoid", -x)


by_precision(sigmoid, bell)
by_precision(tanh, lambda x: bell(x * 2.0) * 4.0)


@op(axes="... -> ...", dtypes=real_function, examples=WITH_INTEGERS)
@in_float32
def erf(x: Tensor) -> Tensor:
    """The error function, between -1 and 1.

    out[i] = 2 / sqrt(pi) * integral from 0 to x[i] of e^(-t^2)
    """
    return lax.erf(as_floating(x))


erf.vjp(in_float32(lambda x, out_grad: out_grad * (2 / math.sqrt(math.pi)) * jnp.exp(-x * x)))
