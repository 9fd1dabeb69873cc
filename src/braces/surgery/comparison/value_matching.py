"""Search for equal arrays: by content, without names.

Arrays of one shape are sorted by a projection, a sum with random signs. Two arrays within the
tolerance have projections within the sum of the tolerances, so few candidates are compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from braces.surgery.comparison.value_trace import Array, Key

MOST_CANDIDATES = 64
TEXT = "s"
"""The family of arrays of strings."""
WEAK_SIZE, WEAK_VALUES = 4, 2
"""Arrays below this size, or with at most so many different values, match by accident."""
_SAMPLE = 4096


class ValuePool:
    """The values of a run, to be searched by content.

    Args:
        values: The arrays.
        rtol: The relative tolerance of floats.
        atol: The absolute tolerance of floats.
    """

    def __init__(self, values: Iterable[tuple[Key, Array]], rtol: float, atol: float) -> None:
        self.rtol, self.atol, self._values = rtol, atol, list(values)
        buckets: dict[Any, list[tuple[float, int]]] = {}
        for at, (_, value) in enumerate(self._values):
            buckets.setdefault(_bucket(value), []).append((self._project(value)[0], at))
        self._sorted = {name: sorted(bucket) for name, bucket in buckets.items()}
        self._projections = {
            name: [projection for projection, _ in bucket]
            for name, bucket in self._sorted.items()
        }

    def candidates(self, value: Array) -> Iterator[Key]:
        """Yield the keys of equal values, at most 64."""
        name = _bucket(value)
        projections = self._projections.get(name, [])
        middle, width = self._project(value)
        low, high = (
            bisect_left(projections, middle - width),
            bisect_right(projections, middle + width),
        )
        count = 0
        for _, at in self._sorted[name][low:high] if projections else ():
            key, other = self._values[at]
            if self.equal(value, other):
                yield key
                count += 1
                if count == MOST_CANDIDATES:
                    return

    def has(self, value: Array | None) -> bool:
        """Return whether there is an equal value."""
        return value is not None and next(self.candidates(value), None) is not None

    def equal(self, left: Array, right: Array) -> bool:
        """Return whether two arrays agree within the tolerance; integers must be equal."""
        if left.shape != right.shape:
            return False
        if _is_exact(left) or _is_exact(right):
            return bool(np.array_equal(left, right))
        wide = as_numbers(left), as_numbers(right)
        return bool(np.allclose(*wide, self.rtol, self.atol, equal_nan=True))

    def _project(self, value: Array) -> tuple[float, float]:
        """Return the projection of an array, and the width within which equal ones lie."""
        if family_of(value) == TEXT:
            return 0.0, 0.5
        numbers = as_numbers(value).ravel()
        wide: Array = np.real(np.where(np.isfinite(numbers), numbers, 0.0))
        projection = float(wide @ _signs(wide.size))
        if _is_exact(value):
            return projection, 0.5 + 1e-9 * float(np.abs(wide).sum())
        size = float(np.abs(wide).sum())
        return projection, 1.5 * (self.atol * wide.size + self.rtol * size) + 1e-12 * size


def is_weak(value: Array) -> bool:
    """Return whether a value is likely to match by accident, as a flag or a small integer."""
    if value.size < WEAK_SIZE:
        return value.dtype.kind in "biu" or value.size <= 1
    sample = value.ravel()[:_SAMPLE]
    return (
        len(np.unique(sample if family_of(value) == TEXT else as_numbers(sample)))
        <= WEAK_VALUES
    )


def largest_error(left: Array, right: Array) -> float:
    """Return the largest absolute difference; NaN if only one has a NaN at a place.

    It is infinite for different shapes and for text.
    """
    if left.shape != right.shape or TEXT in (family_of(left), family_of(right)):
        return float("inf")
    if not left.size:
        return 0.0
    a, b = as_numbers(left), as_numbers(right)
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return float(np.max(np.where(same, 0.0, np.abs(a - b))))


def family_of(value: Array) -> str:
    """Return `b`, `i`, `f`, `c` or `s` for bools, integers, floats, complex numbers, text."""
    kind = value.dtype.kind
    return "i" if kind in "iu" else kind if kind in "bc" else TEXT if kind in "OSU" else "f"


def _is_exact(value: Array) -> bool:
    return family_of(value) in ("b", "i", TEXT)


def _bucket(value: Array) -> tuple[tuple[int, ...], str]:
    """Return the shape and kind of the arrays that may be equal; a cast changes no number."""
    family = family_of(value)
    return value.shape, family if family in (TEXT, "c") else "number"


def as_numbers(value: Array) -> Array:
    """Return an array in double precision."""
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


@lru_cache(maxsize=64)
def _signs(size: int) -> Array:
    return np.random.default_rng(size).choice([-1.0, 1.0], size)
