"""The incomplete gamma and beta functions: distribution functions, with all their derivatives.

JAX has some of the slopes; those by the parameters of a distribution are found here, by
differentiating what computes the functions forwards: a series, or a continued fraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braces.define.decorator import Tensor, op
from braces.lazy import jax_special, jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.known_derivatives import Kernel, differentiated, smooth
from braces.ops.common.rules import floating, promoted, real_function
from braces.ops.special.gamma_kernels import log_weight

PAIRS = ("a=f32[2,3] x=f32[2,3]", "a=f64[b,1] x=f64[4]")
STEPS = 10_000
"""No sum and no continued fraction takes more."""


# ---- what is summed up -----------------------------------------------------------------------


def summed(factor: Kernel, like: Any) -> Any:
    """1 + f1 + f1 * f2 + ..., until nothing changes; `factor(k)` is positive.

    It goes on a little longer, for the sake of derivatives.
    """
    least = 1e-3 * np.finfo(like.dtype).eps

    def goes_on(state: Any) -> Any:
        step, _, _, moved = state
        return (step < STEPS) & jnp.any(moved)

    def lengthened(state: Any) -> Any:
        step, term, total, moved = state
        term = jnp.where(moved, term * factor(step), 0)
        total = total + term
        return step + 1, term, total, moved & (term > least * total)

    ones = jnp.ones_like(like)
    start = jnp.ones((), like.dtype), ones, ones, like == like
    return lax.while_loop(goes_on, lengthened, start)[2]


def continued(fraction: Callable[[float], tuple[Any, Callable[[Any], tuple[Any, Any]]]]) -> Any:
    """The continued fraction first + a1 / (b1 + a2 / (b2 + ...)), by Lentz's algorithm.

    One that ends, as that of a whole parameter does, is known before its derivatives are, which
    do not end. So another one runs beside it, that does not end where it does: both go on until
    neither changes.

    Args:
        fraction: From what is added to parameters to what comes before all fractions, and to a
            function of k, counted from 1 on, that gives what is divided, and by what.
    """
    (first, terms), (beside, others) = fraction(0.0), fraction(0.5)
    both, dtype = jnp.stack([first, beside]), first.dtype
    tiny, least = np.finfo(dtype).tiny * 1e5, np.finfo(dtype).eps

    def away(value: Any) -> Any:
        return jnp.where(jnp.abs(value) < tiny, tiny, value)

    def goes_on(state: Any) -> Any:
        step, _, _, _, moved = state
        return (step < STEPS) & jnp.any(moved)

    def lengthened(state: Any) -> Any:
        step, above, under, value, moved = state
        over, by = map(jnp.stack, zip(terms(step), others(step), strict=True))
        above, under = away(by + over / above), 1 / away(by + over * under)
        factor = above * under
        further = jnp.where(moved, value * factor, value)
        goes = jnp.any(jnp.abs(factor - 1) > least, axis=0)
        return step + 1, above, under, further, moved & goes

    start = jnp.ones((), dtype), both, jnp.zeros_like(both), both, first == first
    return lax.while_loop(goes_on, lengthened, start)[3][0]


# ---- gamma -----------------------------------------------------------------------------------


def _gamma_density(a: Any, x: Any) -> Any:
    return jnp.exp(jax_special.xlogy(a - 1, x) - x - lax.lgamma(a))


def below_over_density(a: Any, x: Any) -> Any:
    """https://dlmf.nist.gov/8.11.E4."""
    return x / a * summed(lambda k: x / (a + k), x)


def above_over_density(a: Any, x: Any) -> Any:
    """https://dlmf.nist.gov/8.9.E2, which is short where x is large."""

    def fraction(more: float) -> Any:
        p = a + more
        return x + 1 - p, lambda k: (k * (p - k), x + 2 * k + 1 - p)

    return x / continued(fraction)


def _sample_slope(a: Any, x: Any) -> Any:
    """-(slope of what is below by a) / density, of which either side of `x` tells.

    What is below is density * l(a, x), and the logarithm of the density has the slope
    log(x) - digamma(a).
    """
    left = (x <= 1) | (x <= a)
    at = jnp.where(left, x, a), jnp.where(left, a + 2, x)
    tilt = jnp.where(x > 0, jnp.log(x), 0) - lax.digamma(a)
    below, above = (
        part(a, x) * tilt + differentiated(part, 1, 0)(a, x)
        for part, x in zip((below_over_density, above_over_density), at, strict=True)
    )
    known = (a > 0) & (x >= 0)
    return jnp.where(known, jnp.where(left, -below, above), jnp.nan)


def _sample_slope_by_x(a: Any, x: Any) -> Any:
    return lax.digamma(a) - jnp.log(x) - sample_slope(a, x) * ((a - 1) / x - 1)


def _sample(by_a: int, by_x: int) -> Kernel:
    if by_x:
        return differentiated(_sample_slope_by_x, by_a, by_x - 1)
    return differentiated(_sample_slope, by_a, 0)


sample_slope = smooth(2, _sample)


def _below_by_a(a: Any, x: Any) -> Any:
    """As a number moves with `a` for a probability, so does the probability of a number."""
    return -sample_slope(a, x) * _gamma_density(a, x)


def _below(by_a: int, by_x: int) -> Kernel:
    if by_x:
        return differentiated(_gamma_density, by_a, by_x - 1)
    return differentiated(_below_by_a, by_a - 1, 0) if by_a else lax.igamma


