"""Incomplete gamma and beta functions: distribution functions, with all their derivatives.

JAX has some of the derivatives. Those by the parameters of a distribution are computed here, by
forward-mode differentiation of a series or a continued fraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braces.define.decorator import Tensor, op
from braces.lazy import jax_special, jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.known_derivatives import (
    Kernel,
    build_smooth_kernel,
    differentiate_kernel,
)
from braces.ops.common.rules import as_floating, promote_arrays, real_function
from braces.ops.special.gamma_kernels import log_weight

PAIRS = ("a=f32[2,3] x=f32[2,3]", "a=f64[b,1] x=f64[4]")
STEPS = 10_000
"""Maximum number of terms of a sum or continued fraction."""


# ---- series and continued fractions ----------------------------------------------------------


def sum_series(factor: Kernel, like: Any) -> Any:
    """Sum 1 + f1 + f1 * f2 + ... until it converges; `factor(k)` is positive.

    The tolerance is 1/1000 of the machine epsilon, so that derivatives converge too.
    """
    tolerance = 1e-3 * np.finfo(like.dtype).eps

    def is_unfinished(state: Any) -> Any:
        step, _, _, changed = state
        return (step < STEPS) & jnp.any(changed)

    def add_term(state: Any) -> Any:
        step, term, total, changed = state
        term = jnp.where(changed, term * factor(step), 0)
        total = total + term
        return step + 1, term, total, changed & (term > tolerance * total)

    ones = jnp.ones_like(like)
    start = jnp.ones((), like.dtype), ones, ones, like == like
    return lax.while_loop(is_unfinished, add_term, start)[2]


def evaluate_fraction(
    fraction: Callable[[float], tuple[Any, Callable[[Any], tuple[Any, Any]]]],
) -> Any:
    """Evaluate a continued fraction first + a1 / (b1 + a2 / (b2 + ...)), by Lentz's algorithm.

    A fraction that terminates, as for an integer parameter, converges before its derivatives,
    which do not terminate. So a second fraction, with shifted parameters, is evaluated with it
    until both converge.

    Args:
        fraction: Function from a shift of the parameters to the first term, and to a function
            of k, counted from 1, that returns the numerator and the denominator, (ak, bk).
    """
    (first, terms), (shifted_first, shifted_terms) = fraction(0.0), fraction(0.5)
    both, dtype = jnp.stack([first, shifted_first]), first.dtype
    tiny, tolerance = np.finfo(dtype).tiny * 1e5, np.finfo(dtype).eps

    def avoid_zero(value: Any) -> Any:
        return jnp.where(jnp.abs(value) < tiny, tiny, value)

    def is_unfinished(state: Any) -> Any:
        step, _, _, _, changed = state
        return (step < STEPS) & jnp.any(changed)

    def add_term(state: Any) -> Any:
        step, above, under, value, changed = state
        over, by = map(jnp.stack, zip(terms(step), shifted_terms(step), strict=True))
        above, under = avoid_zero(by + over / above), 1 / avoid_zero(by + over * under)
        factor = above * under
        new_value = jnp.where(changed, value * factor, value)
        not_converged = jnp.any(jnp.abs(factor - 1) > tolerance, axis=0)
        return step + 1, above, under, new_value, changed & not_converged

    start = jnp.ones((), dtype), both, jnp.zeros_like(both), both, first == first
    return lax.while_loop(is_unfinished, add_term, start)[3][0]


# ---- gamma -----------------------------------------------------------------------------------


def _gamma_density(a: Any, x: Any) -> Any:
    return jnp.exp(jax_special.xlogy(a - 1, x) - x - lax.lgamma(a))


def below_over_density(a: Any, x: Any) -> Any:
    """Divide the lower tail by the density; https://dlmf.nist.gov/8.11.E4."""
    return x / a * sum_series(lambda k: x / (a + k), x)


