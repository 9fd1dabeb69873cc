"""Interval arithmetic: bounds of a size for all values of its dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

Bounds: TypeAlias = "tuple[float, float]"
"""Lower and upper bound; infinite if unknown."""

ANY: Bounds = (-math.inf, math.inf)
NOT_NEGATIVE: Bounds = (0, math.inf)
_FAR = 1 << 64


def sum_bounds(terms: Iterable[tuple[int, Bounds]]) -> Bounds:
    """Return the bounds of a linear combination, from factors and bounds."""
    low: float = 0
    high: float = 0
    for factor, (least, most) in terms:
        low += factor * (least if factor > 0 else most)
        high += factor * (most if factor > 0 else least)
    return _saturate(low, high)


def product_bounds(factors: Iterable[Bounds]) -> Bounds:
    """Return the bounds of a product; unknown if a factor may be negative."""
    low: float = 1
    high: float = 1
    for least, most in factors:
        if least < 0:
            return ANY
        low, high = _saturate(low * least, high * most if high and most else 0)
    return low, high


def _saturate(low: float, high: float) -> Bounds:
    """Saturate bounds beyond 2^64, so that mixing them with infinite ones cannot overflow."""
    return (
        -math.inf if low < -_FAR else min(low, _FAR),
        math.inf if high > _FAR else max(high, -_FAR),
    )


def call_bounds(name: str, left: Bounds, right: Bounds) -> Bounds:
    """Return the bounds of a function of two sizes; a divisor is never 0."""
    (low, high), (least, most) = left, right
    if name in ("max", "min"):
        choose = max if name == "max" else min
        return choose(low, least), choose(high, most)
    if least < 0:
        return ANY
    if name == "mod":
        return 0, max(most - 1, 0)
    if 0 < least == most:
        return floor_divide(low, most), floor_divide(high, most)
    return min(low, 0), max(high, 0)


def floor_divide(number: float, divisor: float) -> float:
    """Divide and round down; infinite numbers stay infinite."""
    return number if math.isinf(number) else number // divisor
