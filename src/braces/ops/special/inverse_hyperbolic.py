"""Inverse hyperbolic functions, roots, and the special functions of statistics."""

from __future__ import annotations

from braces.define.decorator import Tensor, op
from braces.lazy import jax_special, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real_function
from braces.ops.elementwise.unary import UNARY, WITH_INTEGERS
from braces.ops.special import gamma_kernels

function = op(axes="... -> ...", dtypes=real_function, operations=4, examples=WITH_INTEGERS)


@function
@in_float32
def arccosh(x: Tensor) -> Tensor:
    """The inverse of `cosh`.

        out[i] = log(x[i] + sqrt(x[i]^2 - 1))

    Inputs:
        x: real[*shape]. NaN below 1.
    """
    return lax.acosh(as_floating(x))


@function
@in_float32
def arcsinh(x: Tensor) -> Tensor:
    """The inverse of `sinh`.

    out[i] = log(x[i] + sqrt(x[i]^2 + 1))
    """
    return lax.asinh(as_floating(x))


@function
@in_float32
def arctanh(x: Tensor) -> Tensor:
    """The inverse of `tanh`.

        out[i] = log((1 + x[i]) / (1 - x[i])) / 2

    Inputs:
        x: real[*shape]. NaN outside [-1, 1].
    """
    return lax.atanh(as_floating(x))


@function
@in_float32
def cbrt(x: Tensor) -> Tensor:
    """The cube root.

    out[i]^3 = x[i]
    """
    return lax.cbrt(as_floating(x))


@function
@in_float32
def digamma(x: Tensor) -> Tensor:
    """The digamma function: the derivative of the logarithm of the gamma function.

    out[i] = lgamma'(x[i])
    """
    return gamma_kernels.digamma(as_floating(x))


@function
@in_float32
def entr(x: Tensor) -> Tensor:
    """The entropy of a probability, its term in the entropy of a distribution.

        out[i] = -x[i] * log(x[i])

    Inputs:
        x: real[*shape]. 0 gives 0; a negative number gives minus infinity.

    Outputs:
        out: float[*shape], in nats; integers give float32.
    """
    return jax_special.entr(as_floating(x))


@function
@in_float32
def erfc(x: Tensor) -> Tensor:
    """The complementary error function, precise where `erf` is near 1.

    out[i] = 1 - erf(x[i])
    """
    return lax.erfc(as_floating(x))


@function
@in_float32
def erfinv(x: Tensor) -> Tensor:
    """The inverse of the error function.

        erf(out[i]) = x[i]

    Inputs:
        x: real[*shape]. Infinite at -1 and 1, NaN beyond.
    """
    return lax.erf_inv(as_floating(x))


@function
@in_float32
def exp2(x: Tensor) -> Tensor:
    """Powers of two.

    out[i] = 2^x[i]
    """
    return lax.exp2(as_floating(x))


@function
@in_float32
def lgamma(x: Tensor) -> Tensor:
    """The logarithm of the absolute value of the gamma function.

    out[i] = log |integral from 0 to infinity of t^(x[i] - 1) e^-t|
    """
    return gamma_kernels.log_gamma(as_floating(x))


@op(axes="... -> ...", dtypes=real_function, operations=4, examples=UNARY)
@in_float32
def logit(x: Tensor) -> Tensor:
    """The log-odds; the inverse of `sigmoid`.

        out[i] = log(x[i] / (1 - x[i]))

    Inputs:
        x: real[*shape]. Infinite at 0 and 1, NaN beyond.
    """
    return jax_special.logit(as_floating(x))