def above_over_density(a: Any, x: Any) -> Any:
    """Divide the upper tail by the density; https://dlmf.nist.gov/8.9.E2, fast for large x."""

    def fraction(shift: float) -> Any:
        p = a + shift
        return x + 1 - p, lambda k: (k * (p - k), x + 2 * k + 1 - p)

    return x / evaluate_fraction(fraction)


def _sample_slope(a: Any, x: Any) -> Any:
    """Compute -(derivative of the lower tail by a) / density, from the smaller tail.

    The lower tail is density * l(a, x). The logarithm of the density has the derivative
    log(x) - digamma(a) by a.
    """
    left = (x <= 1) | (x <= a)
    at = jnp.where(left, x, a), jnp.where(left, a + 2, x)
    log_density_slope = jnp.where(x > 0, jnp.log(x), 0) - lax.digamma(a)
    below, above = (
        part(a, x) * log_density_slope + differentiate_kernel(part, 1, 0)(a, x)
        for part, x in zip((below_over_density, above_over_density), at, strict=True)
    )
    is_valid = (a > 0) & (x >= 0)
    return jnp.where(is_valid, jnp.where(left, -below, above), jnp.nan)


def _sample_slope_by_x(a: Any, x: Any) -> Any:
    return lax.digamma(a) - jnp.log(x) - sample_slope(a, x) * ((a - 1) / x - 1)


def _sample(by_a: int, by_x: int) -> Kernel:
    if by_x:
        return differentiate_kernel(_sample_slope_by_x, by_a, by_x - 1)
    return differentiate_kernel(_sample_slope, by_a, 0)


sample_slope = build_smooth_kernel(2, _sample)


def _below_by_a(a: Any, x: Any) -> Any:
    """Derivative of the lower tail by `a`, from that of a sample at constant probability."""
    return -sample_slope(a, x) * _gamma_density(a, x)


def _below(by_a: int, by_x: int) -> Kernel:
    if by_x:
        return differentiate_kernel(_gamma_density, by_a, by_x - 1)
    return differentiate_kernel(_below_by_a, by_a - 1, 0) if by_a else lax.igamma


def _above(by_a: int, by_x: int) -> Kernel:
    if not by_a and not by_x:
        return lax.igammac
    below = _below(by_a, by_x)
    return lambda a, x: -below(a, x)


below = build_smooth_kernel(2, _below)
above = build_smooth_kernel(2, _above)


@op(axes="..., ... -> ...", dtypes=real_function, costly=True, operations=200, examples=PAIRS)
@in_float32
def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function: P(gamma variable < `x`).

        out[i] = integral from 0 to x[i] of t^(a[i] - 1) e^-t, over gamma(a[i])

    Differentiable to every order in both.

    Inputs:
        a: real[*shape]. The shape of the distribution; NaN below 0.
        x: real[*shape], broadcast against `a`. NaN below 0.

    Outputs:
        out: float[*shape], between 0 and 1; integers give float32.
    """
    return below(*map(as_floating, promote_arrays(a, x)))


@op(axes="..., ... -> ...", dtypes=real_function, costly=True, operations=200, examples=PAIRS)
@in_float32
def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function; precise where `gammainc` is near 1.

        out[i] = 1 - gammainc(a[i], x[i])

    Differentiable to every order in both.

    Inputs:
        a: real[*shape]. The shape of the distribution; NaN below 0.
        x: real[*shape], broadcast against `a`. NaN below 0.

    Outputs:
        out: float[*shape], between 0 and 1; integers give float32.
    """
    return above(*map(as_floating, promote_arrays(a, x)))


