"""Kernels of the gamma function where those of JAX are not accurate, with their derivatives.

hurwitz      sums of powers beside poles: the derivatives of `digamma` at negative numbers
log_gamma    its derivatives of every order
log_beta     without the cancellation of three large logarithms
log_weight   the same for a power of x and one of 1 - x over the beta function
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braces.lazy import jax_special, jnp, lax
from braces.ops.common.known_derivatives import Kernel, differentiated, smooth

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""The Bernoulli numbers of even order, from 2 on."""

# ---- derivatives of lgamma -------------------------------------------------------------------


def hurwitz(s: Any, q: Any) -> Any:
    """The sum of (q + k)^-s over k from 0 on; below 0 for integers `s`.

    There it follows from sums of positive numbers alone: all terms, with `q + k` on either side
    of 0, less those that would come before the first.
    """
    below = (q < 0) & (s == jnp.floor(s)) & (q != jnp.floor(q))
    ahead = jnp.where(below, q - jnp.floor(q), q)
    behind = jnp.where(below, jnp.ceil(q) - q, 1)
    missing = jnp.where(below, 1 - q, 1)
    sign = jnp.where(s % 2 == 0, jnp.ones_like(s), -jnp.ones_like(s))
    rest = sign * (lax.zeta(s, behind) - lax.zeta(s, missing))
    return lax.zeta(s, ahead) + jnp.where(below, rest, 0)


def _polygamma(by_n: int, by_x: int) -> Kernel:
    assert not by_n, "orders are integers"

    def slope(n: Any, x: Any) -> Any:
        n = n + by_x
        sign = jnp.where(n % 2 == 0, -jnp.ones_like(x), jnp.ones_like(x))
        made = sign * jnp.exp(lax.lgamma(n + 1)) * hurwitz(n + 1, x)
        return jnp.where(n == 0, lax.digamma(x), made)

    return slope


polygamma = smooth(2, _polygamma)


def _log_gamma(order: int) -> Kernel:
    if order < 2:
        return lax.digamma if order else lax.lgamma
    sign, factor = (-1.0) ** order, math.factorial(order - 1)

    def slope(x: Any) -> Any:
        return np.asarray(sign * factor, x.dtype) * hurwitz(jnp.full_like(x, order), x)

    return slope


log_gamma = smooth(1, _log_gamma)
digamma = smooth(1, lambda order: _log_gamma(order + 1))

# ---- the beta function -----------------------------------------------------------------------

LARGE = 10
"""From here on the series of Stirling has all digits of float64."""


def _stirling(z: Any) -> Any:
    """lgamma(z) - (z - 1/2) log(z) + z - log(2 pi) / 2; https://dlmf.nist.gov/5.11.E1."""
    total, power = jnp.zeros_like(z), 1 / z
    for k, number in enumerate(BERNOULLI, 1):
        total = total + np.asarray(number / (2 * k * (2 * k - 1)), z.dtype) * power
        power = power / (z * z)
    return total


def _from_logarithms(x: Any, y: Any) -> Any:
    """The logarithm of the beta function; that of large numbers by the series of Stirling.

    The series has the parts of lgamma(a) - lgamma(a + b) that nearly cancel in one logarithm.
    """
    a, b = jnp.maximum(x, y), jnp.minimum(x, y)
    large = (a >= LARGE) & (a + b >= LARGE)
    a, second, whole = (jnp.where(large, z, LARGE) for z in (a, b, a + b))
    b = jnp.where(large & (b >= LARGE), b, LARGE)
    tail = _stirling(a) - _stirling(whole) - (a - 0.5) * jnp.log1p(second / a)
    near = lax.lgamma(second) + second - second * jnp.log(whole) + tail
    half = np.asarray(math.log(2 * math.pi) / 2, a.dtype)
    far = half - jnp.log(b) / 2 + b * jnp.log(b / whole) + _stirling(b) + tail
    small = lax.lgamma(x) + lax.lgamma(y) - lax.lgamma(x + y)
    return jnp.where(large, jnp.where(second >= LARGE, far, near), small)


def _digamma_tail(z: Any) -> Any:
    """digamma(z) - log(z) + 1 / (2 z); https://dlmf.nist.gov/5.11.E2."""
    total, power = jnp.zeros_like(z), 1 / (z * z)
    for k, number in enumerate(BERNOULLI, 1):
        total = total - np.asarray(number / (2 * k), z.dtype) * power
        power = power / (z * z)
    return total


def _between(x: Any, y: Any) -> Any:
    """digamma(x) - digamma(x + y), which nearly cancel where `x` is large."""
    large = (x >= LARGE) & (x + y >= LARGE)
    a, b = jnp.where(large, x, LARGE), jnp.where(large, y, 0)
    whole = a + b
    tails = _digamma_tail(a) - _digamma_tail(whole)
    near = tails - b / (2 * a * whole) - jnp.log1p(b / a)
    return jnp.where(large, near, digamma(x) - digamma(x + y))


def _log_beta(by_x: int, by_y: int) -> Kernel:
    if by_x:
        return differentiated(_between, by_x - 1, by_y)
    if by_y:
        return differentiated(lambda x, y: _between(y, x), 0, by_y - 1)
    return _from_logarithms


log_beta = smooth(2, _log_beta)


# ---- powers over the beta function -----------------------------------------------------------

NEAR, TERMS = 0.4, 14
"""Up to `NEAR`, so many terms have all digits of float64."""


def _log1p_rest(t: Any, log: Any) -> Any:
    """log(1 + t) - t, where `log` is log(1 + t); by a series near 0, where both are close."""
    near = jnp.abs(t) < NEAR
    small = jnp.where(near, t, 0)
    s = small / (2 + small)
    total = jnp.zeros_like(s)
    for k in reversed(range(TERMS)):
        total = total * s * s + np.asarray(2 / (2 * k + 3), s.dtype)
    return jnp.where(near, s * (s * s * total - small), log - t)


def _balanced(a: Any, b: Any, x: Any) -> Any:
    """The logarithm of x^a (1 - x)^b / beta(a, b), for large parameters.

    Both powers are taken relative to the mean, at which they are largest: Loader, Fast and
    Accurate Computation of Binomial Probabilities, 2000.
    """
    whole = a + b
    apart = x * b - (1 - x) * a
    logs = jnp.log(x) + jnp.log(whole / a), jnp.log1p(-x) + jnp.log(whole / b)
    powers = a * _log1p_rest(apart / a, logs[0]) + b * _log1p_rest(-apart / b, logs[1])
    spread = jnp.log(a) + jnp.log(b / whole) - np.asarray(math.log(2 * math.pi), a.dtype)
    return powers + spread / 2 + _stirling(whole) - _stirling(a) - _stirling(b)


def log_weight(a: Any, b: Any, x: Any, less: int = 0) -> Any:
    """The logarithm of x^(a - less) (1 - x)^(b - less) / beta(a, b)."""
    large = (a >= LARGE) & (b >= LARGE) & (x > 0) & (x < 1)
    first, second = (jnp.where(large, z, LARGE) for z in (a, b))
    inner = jnp.where(large, x, 0.5)
    balanced = _balanced(first, second, inner) - less * (jnp.log(inner) + jnp.log1p(-inner))
    powers = jax_special.xlogy(a - less, x) + jax_special.xlog1py(b - less, -x)
    return jnp.where(large, balanced, powers - log_beta(a, b))