def _above(by_a: int, by_x: int) -> Kernel:
    if not by_a and not by_x:
        return lax.igammac
    below = _below(by_a, by_x)
    return lambda a, x: -below(a, x)


below = smooth(2, _below)
above = smooth(2, _above)


@op(axes="..., ... -> ...", dtypes=real_function, costly=True, operations=200, examples=PAIRS)
@in_float32
def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """How likely a gamma variable is below `x`: the lower incomplete gamma function.

        out[i] = integral from 0 to x[i] of t^(a[i] - 1) e^-t, over gamma(a[i])

    There are derivatives of every order by both.

    Inputs:
        a: real[*shape]. The shape of the distribution; NaN below 0.
        x: real[*shape], broadcast against `a`. NaN below 0.

    Outputs:
        out: float[*shape], between 0 and 1; integers give float32.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Complex numbers.
    """
    return below(*map(floating, promoted(a, x)))


@op(axes="..., ... -> ...", dtypes=real_function, costly=True, operations=200, examples=PAIRS)
@in_float32
def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    """How likely a gamma variable is above `x`; exact where `gammainc` is near 1.

        out[i] = 1 - gammainc(a[i], x[i])

    There are derivatives of every order by both.

    Inputs:
        a: real[*shape]. The shape of the distribution; NaN below 0.
        x: real[*shape], broadcast against `a`. NaN below 0.

    Outputs:
        out: float[*shape], between 0 and 1; integers give float32.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Complex numbers.
    """
    return above(*map(floating, promoted(a, x)))


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
    """How a gamma variable moves with the shape of its distribution.

        out[i] = -(slope of gammainc(a[i], x[i]) by a[i]) / (its slope by x[i])

    The probability below it stays as it is. Source: Figurnov, Mohamed, Mnih, Implicit
    Reparameterization Gradients, 2018.

    Inputs:
        a: real[*shape]. NaN at 0 and below.
        x: real[*shape], broadcast against `a`. What was drawn.

    Outputs:
        out: float[*shape], not below 0; integers give float32.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Complex numbers.
    """
    return sample_slope(*map(floating, promoted(a, x)))


# ---- beta ------------------------------------------------------------------------------------


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    return jnp.exp(log_weight(a, b, x, less=1))


def _beta_fraction(a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The weight over what is below, for x + y = 1 and `x` up to the mean.

    No term cancels with another one. Didonato, Morris, Algorithm 708: Significant Digit
    Computation of the Incomplete Beta Function Ratios, 1992.
    """
    apart = a * y - b * x
    # Rounding makes it negative at the mean; beside what ends it is above -1/2.
    apart = 1 + apart - lax.stop_gradient(jnp.minimum(apart + 0.5, 0))

    def terms(k: Any) -> tuple[Any, Any]:
        width = a + 2 * k - 1
        left = k * (b - k) * x
        over = (a + k - 1) / width * ((a + b + k - 1) / width) * left * x
        return over, k + left / width + (a + k) / (width + 2) * (apart + k * (1 + y))

    return apart * (a / (a + 1)), terms


def beta_part_below(a: Any, b: Any, x: Any) -> Any:
    """Of numbers inside; the fraction is short on one side of the mean."""
    y = 1 - x
    left = b * x <= a * y
    first, other = jnp.where(left, a, b), jnp.where(left, b, a)
    near, far = jnp.where(left, x, y), jnp.where(left, y, x)
    value = continued(lambda more: _beta_fraction(first, other + more, near, far))
    part = jnp.exp(log_weight(a, b, x)) / value
    return jnp.where(left, part, 1 - part)


def _beta_inside(by_a: int, by_b: int) -> Kernel:
    """What is certain, is so whatever the parameters are."""
    inner = differentiated(beta_part_below, by_a, by_b, 0)

    def derivative(a: Any, b: Any, x: Any) -> Any:
        inside = (x > 0) & (x < 1)
        certain = jnp.zeros_like(x) if by_a or by_b else x
        found = jnp.where(inside, inner(a, b, jnp.where(inside, x, 0.5)), certain)
        known = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
        return jnp.where(known, found, jnp.nan)

    return derivative


def _beta(by_a: int, by_b: int, by_x: int) -> Kernel:
    if by_x:
        return differentiated(_beta_density, by_a, by_b, by_x - 1)
    return _beta_inside(by_a, by_b)


beta_below = smooth(3, _beta)


@op(
    axes="..., ..., ... -> ...",
    dtypes=real_function,
    costly=True,
    operations=600,
    examples=("a=f32[2,3] b=f32[2,3] x=f32[2,3]", "a=f64[b,1] b=f64[] x=f64[4]"),
)
@in_float32
def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """How likely a beta variable is below `x`: the incomplete beta function.

        out[i] = integral from 0 to x[i] of t^(a[i] - 1) (1 - t)^(b[i] - 1), over that up to 1

    There are derivatives of every order by all three.

    Inputs:
        a: real[*shape]. NaN below 0.
        b: real[*shape], broadcast against `a`. NaN below 0.
        x: real[*shape], broadcast against both. NaN beyond 0 and 1.

    Outputs:
        out: float[*shape], between 0 and 1; integers give float32.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Complex numbers.
    """
    return beta_below(*map(floating, promoted(a, b, x)))
