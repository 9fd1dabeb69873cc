"""Modified Bessel functions, plain and exponentially scaled."""

from __future__ import annotations

from braces.builder.append import emit
from braces.define.decorator import Tensor, op
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real_function
from braces.ops.elementwise.unary import UNARY

function = op(axes="... -> ...", dtypes=real_function, operations=120, examples=UNARY[:2])


@function
@in_float32
def i0(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind, of order 0.

        out[i] = integral from 0 to pi of exp(x[i] * cos(t)), over pi

    Inputs:
        x: real[*shape]. Overflows from about 90 on in float32; see `i0e`.
    """
    x = as_floating(x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x)


i0.gradient(lambda g: {"x": g.out_grad * emit("i1", g["x"])})


@function
@in_float32
def i0e(x: Tensor) -> Tensor:
    """The exponentially scaled modified Bessel function of order 0, which does not overflow.

    out[i] = exp(-|x[i]|) * i0(x[i])
    """
    return lax.bessel_i0e(as_floating(x))


@function
@in_float32
def i1(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind, of order 1.

        out[i] = integral from 0 to pi of exp(x[i] * cos(t)) * cos(t), over pi

    Inputs:
        x: real[*shape]. Overflows from about 90 on in float32; see `i1e`.
    """
    x = as_floating(x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x)


@function
@in_float32
def i1e(x: Tensor) -> Tensor:
    """The exponentially scaled modified Bessel function of order 1, which does not overflow.

    out[i] = exp(-|x[i]|) * i1(x[i])
    """
    return lax.bessel_i1e(as_floating(x))
