"""Which numbers of an axis make up each number of another size, and by which weights.

An axis of 4 numbers brought to 8 by lines between them: the second new number lies at 0.25, so
it is 0.75 of number 0 and 0.25 of number 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from braces.define.axes.axis_map import Attrs
from braces.dims import Shape, Size

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class Stretch:
    """An axis that is brought to another size.

    Attributes:
        size: How many numbers there are.
        count: How many there shall be.
        scale: New numbers for each old one; `count / size`, or near that.
        start: Where a part begins that is cut out, as a share of the axis.
        end: Where that part ends.
    """

    size: int
    count: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def length(self) -> float:
        """How many numbers there would be, if that needed not be whole."""
        return self.scale * self.size


@dataclass(frozen=True)
class Taps:
    """Sums of few numbers each: `out[i] = sum_k weights[i, k] * x[places[i, k]]`.

    Attributes:
        places: Of which number each one is, int64[n, k].
        weights: How much of it, float64[n, k].
    """

    places: Array
    weights: Array

    def transposed(self, size: int) -> Taps:
        """The sums in which each of so many numbers takes part, the other way round."""
        used = self.weights.ravel() != 0
        rows = self.places.ravel()[used]
        made = np.repeat(np.arange(len(self.places)), self.places.shape[1])[used]
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=size)
        shape = size, max(1, int(counts.max(initial=0)))
        places, weights = np.zeros(shape, np.int64), np.zeros(shape)
        at = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places[rows[order], at] = made[order]
        weights[rows[order], at] = self.weights.ravel()[used][order]
        return Taps(places, weights)

    def matrix(self, size: int) -> Array:
        """The weights of all numbers, of which there are so many: float64[n, size]."""
        found = np.zeros((len(self.places), size))
        rows = np.broadcast_to(np.arange(len(self.places))[:, None], self.places.shape)
        np.add.at(found, (rows, self.places), self.weights)
        return found


# ---- where new numbers lie -------------------------------------------------------------------


def _half_pixel(i: Array, axis: Stretch) -> Array:
    return (i + 0.5) / axis.scale - 0.5


def _half_pixel_symmetric(i: Array, axis: Stretch) -> Array:
    return _half_pixel(i, axis) + axis.size / 2 * (1 - axis.count / axis.length)


def _pytorch_half_pixel(i: Array, axis: Stretch) -> Array:
    return np.full(i.shape, -0.5) if axis.length == 1 else _half_pixel(i, axis)


def _align_corners(i: Array, axis: Stretch) -> Array:
    return i * (0.0 if axis.length == 1 else (axis.size - 1) / (axis.length - 1))


def _crop_and_resize(i: Array, axis: Stretch) -> Array:
    whole, part = axis.size - 1, axis.end - axis.start
    if axis.length == 1:
        return np.full(i.shape, (part / 2 + axis.start) * whole)
    return i * part * whole / (axis.length - 1) + axis.start * whole


COORDINATES: Mapping[str, Callable[[Array, Stretch], Array]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda i, axis: i / axis.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _crop_and_resize,
    "tf_half_pixel_for_nn": lambda i, axis: (i + 0.5) / axis.scale,
}
"""Where a new number lies among the old ones, by its place."""
CROPS = "tf_crop_and_resize"


def positions(axis: Stretch, coordinates: str) -> Array:
    """Where each new number lies among the old ones, float64[count]."""
    return COORDINATES[coordinates](np.arange(axis.count, dtype=np.float64), axis)


def outside(at: Array, size: int) -> Array:
    """Which positions lie beyond the first and the last number."""
    return (at < 0) | (at > size - 1)


# ---- what they are made of -------------------------------------------------------------------

NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""Which number is taken for a position, by how that is rounded."""


def nearest(at: Array, size: int, rounding: str) -> Taps:
    """The one number that is nearest."""
    found = NEAREST[rounding](at).astype(np.int64)
    places = np.clip(found, 0, size - 1)[:, None]
    return Taps(places, np.ones(places.shape))


