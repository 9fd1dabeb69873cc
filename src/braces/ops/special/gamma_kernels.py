"""Kernels related to gamma that are more accurate than those of JAX, with derivatives.

hurwitz      the Hurwitz zeta function near poles: derivatives of `digamma` at negative numbers
log_gamma    derivatives of every order
log_beta     without the cancellation of three large logarithms
log_weight   likewise for a power of x times a power of 1 - x, over the beta function
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braces.lazy import jax_special, jnp, lax
from braces.ops.common.known_derivatives import (
    Kernel,
    build_smooth_kernel,
    differentiate_kernel,
)

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""The Bernoulli numbers of even order, from 2 on."""

# ---- derivatives of lgamma -------------------------------------------------------------------


def hurwitz(s: Any, q: Any) -> Any:
    """The Hurwitz zeta function: the sum of (q + k)^-s over k from 0 on.

    For integers `s`, `q` may be negative. The result is then a combination of sums of positive
    numbers: the terms with `q + k` on both sides of 0, minus those before the first.
    """
    below = (q < 0) & (s == jnp.floor(s)) & (q != jnp.floor(q))
    ahead = jnp.where(below, q - jnp.floor(q), q)
    behind = jnp.where(below, jnp.ceil(q) - q, 1)
    missing = jnp.where(below, 1 - q, 1)
    sign = jnp.where(s % 2 == 0, jnp.ones_like(s), -jnp.ones_like(s))
    correction = sign * (lax.zeta(s, behind) - lax.zeta(s, missing))
    return lax.zeta(s, ahead) + jnp.where(below, correction, 0)


def _polygamma(by_n: int, by_x: int) -> Kernel:
    assert not by_n, "no derivative with respect to an integer order"

    def derivative(n: Any, x: Any) -> Any:
        n = n + by_x
        sign = jnp.where(n % 2 == 0, -jnp.ones_like(x), jnp.ones_like(x))
        nonzero_order = sign * jnp.exp(lax.lgamma(n + 1)) * hurwitz(n + 1, x)
        return jnp.where(n == 0, lax.digamma(x), nonzero_order)

    return derivative


polygamma = build_smooth_kernel(2, _polygamma)


def _log_gamma(order: int) -> Kernel:
    if order < 2:
        return lax.digamma if order else lax.lgamma
    sign, factor = (-1.0) ** order, math.factorial(order - 1)

    def derivative(x: Any) -> Any:
        return np.asarray(sign * factor, x.dtype) * hurwitz(jnp.full_like(x, order), x)

    return derivative


log_gamma = build_smooth_kernel(1, _log_gamma)
digamma = build_smooth_kernel(1, lambda order: _log_gamma(order + 1))

# ---- the beta function -----------------------------------------------------------------------

LARGE = 10
"""Smallest number for which Stirling's series is accurate to float64 precision."""


def _stirling(z: Any) -> Any:
    """lgamma(z) - (z - 1/2) log(z) + z - log(2 pi) / 2; https://dlmf.nist.gov/5.11.E1."""
    total, power = jnp.zeros_like(z), 1 / z
    for k, number in enumerate(BERNOULLI, 1):
        total = total + np.asarray(number / (2 * k * (2 * k - 1)), z.dtype) * power
        power = power / (z * z)
    return total


def _from_logarithms(x: Any, y: Any) -> Any:
    """Compute the logarithm of the beta function, for large numbers by Stirling's series.

    The series combines the nearly cancelling parts of lgamma(a) - lgamma(a + b) in one
    logarithm.
    """
    a, b = jnp.maximum(x, y), jnp.minimum(x, y)
    large = (a >= LARGE) & (a + b >= LARGE)
    a, second, total = (jnp.where(large, z, LARGE) for z in (a, b, a + b))
    b = jnp.where(large & (b >= LARGE), b, LARGE)
    tail = _stirling(a) - _stirling(total) - (a - 0.5) * jnp.log1p(second / a)
    near = lax.lgamma(second) + second - second * jnp.log(total) + tail
    half = np.asarray(math.log(2 * math.pi) / 2, a.dtype)
    far = half - jnp.log(b) / 2 + b * jnp.log(b / total) + _stirling(b) + tail
    small = lax.lgamma(x) + lax.lgamma(y) - lax.lgamma(x + y)
    return jnp.where(large, jnp.where(second >= LARGE, far, near), small)


