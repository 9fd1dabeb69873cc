"""References of `braces.ops.random.stateless`: Threefry and its distributions, in NumPy.

Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, 2011. That draws equal
these, bit by bit but for rounding, means that no version of JAX changes what a seed gives.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

from tests.ops.reference import Array, Reference

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


# ---- bits ------------------------------------------------------------------------------------


def threefry(key: Array, high: Any, low: Any) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds, of 64-bit counters given as two halves."""
    with np.errstate(over="ignore"):
        keys = [np.uint32(key[0]), np.uint32(key[1])]
        keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
        x, y = np.asarray(high, np.uint32) + keys[0], np.asarray(low, np.uint32) + keys[1]
        for turn in range(5):
            for rotation in ROTATIONS[turn % 2]:
                x = x + y
                y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
                y = x ^ y
            x = x + keys[(turn + 1) % 3]
            y = y + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return x, y


def fold_in(key: Array, number: Any) -> Array:
    return np.array(threefry(key, 0, np.uint32(int(number) % 2**32)))


def key_of(state: Array, salt: int, trips: tuple[Array, ...]) -> Array:
    key = fold_in(state, salt)
    for trip in trips:
        key = fold_in(key, trip)
    return key


def split(key: Array) -> tuple[Array, Array]:
    high, low = threefry(key, np.zeros(2), np.arange(2))
    return np.array([high[0], low[0]]), np.array([high[1], low[1]])


def bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    """Random bits, as many in each number as `width` says."""
    count = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
    high, low = threefry(key, count >> np.uint64(32), count)
    if width == 64:
        return (high.astype(np.uint64) << np.uint64(32)) | low
    return (high ^ low).astype(f"uint{width}")


def in_each_trip(draw: Any, rows: int = 0) -> Any:
    """A reference that may be told of all trips, as one that is told of one after the other."""

    def drawn(state: Array, *given: Array, **attrs: Any) -> Array:
        at = next((i for i, x in enumerate(given[rows:], rows) if np.ndim(x)), None)
        if at is None:
            return draw(state, *given, **attrs)
        alone = attrs | ({"shape": attrs["shape"][1:]} if "shape" in attrs else {})
        if "axis" in attrs:
            alone["axis"] = attrs["axis"] % given[0].ndim - given[0].ndim
        each = (
            [x[n] if i < rows or i == at else x for i, x in enumerate(given)]
            for n in range(len(given[at]))
        )
        return np.stack([drawn(state, *one, **alone) for one in each])

    return drawn


# ---- real numbers ----------------------------------------------------------------------------


def uniform(key: Array, shape: Any, dtype: Any, low: Any = 0, high: Any = 1) -> Array:
    """Random mantissas of numbers in [1, 2), moved to [low, high)."""
    dtype = np.dtype(dtype)
    mantissa = ml_dtypes.finfo(dtype).nmant
    width = 8 if mantissa < 8 else 8 * dtype.itemsize
    drawn = bits(key, width, tuple(shape)) >> np.asarray(width - mantissa, f"uint{width}")
    unit = drawn.astype(np.float64) / 2.0**mantissa
    low, high = np.asarray(low, dtype), np.asarray(high, dtype)
    return np.maximum(low, unit.astype(dtype) * (high - low) + low)


def normal(key: Array, shape: Any, dtype: Any) -> Array:
    below = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype))
    drawn = uniform(key, shape, dtype, below, 1)
    return (np.sqrt(2) * special.erfinv(drawn.astype(np.float64))).astype(dtype)


def random_uniform(
    state: Array, *trips: Array, shape: Any, low: float, high: float, dtype: Any, salt: int
) -> Array:
    return uniform(key_of(state, salt, trips), shape, dtype, low, high)


def random_normal(
    state: Array, *trips: Array, shape: Any, mean: float, stddev: float, dtype: Any, salt: int
) -> Array:
    drawn = normal(key_of(state, salt, trips), shape, dtype)
    return (mean + stddev * drawn).astype(dtype)


def random_truncated_normal(
    state: Array,
    *trips: Array,
    shape: Any,
    mean: float,
    stddev: float,
    low: float,
    high: float,
    dtype: Any,
    salt: int,
) -> Array:
    ends = special.erf(np.array([low, high]) / np.sqrt(2))
    drawn = uniform(key_of(state, salt, trips), shape, dtype, *ends)
    standard = np.sqrt(2) * special.erfinv(drawn.astype(np.float64))
    return (mean + stddev * np.clip(standard, low, high)).astype(dtype)


def random_orthogonal(
    state: Array, *trips: Array, shape: Any, scale: float, dtype: Any, salt: int
) -> Array:
    if 0 in shape:
        return np.zeros(shape, dtype)
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    tall = (max(rows, columns), min(rows, columns))
    q, r = np.linalg.qr(normal(key_of(state, salt, trips), tall, dtype).astype(np.float64))
    q = q * np.sign(np.diagonal(r))
    return (scale * (q if rows >= columns else q.T).reshape(shape)).astype(dtype)


def next_random_state(state: Array, *, runs: int) -> Array:
    return np.array([state[0], (int(state[1]) + runs) % 2**32], np.uint32)


# ---- moments ---------------------------------------------------------------------------------


def of_uniform(attrs: Any) -> tuple[float, float]:
    low, high = attrs["low"], attrs["high"]
    return (low + high) / 2, (high - low) / np.sqrt(12)


def of_normal(attrs: Any) -> tuple[float, float]:
    return attrs["mean"], attrs["stddev"]


def of_truncated(attrs: Any) -> tuple[float, float]:
    low, high = attrs["low"], attrs["high"]
    at_low, at_high = (np.exp(-x * x / 2) / np.sqrt(2 * np.pi) for x in (low, high))
    share = (special.erf(high / np.sqrt(2)) - special.erf(low / np.sqrt(2))) / 2
    mean = (at_low - at_high) / share
    variance = 1 + (low * at_low - high * at_high) / share - mean**2
    return attrs["mean"] + attrs["stddev"] * mean, attrs["stddev"] * np.sqrt(variance)


REFERENCES = {
    "next_random_state": Reference(next_random_state, smooth=False),
    "random_uniform": Reference(in_each_trip(random_uniform), smooth=False, moments=of_uniform),
    "random_normal": Reference(
        in_each_trip(random_normal), smooth=False, moments=of_normal, tolerance=1e-4
    ),
    "random_truncated_normal": Reference(
        in_each_trip(random_truncated_normal),
        smooth=False,
        moments=of_truncated,
        tolerance=1e-4,
    ),
    "random_orthogonal": Reference(
        in_each_trip(random_orthogonal), smooth=False, tolerance=1e-4
    ),
}
