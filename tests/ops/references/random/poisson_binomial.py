"""References of draws of counts: the methods of their sources, one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from tests.ops.reference import Array, Reference, between
from tests.ops.references.random.gamma import keys_of
from tests.ops.references.random.stateless import uniform

TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def each(draw: Any, key: Array, *given: Array) -> Array:
    flat = (x.reshape(-1) for x in given)
    drawn = [draw(*one) for one in zip(key.reshape(-1, 2), *flat, strict=True)]
    return np.asarray(drawn, np.int64).reshape(given[0].shape)


def unit(key: Array, dtype: Any) -> float:
    return float(uniform(key, (), dtype))


def log(x: float) -> float:
    return math.log(x) if x else -math.inf


def one_poisson(key: Array, rate: Any) -> int:
    rate, count, total = float(np.float32(rate)), 0, 0.0
    if rate >= 10:
        return large_poisson(key, rate)
    while total > -rate:
        key, own = keys_of(key, 2)
        total, count = total + log(unit(own, "f4")), count + 1
    return max(count - 1, 0)


def large_poisson(key: Array, rate: float) -> int:
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    while True:
        key, of_u, of_v = keys_of(key, 3)
        u, v = unit(of_u, "f4") - 0.5, unit(of_v, "f4")
        near = 0.5 - abs(u)
        k = math.floor((2 * a / near + b) * u + rate + 0.43)
        if near >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return k
        if k < 0 or (near < 0.013 and v > near):
            continue
        left = log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / near**2 + b))
        if left <= -rate + k * math.log(rate) - math.lgamma(k + 1):
            return k


def one_binomial(key: Array, trials: Any, probability: Any) -> int:
    n, p = math.floor(trials), float(probability)
    q = min(p, 1 - p)
    found = few(key, n, q) if n * q <= 10 else many(key, n, q)
    return found if p < 0.5 else n - found


def few(key: Array, n: int, p: float) -> int:
    count, total = 0, 0.0
    while total <= n:
        own, key = keys_of(key, 2)
        total, count = total + math.ceil(log(unit(own, "f8")) / math.log1p(-p)), count + 1
    return count - 1


def many(key: Array, n: int, p: float) -> int:
    spread = math.sqrt(n * p * (1 - p))
    b, r, m = 1.15 + 2.53 * spread, p / (1 - p), math.floor((n + 1) * p)
    a = -0.0873 + 0.0248 * b + 0.01 * p
    while True:
        key, of_u, of_v = keys_of(key, 3)
        u, v = unit(of_u, "f8") - 0.5, unit(of_v, "f8")
        near = 0.5 - abs(u)
        k = math.floor((2 * a / near + b) * u + n * p + 0.5)
        if near >= 0.07 and v <= 0.92 - 4.2 / b:
            return k
        if not 0 <= k <= n:
            continue
        left = log(v * (2.83 + 5.1 / b) * spread / (a / near**2 + b))
        bound = (m + 0.5) * math.log((m + 1) / (r * (n - m + 1)))
        bound += (n + 1) * math.log((n - m + 1) / (n - k + 1))
        bound += (k + 0.5) * math.log(r * (n - k + 1) / (k + 1))
        if left <= bound + tail(m) + tail(n - m) - tail(k) - tail(n - k):
            return k


def tail(k: int) -> float:
    """Return the remainder of Stirling's formula for log k!."""
    if k <= 9:
        return TAILS[k]
    return (
        special.gammaln(k + 1) - (k + 0.5) * math.log(k + 1) + k + 1 - math.log(2 * np.pi) / 2
    )


REFERENCES = {
    "poisson_of_key": Reference(
        lambda key, rate: each(one_poisson, key, rate),
        inputs={"key": between(0, 2**32), "rate": between(0, 30)},
        smooth=False,
    ),
    "binomial_of_key": Reference(
        lambda *given: each(one_binomial, *given),
        inputs={
            "key": between(0, 2**32),
            "trials": between(0, 60),
            "probability": between(0.02, 0.98),
        },
        smooth=False,
    ),
}  # fmt: skip