@op(
    function=False,
    axes="..., ... -> ...",
    dtypes=real_function,
    costly=True,
    operations=400,
    examples=PAIRS,
)
@in_float32
def gamma_sample_slope(a: Tensor, x: Tensor) -> Tensor:
    """The implicit reparameterization gradient of a gamma variable by its shape parameter.

        out[i] = -(derivative of gammainc(a[i], x[i]) by a[i]) / (its derivative by x[i])

    The cumulative probability of the sample is constant. Source: Figurnov, Mohamed, Mnih,
    Implicit Reparameterization Gradients, 2018.

    Inputs:
        a: real[*shape]. NaN at 0 and below.
        x: real[*shape], broadcast against `a`. The samples.

    Outputs:
        out: float[*shape], not below 0; integers give float32.
    """
    return sample_slope(*map(as_floating, promote_arrays(a, x)))


# ---- beta ------------------------------------------------------------------------------------


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    return jnp.exp(log_weight(a, b, x, less=1))


def _beta_fraction(a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Continued fraction of the weight over the lower tail, for x + y = 1 and x up to the mean.

    No terms cancel. Source: Didonato, Morris, Algorithm 708: Significant Digit Computation of
    the Incomplete Beta Function Ratios, 1992.
    """
    distance = a * y - b * x
    # Rounding may make it negative at the mean; in the shifted fraction it is above -1/2.
    distance = 1 + distance - lax.stop_gradient(jnp.minimum(distance + 0.5, 0))

    def terms(k: Any) -> tuple[Any, Any]:
        width = a + 2 * k - 1
        scaled = k * (b - k) * x
        numerator = (a + k - 1) / width * ((a + b + k - 1) / width) * scaled * x
        return numerator, k + scaled / width + (a + k) / (width + 2) * (distance + k * (1 + y))

    return distance * (a / (a + 1)), terms


def beta_part_below(a: Any, b: Any, x: Any) -> Any:
    """Compute the lower tail for x in (0, 1), by the fraction on the fast side of the mean."""
    y = 1 - x
    left = b * x <= a * y
    first, other = jnp.where(left, a, b), jnp.where(left, b, a)
    near, far = jnp.where(left, x, y), jnp.where(left, y, x)
    value = evaluate_fraction(lambda shift: _beta_fraction(first, other + shift, near, far))
    part = jnp.exp(log_weight(a, b, x)) / value
    return jnp.where(left, part, 1 - part)


def _beta_inside(by_a: int, by_b: int) -> Kernel:
    """Differentiate by the parameters; zero at x = 0 and x = 1, where the value is constant."""
    inner = differentiate_kernel(beta_part_below, by_a, by_b, 0)

    def derivative(a: Any, b: Any, x: Any) -> Any:
        inside = (x > 0) & (x < 1)
        boundary = jnp.zeros_like(x) if by_a or by_b else x
        value = jnp.where(inside, inner(a, b, jnp.where(inside, x, 0.5)), boundary)
        is_valid = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
        return jnp.where(is_valid, value, jnp.nan)

    return derivative


def _beta(by_a: int, by_b: int, by_x: int) -> Kernel:
    if by_x:
        return differentiate_kernel(_beta_density, by_a, by_b, by_x - 1)
    return _beta_inside(by_a, by_b)


beta_below = build_smooth_kernel(3, _beta)


@op(
    axes="..., ..., ... -> ...",
    dtypes=real_function,
    costly=True,
    operations=600,
    examples=("a=f32[2,3] b=f32[2,3] x=f32[2,3]", "a=f64[b,1] b=f64[] x=f64[4]"),
)
@in_float32
def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The regularized incomplete beta function: P(beta variable < `x`).

        out[i] = integral from 0 to x[i] of t^(a[i] - 1) (1 - t)^(b[i] - 1), over that up to 1

    Differentiable to every order in all three.

    Inputs:
        a: real[*shape]. NaN below 0.
        b: real[*shape], broadcast against `a`. NaN below 0.
        x: real[*shape], broadcast against both. NaN outside [0, 1].

    Outputs:
        out: float[*shape], between 0 and 1; integers give float32.
    """
    return beta_below(*map(as_floating, promote_arrays(a, b, x)))
