"""Special functions that ONNX lacks: of erf, gamma, beta and Bessel.

Each is a JAX function of supported primitives, traced like a kernel. All compute in float64,
and name the source of their formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from braces import lazy
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.extend.operators import above_over_density, below_over_density, beta_part_below
from braces.extend.types import FLOAT64

jnp: Any = lazy.jnp
lax: Any = lazy.lax

BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
"""Bernoulli numbers of even index, from the second on."""

SCALED_ERFC = (
    -0.6513268598908547, 0.6419697923564901, 0.0194764732041859, -0.009561514786808912,
    -0.0009465953444819655, 0.0003668394978524889, 4.252332480684891e-05,
    -2.0278578112804594e-05, -1.624290004385956e-06, 1.3036558351416763e-06,
    1.562644236487422e-08, -8.523809671747336e-08, 6.5290551961829894e-09,
    5.059342736424277e-09, -9.913633820750282e-10, -2.2736617783987085e-10,
    9.646919220242091e-11, 2.3927088448421144e-12, -6.884850007491559e-12,
    8.93863829414908e-13, 3.1399175954767074e-13, -1.1369557558801354e-13,
    1.3286696845629768e-15, 6.315421436837638e-15, -8.838094865013688e-16,
    -8.940893293219721e-16, 7.89363430587076e-16,
)  # fmt: skip
"""Chebyshev coefficients of log(erfc(x) exp(x^2) / t) over 2 t - 1, with t = 2 / (2 + x)."""

SHIFT = 12
"""The shift of arguments before an asymptotic series in 1 / x."""

POINTS = 48
"""The quadrature points of Bessel integrals; exact up to 20."""
FAR = 20.0


def poly(coefficients: Sequence[float], x: Any) -> Any:
    """Evaluate a polynomial, the coefficient of the highest power first."""
    total = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


# ---- erf -------------------------------------------------------------------------------------


def erfc(x: Any) -> Any:
    """T exp(-x^2 + polynomial(2 t - 1)), which is accurate in the tail, too."""
    t = 2 / (2 + jnp.abs(x))
    u, after, last = 2 * (2 * t - 1), jnp.zeros_like(x), jnp.zeros_like(x)
    for coefficient in SCALED_ERFC[:0:-1]:
        after, last = u * after - last + coefficient, after
    tail = t * jnp.exp(-x * x + SCALED_ERFC[0] + u * after / 2 - last)
    return jnp.where(x < 0, 2 - tail, tail)


def erf(x: Any) -> Any:
    """1 - erfc(x), and near 0 a series of https://dlmf.nist.gov/7.6."""
    small = jnp.where(jnp.abs(x) < 1, x, 0)
    term = total = jnp.ones_like(x)
    for k in range(1, 24):
        term = term * (2 * small * small / (2 * k + 1))
        total = total + term
    near = 2 / math.sqrt(math.pi) * small * jnp.exp(-small * small) * total
    far = jnp.where(x < 0, -1.0, 1.0) * (1 - erfc(jnp.abs(x)))
    return jnp.where(jnp.abs(x) < 1, near, far)


def erf_inv(x: Any) -> Any:
    """Halley's method from Winitzki's approximation."""
    inside = jnp.clip(jnp.abs(x), 0, 1 - 2.0**-53)
    log = jnp.log1p(-inside) + jnp.log1p(inside)
    half = 2 / (math.pi * 0.147) + log / 2
    y = jnp.sqrt(jnp.maximum(jnp.sqrt(half * half - log / 0.147) - half, 0))
    for _ in range(4):
        error_ = jnp.where(inside < 0.5, erf(y) - inside, (1 - inside) - erfc(y))
        step = error_ * jnp.exp(y * y) * (math.sqrt(math.pi) / 2)
        y = y - step / (1 + y * step)
    result = jnp.where(x < 0, -y, y)
    result = jnp.where(jnp.abs(x) == 1, x * jnp.inf, result)
    return jnp.where(jnp.abs(x) <= 1, result, jnp.nan)


