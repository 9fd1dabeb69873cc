"""References of `braces.ops.image.resize`: number by number, each by its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating


def position(i: int, size: int, count: int, scale: float, ends: Any, coordinates: str) -> float:
    length = scale * size
    middle = (i + 0.5) / scale - 0.5
    if coordinates == "align_corners":
        return 0.0 if length == 1 else i * (size - 1) / (length - 1)
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "tf_crop_and_resize":
        start, end = ends
        if length == 1:
            return (start + end) / 2 * (size - 1)
        return start * (size - 1) + i * (end - start) * (size - 1) / (length - 1)
    if coordinates == "half_pixel_symmetric":
        return size / 2 * (1 - count / length) + middle
    if coordinates == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    return -0.5 if coordinates == "pytorch_half_pixel" and length == 1 else middle


def curve(distance: float, mode: str, a: float) -> float:
    d = abs(distance)
    if mode == "linear":
        return max(1 - d, 0.0)
    if d < 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def nearest(at: float, how: str) -> int:
    low = math.floor(at)
    if at == low:
        return low
    up = {"floor": False, "ceil": True}.get(how, at - low > 0.5)
    return low + (at - low >= 0.5 if how == "round_prefer_ceil" else up)


def weights_of(
    at: float, size: int, scale: float, mode: str, antialias: bool, outside: bool, a: float
) -> Array:
    """The weight of each number, those beyond the borders added to the ones there."""
    width = min(scale, 1.0) if antialias else 1.0
    around = range(-math.ceil(3 / width) - 3, size + math.ceil(3 / width) + 3)
    found = np.zeros(size)
    for place in around:
        if 0 <= place < size or not outside:
            found[min(max(place, 0), size - 1)] += curve((place - at) * width, mode, a)
    return found / found.sum()


def matrix(size: int, count: int, scale: float, ends: Any, attrs: Any) -> tuple[Array, Array]:
    """From old numbers to new ones, and which of these lie outside."""
    found, beyond = np.zeros((count, size)), np.zeros(count, bool)
    for i in range(count):
        at = position(i, size, count, scale, ends, attrs["coordinates"])
        crops = attrs["coordinates"] == "tf_crop_and_resize"
        beyond[i] = crops and not 0 <= at <= size - 1
        if attrs["mode"] == "nearest":
            found[i, min(max(nearest(at, attrs["nearest_mode"]), 0), size - 1)] = 1
        else:
            found[i] = weights_of(
                at, size, scale, attrs["mode"], attrs["antialias"],
                attrs["exclude_outside"], attrs["cubic_coefficient"],
            )  # fmt: skip
    found[beyond] = 0
    return found, beyond


def matrices(sizes: Any, shape: Any, scales: Any, region: Any, **attrs: Any) -> Any:
    for axis, (size, count) in enumerate(zip(sizes, shape, strict=True)):
        scale = scales[axis] if scales else count / size
        ends = (region[axis], region[len(shape) + axis]) if region else (0.0, 1.0)
        yield axis, *matrix(size, count, scale, ends, attrs)


def resize(x: Array, shape: tuple[int, ...], extrapolation_value: float, **attrs: Any) -> Array:
    dtype = x.dtype if attrs["mode"] == "nearest" else floating(x).dtype
    if 0 in x.shape or 0 in shape:
        return np.zeros(shape, dtype)
    made, any_beyond = x.astype(np.float64), np.zeros(shape, bool)
    for axis, weights, beyond in matrices(x.shape, shape, **attrs):
        made = np.moveaxis(np.tensordot(made, weights, (axis, 1)), -1, axis)
        any_beyond |= beyond.reshape(-1, *[1] * (len(shape) - axis - 1))
    return np.where(any_beyond, extrapolation_value, made).astype(dtype)


def resize_back(x: Array, shape: tuple[int, ...], **attrs: Any) -> Array:
    dtype = x.dtype if attrs["mode"] == "nearest" else floating(x).dtype
    if 0 in x.shape or 0 in shape:
        return np.zeros(shape, dtype)
    made = x.astype(np.float64)
    for axis, weights, _ in matrices(shape, x.shape, **attrs):
        made = np.moveaxis(np.tensordot(made, weights, (axis, 0)), -1, axis)
    return made.astype(dtype)


REFERENCES = {
    "resize": Reference(resize),
    "resize_back": Reference(resize_back),
}