def triangle(distance: Array) -> Array:
    """Lines from one number to the next."""
    return np.clip(1 - np.abs(distance), 0, None)


def cubic(distance: Array, a: float) -> Array:
    """Cubic convolution; `a` is the slope at distance 1."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weighted(
    at: Array,
    size: int,
    curve: Callable[[Array], Array],
    reach: int,
    *,
    shrink: float = 1.0,
    inside_only: bool = False,
) -> Taps:
    """Numbers around each position, by a weight that falls with their distance.

    Args:
        at: The positions.
        size: How many numbers there are; beyond them, the first and the last one go on.
        curve: From a distance to a weight.
        reach: The distance from which on weights are zero.
        shrink: Below 1, the curve is so many times wider, so that no number is passed over.
        inside_only: Whether nothing beyond the first and last number has a weight.
    """
    base = np.ceil(at) - 1
    first = math.floor(-reach / shrink) + 1
    offsets = np.arange(first, 2 - first)
    weights = curve((offsets - (at - base)[:, None]) * shrink)
    places = base[:, None] + offsets
    if inside_only:
        weights = np.where(outside(places, size), 0.0, weights)
    total = weights.sum(1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    return Taps(np.clip(places, 0, size - 1).astype(np.int64), weights)


# ---- axes of an operator ---------------------------------------------------------------------

REACHES = {"nearest": 0, "linear": 1, "cubic": 2}
"""How far away numbers count, by mode."""


def stretched(sizes: Shape, wanted: Shape, attrs: Attrs) -> list[int]:
    """The axes that do not stay as they are."""
    found = list[int]()
    for axis, (size, count) in enumerate(zip(sizes, wanted, strict=True)):
        scale, (start, end) = _scale_of(attrs, axis), _part_of(attrs, axis, len(sizes))
        if size != count or scale not in (None, 1.0) or (start, end) != (0.0, 1.0):
            found.append(axis)
    return found


def _scale_of(attrs: Attrs, axis: int) -> float | None:
    scales: Any = attrs["scales"]
    return None if scales is None else scales[axis]


def _part_of(attrs: Attrs, axis: int, rank: int) -> tuple[float, float]:
    region: Any = attrs["region"]
    if region is None or attrs["coordinates"] != CROPS:
        return 0.0, 1.0
    return region[axis], region[rank + axis]


def _taps(axis: Stretch, at: Array, attrs: Attrs) -> Taps:
    """What each new number is made of."""
    mode, inside_only = attrs["mode"], bool(attrs["exclude_outside"])
    if mode == "nearest":
        return nearest(at, axis.size, str(attrs["nearest_mode"]))
    a: Any = attrs["cubic_coefficient"]
    curve: Callable[[Array], Array] = triangle if mode == "linear" else partial(cubic, a=a)
    shrink = min(axis.scale, 1.0) if attrs["antialias"] else 1.0
    return weighted(
        at, axis.size, curve, REACHES[str(mode)], shrink=shrink, inside_only=inside_only
    )


def steps(shape: Shape, wanted: Shape, attrs: Attrs) -> Iterator[tuple[int, Taps, Array]]:
    """For each axis that changes: what new numbers are made of, and which lie outside."""
    for axis in stretched(shape, wanted, attrs):
        size, count = _number(shape[axis]), _number(wanted[axis])
        stretch = Stretch(
            size, count, _scale_of(attrs, axis) or count / size,
            *_part_of(attrs, axis, len(shape)),
        )  # fmt: skip
        at = positions(stretch, str(attrs["coordinates"]))
        taps = _taps(stretch, at, attrs)
        beyond = outside(at, size) & (attrs["coordinates"] == CROPS)
        yield axis, Taps(taps.places, np.where(beyond[:, None], 0.0, taps.weights)), beyond


def _number(size: Size) -> int:
    """For kernels: a size, which is a number by then."""
    assert isinstance(size, int)
    return size