# ---- gamma -----------------------------------------------------------------------------------


def lgamma(x: Any) -> Any:
    """Stirling's series of x + 12, and reflection; https://dlmf.nist.gov/5.11."""
    left = x < 0.5
    z = jnp.where(left, 1 - x, x)
    far = z + SHIFT
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:8], 1)]
    log_gamma = (far - 0.5) * jnp.log(far) - far + 0.5 * math.log(2 * math.pi)
    log_gamma = log_gamma + poly(terms[::-1], 1 / (far * far)) / far
    for k in range(SHIFT):
        log_gamma = log_gamma - jnp.log(z + k)
    log_gamma = jnp.where(jnp.isinf(z), jnp.inf, log_gamma)
    sine = jnp.abs(jnp.sin(math.pi * (x - jnp.round(x))))
    mirrored = math.log(math.pi) - jnp.log(sine) - log_gamma
    mirrored = jnp.where(sine == 0, jnp.inf, mirrored)
    return jnp.where(left, jnp.where(jnp.isinf(x), jnp.inf, mirrored), log_gamma)


def _digamma_of_zero() -> float:
    """The value of the installed JAX at the pole 0: NaN in JAX 0.10, -inf in JAX 0.11."""
    with lazy.jax.ensure_compile_time_eval():
        return float(lax.digamma(jnp.float32(0)))


def digamma(x: Any) -> Any:
    """The derivative of the same series; https://dlmf.nist.gov/5.11."""
    left = x < 0.5
    z = jnp.where(left, 1 - x, x)
    far = z + SHIFT
    terms = [b / (2 * k) for k, b in enumerate(BERNOULLI[:8], 1)]
    square = 1 / (far * far)
    psi = jnp.log(far) - 0.5 / far - square * poly(terms[::-1], square)
    for k in range(SHIFT):
        psi = psi - 1 / (z + k)
    fraction = x - jnp.round(x)
    mirrored = psi - math.pi * jnp.cos(math.pi * fraction) / jnp.sin(math.pi * fraction)
    at_pole = jnp.where(x == 0, _digamma_of_zero(), jnp.nan)
    return jnp.where(left, jnp.where(fraction == 0, at_pole, mirrored), psi)


def zeta(s: Any, q: Any) -> Any:
    """Leading terms and the Euler-Maclaurin remainder; https://dlmf.nist.gov/25.11."""
    total, far = jnp.zeros_like(s + q), q + SHIFT
    for k in range(SHIFT):
        total = total + (q + k) ** -s
    power = far**-s
    total = total + power * far / (s - 1) + power / 2
    factor = s * power / far
    for k, b in enumerate(BERNOULLI, 1):
        total = total + factor * (b / math.factorial(2 * k))
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (far * far)
    is_integer_q = q == jnp.floor(q)
    undefined = (s < 1) | ((q <= 0) & ~is_integer_q & (s != jnp.floor(s)))
    total = jnp.where((s == 1) | ((q <= 0) & is_integer_q), jnp.inf, total)
    return jnp.where(undefined, jnp.nan, total)


def polygamma(n: Any, x: Any) -> Any:
    """(-1)^(n + 1) n! zeta(n + 1, x); https://dlmf.nist.gov/5.15."""
    safe_n = jnp.maximum(n, 1)
    sign = jnp.where(n % 2 == 1, 1.0, -1.0)
    value = sign * jnp.exp(lgamma(safe_n + 1)) * zeta(safe_n + 1, x)
    defined = jnp.where((n >= 0) & (n == jnp.floor(n)), value, jnp.nan)
    return jnp.where(n == 0, digamma(x), defined)