def _digamma_tail(z: Any) -> Any:
    """digamma(z) - log(z) + 1 / (2 z); https://dlmf.nist.gov/5.11.E2."""
    total, power = jnp.zeros_like(z), 1 / (z * z)
    for k, number in enumerate(BERNOULLI, 1):
        total = total - np.asarray(number / (2 * k), z.dtype) * power
        power = power / (z * z)
    return total


def _digamma_difference(x: Any, y: Any) -> Any:
    """Compute digamma(x) - digamma(x + y), without cancellation for large `x`."""
    large = (x >= LARGE) & (x + y >= LARGE)
    a, b = jnp.where(large, x, LARGE), jnp.where(large, y, 0)
    total = a + b
    tails = _digamma_tail(a) - _digamma_tail(total)
    near = tails - b / (2 * a * total) - jnp.log1p(b / a)
    return jnp.where(large, near, digamma(x) - digamma(x + y))


def _log_beta(by_x: int, by_y: int) -> Kernel:
    if by_x:
        return differentiate_kernel(_digamma_difference, by_x - 1, by_y)
    if by_y:
        return differentiate_kernel(lambda x, y: _digamma_difference(y, x), 0, by_y - 1)
    return _from_logarithms


log_beta = build_smooth_kernel(2, _log_beta)


# ---- powers over the beta function -----------------------------------------------------------

NEAR, TERMS = 0.4, 14
"""Up to `NEAR`, the series needs `TERMS` terms for float64 precision."""


def _log1p_rest(t: Any, log: Any) -> Any:
    """Compute log(1 + t) - t from t and log(1 + t); near 0, where both cancel, by a series."""
    near = jnp.abs(t) < NEAR
    small = jnp.where(near, t, 0)
    s = small / (2 + small)
    total = jnp.zeros_like(s)
    for k in reversed(range(TERMS)):
        total = total * s * s + np.asarray(2 / (2 * k + 3), s.dtype)
    return jnp.where(near, s * (s * s * total - small), log - t)


def _balanced(a: Any, b: Any, x: Any) -> Any:
    """Compute the logarithm of x^a (1 - x)^b / beta(a, b), for large parameters.

    Both powers are computed relative to their maximum at the mean. Source: Loader, Fast and
    Accurate Computation of Binomial Probabilities, 2000.
    """
    total = a + b
    distance = x * b - (1 - x) * a
    logs = jnp.log(x) + jnp.log(total / a), jnp.log1p(-x) + jnp.log(total / b)
    powers = a * _log1p_rest(distance / a, logs[0]) + b * _log1p_rest(-distance / b, logs[1])
    log_scale = jnp.log(a) + jnp.log(b / total) - np.asarray(math.log(2 * math.pi), a.dtype)
    return powers + log_scale / 2 + _stirling(total) - _stirling(a) - _stirling(b)


def log_weight(a: Any, b: Any, x: Any, less: int = 0) -> Any:
    """Compute the logarithm of x^(a - less) (1 - x)^(b - less) / beta(a, b)."""
    large = (a >= LARGE) & (b >= LARGE) & (x > 0) & (x < 1)
    first, second = (jnp.where(large, z, LARGE) for z in (a, b))
    inner = jnp.where(large, x, 0.5)
    balanced = _balanced(first, second, inner) - less * (jnp.log(inner) + jnp.log1p(-inner))
    powers = jax_special.xlogy(a - less, x) + jax_special.xlog1py(b - less, -x)
    return jnp.where(large, balanced, powers - log_beta(a, b))
