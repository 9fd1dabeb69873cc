"""Measures of values: summaries, histograms, and bytes for the page."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from braces.scope.value_summary import Summary
from braces.viewer.histogram import bin_counts

BINS = 24
NAN = float("nan")
Array = np.ndarray[Any, Any]


class Measure(NamedTuple):
    """Measures of a value; of complex numbers, of their magnitudes.

    Attributes:
        min: The smallest finite number; NaN if there is none, and for lists.
        max: The largest finite number.
        mean: The mean of the finite numbers.
        std: Their standard deviation.
        nans: The number of NaNs.
        infs: The number of infinities.
        size: The number of elements; the length of a list.

    Example:
        >>> measure(np.array([1.0, 3.0, float("nan")]))
        Measure(min=1.0, max=3.0, mean=2.0, std=1.0, nans=1, infs=0, size=3)
    """

    min: float
    max: float
    mean: float
    std: float
    nans: int
    infs: int
    size: int


def as_array(value: Any) -> Array | None:
    """Return a value as an array without a copy, if possible; `None` for a list."""
    return np.asarray(value) if hasattr(value, "dtype") else None


def measure(array: Array) -> Measure:
    """Return the measures of an array of any dtype."""
    numbers = _as_floats(array)
    with np.errstate(all="ignore"):
        total = float(numbers.sum())
        if numbers.size and math.isfinite(total):
            low, high = float(numbers.min()), float(numbers.max())
            mean, std = total / numbers.size, float(numbers.std())
            return Measure(low, high, mean, std, 0, 0, numbers.size)
        summary = Summary.of(array)
        return Measure(*_moments(summary.finite), summary.nans, summary.infinite, numbers.size)


def measure_any(value: Any, content: Array | None) -> Measure:
    """Return the measures of a value, given as an array too; of a list only the length."""
    if content is not None:
        return measure(content)
    return Measure(NAN, NAN, NAN, NAN, 0, 0, int(getattr(value, "count", 0)))


def _as_floats(array: Array) -> Array:
    flat = array.reshape(-1)
    return (np.abs(flat) if flat.dtype.kind == "c" else flat).astype(np.float64)


def _moments(finite: Array) -> tuple[float, float, float, float]:
    if not finite.size:
        return NAN, NAN, NAN, NAN
    return (
        float(finite.min()),
        float(finite.max()),
        float(finite.mean()),
        float(finite.std()),
    )


def norm(array: Array) -> float:
    """Return the Euclidean norm of an array."""
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(_as_floats(array)))


def histogram(array: Array) -> Array:
    """Return the counts of the finite numbers in equal bins from the minimum to the maximum.

    Example:
        >>> histogram(np.array([0.0, 0.0, 1.0])).tolist()[:1], histogram(np.array([0.0])).sum()
        ([2], np.uint64(1))
    """
    summary = Summary.of(array)
    counts = np.zeros(BINS, "<u4")
    if summary.finite.size:
        filled, _ = bin_counts(summary, BINS)
        counts[: len(filled)] = filled
    return counts


# ---- bytes -----------------------------------------------------------------------------------


def portable(array: Array) -> tuple[str, Array]:
    """Return an array in a dtype that JavaScript reads, little-endian, with a code for it.

    Narrow floating-point numbers become float32. The parts of complex numbers are a new last
    axis, and their code ends in `c`.

    Example:
        >>> portable(np.array([1 + 2j], "complex64"))
        ('f4c', array([[1., 2.]], dtype=float32))
    """
    dtype = array.dtype
    if dtype.kind == "c":
        parts = np.stack([array.real, array.imag], axis=-1)
        return f"f{dtype.itemsize // 2}c", _little(parts, f"f{dtype.itemsize // 2}")
    if dtype.kind == "b":
        return "b1", array.astype("u1")
    if dtype.kind in "iuf" and dtype != np.float16:
        code = f"{dtype.kind}{dtype.itemsize}"
        return code, _little(array, code)
    return "f4", array.astype("<f4")


def _little(array: Array, code: str) -> Array:
    return np.ascontiguousarray(array, f"<{code}" if code[1] != "1" else code)
