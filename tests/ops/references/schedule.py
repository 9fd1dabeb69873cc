"""References of `braces.ops.schedule`."""

from __future__ import annotations

from typing import Any

import numpy as np

from references import Array, Reference, between


def polynomial(
    count: Array, *, init_value: float, end_value: float, power: float, steps: int, begin: int,
    dtype: Any,
) -> Array:  # fmt: skip
    done = np.clip(count - begin, 0, steps) / steps
    return ((init_value - end_value) * (1 - done) ** power + end_value).astype(dtype)


def exponential(
    count: Array, *, init_value: float, decay_rate: float, steps: int, begin: int,
    staircase: bool, end_value: float | None, dtype: Any,
) -> Array:  # fmt: skip
    exponent = np.maximum(count - begin, 0) / steps
    value = init_value * decay_rate ** (np.floor(exponent) if staircase else exponent)
    if end_value is not None:
        value = np.maximum(value, end_value) if decay_rate < 1 else np.minimum(value, end_value)
    return np.asarray(value, dtype)


def cosine(
    count: Array, *, init_value: float, steps: int, alpha: float, exponent: float, dtype: Any
) -> Array:
    wave = (1 + np.cos(np.pi * np.minimum(count, steps) / steps)) / 2
    return np.asarray(init_value * ((1 - alpha) * wave**exponent + alpha), dtype)


def warmup_cosine(
    count: Array, *, peak_value: float, warmup_steps: int, steps: int, init_value: float,
    end_value: float, exponent: float, dtype: Any,
) -> Array:  # fmt: skip
    up = init_value + (peak_value - init_value) * count / max(warmup_steps, 1)
    rest = steps - warmup_steps
    done = np.clip(count - warmup_steps, 0, rest) / rest
    wave = ((1 + np.cos(np.pi * done)) / 2) ** exponent
    down = end_value + (peak_value - end_value) * wave
    return np.where(count < warmup_steps, up, down).astype(dtype)


def piecewise(
    count: Array, *, init_value: float, boundaries: tuple[int, ...],
    factors: tuple[float, ...], dtype: Any,
) -> Array:  # fmt: skip
    value = np.full(count.shape, init_value)
    for boundary, factor in zip(boundaries, factors, strict=True):
        value = value * np.where(count >= boundary, factor, 1.0)
    return np.asarray(value, dtype)


COUNTS = {"count": between(0, 8)}

REFERENCES = {
    "polynomial_schedule": Reference(polynomial, inputs=COUNTS),
    "exponential_decay_schedule": Reference(exponential, inputs=COUNTS),
    "cosine_decay_schedule": Reference(cosine, inputs=COUNTS),
    "warmup_cosine_schedule": Reference(warmup_cosine, inputs=COUNTS),
    "piecewise_constant_schedule": Reference(piecewise, inputs=COUNTS),
}
