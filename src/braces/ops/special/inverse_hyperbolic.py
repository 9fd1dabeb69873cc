"""Inverse hyperbolic functions, roots, and the special functions of statistics.

The inverse hyperbolic functions and powers of two are defined for complex numbers, with the
branch cuts of Kahan, Branch Cuts for Complex Elementary Functions, 1987. On a cut the sign of
a zero does not select the side.
"""

from __future__ import annotations

from braces.define.decorator import Tensor, op
from braces.lazy import jax_special, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real_function, real_valued
from braces.ops.elementwise.elementwise_derivatives import forward_as_backward
from braces.ops.elementwise.unary import UNARY, WITH_INTEGERS
from braces.ops.special import gamma_kernels

function = op(axes="... -> ...", dtypes=real_function, operations=4, examples=WITH_INTEGERS)
analytic = op(axes="... -> ...", dtypes=real_valued, operations=4, examples=WITH_INTEGERS)


@analytic
@in_float32
def arccosh(x: Tensor) -> Tensor:
    """The inverse of `cosh`.

        out[i] = log(x[i] + sqrt(x[i] + 1) * sqrt(x[i] - 1))

    Inputs:
        x: number[*shape]. A real number below 1 gives NaN; complex numbers are cut there.
    """
    return lax.acosh(as_floating(x))


@arccosh.vjp
@in_float32
def arccosh_vjp(x: Tensor, out_grad: Tensor) -> Tensor:
    """x_grad = out_grad / (sqrt(x - 1) * sqrt(x + 1)).

    The root of the product has the wrong sign for complex numbers of negative real part.
    """
    return out_grad * lax.rsqrt(x - 1) * lax.rsqrt(x + 1)


forward_as_backward(arccosh)


@analytic
@in_float32
def arcsinh(x: Tensor) -> Tensor:
    """The inverse of `sinh`.

        out[i] = log(x[i] + sqrt(x[i]^2 + 1))

    Inputs:
        x: number[*shape]. Complex numbers are cut along the imaginary axis beyond i and -i.
    """
    return lax.asinh(as_floating(x))


@analytic
@in_float32
def arctanh(x: Tensor) -> Tensor:
    """The inverse of `tanh`.

        out[i] = log((1 + x[i]) / (1 - x[i])) / 2

    Inputs:
        x: number[*shape]. A real number outside [-1, 1] gives NaN; complex numbers are cut
            there.
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


@analytic
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