def _gamma_halves(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return the lower and upper regularized gamma functions, the smaller computed directly."""
    left = (x <= 1) | (x <= a)
    defined = (a > 0) & (x >= 0)
    a, at = jnp.where(defined, a, 1.0), jnp.where(defined & ~jnp.isinf(x), x, 1.0)
    density = jnp.exp((a - 1) * jnp.log(jnp.where(at > 0, at, 1.0)) - at - lgamma(a))
    below = density * below_over_density(a, jnp.where(left, at, a))
    above = density * above_over_density(a, jnp.where(left, a + 2, at))
    below = jnp.where(left, jnp.where(at > 0, below, 0.0), 1 - above)
    below = jnp.where(jnp.isinf(x), 1.0, below)
    above = jnp.where(left, 1 - below, jnp.where(jnp.isinf(x), 0.0, above))
    return defined, below, above


def gammainc(a: Any, x: Any) -> Any:
    """The lower one by the series or the continued fraction of the operator's gradient."""
    defined, below, _ = _gamma_halves(a, x)
    return jnp.where(defined, below, jnp.nan)


def gammaincc(a: Any, x: Any) -> Any:
    """The upper one, as `gammainc`."""
    defined, _, above = _gamma_halves(a, x)
    return jnp.where(defined, above, jnp.nan)


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The continued fraction of the operator's gradient."""
    inside = (x > 0) & (x < 1)
    defined = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    a, b = jnp.where(defined, a, 1.0), jnp.where(defined, b, 1.0)
    value = beta_part_below(a, b, jnp.where(inside, x, 0.5))
    return jnp.where(defined, jnp.where(inside, value, x), jnp.nan)


# ---- Bessel ----------------------------------------------------------------------------------


def bessel(order: int, x: Any) -> Any:
    """I(x) exp(-|x|): an integral, and far out a series; https://dlmf.nist.gov/10.32, 10.40.

    The integral is a quadrature over angles, with an error that falls like a power of their
    number.
    """
    size = jnp.abs(x)
    near, far = jnp.minimum(size, FAR)[..., None], jnp.maximum(size, FAR)
    angles = (np.arange(POINTS) + 0.5) * math.pi / POINTS
    weights = np.sin(angles) ** 2 if order else np.ones(POINTS)
    waves = jnp.exp(near * (np.cos(angles) - 1)) * weights
    inner = jnp.sum(waves, -1) / POINTS * (size if order else 1.0)
    term = total = jnp.ones_like(x)
    for k in range(1, 32):
        term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * far)
        total = total + term
    outer = total / jnp.sqrt(2 * math.pi * far)
    value = jnp.where(size > FAR, outer, inner)
    return jnp.where(x < 0, -value, value) if order else value


# ---- the rules -------------------------------------------------------------------------------


def in_float64(function: Callable[..., Any], e: ExportedEquation, *given: str) -> list[str]:
    """Compute a function in float64."""
    structs = [lazy.jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in e.eqn.invars]

    def compute_in_float64(*values: Any) -> Any:
        return function(*(x.astype("float64") for x in values)).astype(e.dtype)

    return e.runner.call(e.g, compute_in_float64, structs, given)


def erf_rule(e: ExportedEquation, x: str) -> str | list[str]:
    """ONNX's own `Erf`; ONNX Runtime has none for float64."""
    return in_float64(erf, e, x) if e.dtype == FLOAT64 else e.same("Erf", x)


SPECIAL: Mapping[str, Rule] = {
    "erf": erf_rule,
    **{
        primitive: partial(in_float64, function)
        for primitive, function in {
            "bessel_i0e": partial(bessel, 0),
            "bessel_i1e": partial(bessel, 1),
            "digamma": digamma,
            "erf_inv": erf_inv,
            "erfc": erfc,
            "igamma": gammainc,
            "igammac": gammaincc,
            "lgamma": lgamma,
            "polygamma": polygamma,
            "regularized_incomplete_beta": betainc,
            "zeta": zeta,
        }.items()
    },
}
