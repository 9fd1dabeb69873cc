"""Interpolation weights for resizing an axis: input indices and weights of each output element.

Linear interpolation from 4 to 8 elements: the second output element has the position 0.25, so
it is 0.75 times element 0 plus 0.25 times element 1.
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
class ResizedAxis:
    """An axis that is resized.

    Attributes:
        size: The input size.
        count: The output size.
        scale: Output elements per input element; `count / size`, or near that.
        start: The start of the cropped region, as a fraction of the axis.
        end: The end of that region.
    """

    size: int
    count: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def length(self) -> float:
        """The output size before rounding to an integer."""
        return self.scale * self.size


@dataclass(frozen=True)
class Taps:
    """A sparse linear map: `out[i] = sum_k weights[i, k] * x[places[i, k]]`.

    Attributes:
        places: The input indices, int64[n, k].
        weights: The weights, float64[n, k].
    """

    places: Array
    weights: Array

    def transposed(self, size: int) -> Taps:
        """Return the transposed map, with outputs of the given size."""
        used = self.weights.ravel() != 0
        rows = self.places.ravel()[used]
        outputs = np.repeat(np.arange(len(self.places)), self.places.shape[1])[used]
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=size)
        shape = size, max(1, int(counts.max(initial=0)))
        places, weights = np.zeros(shape, np.int64), np.zeros(shape)
        at = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places[rows[order], at] = outputs[order]
        weights[rows[order], at] = self.weights.ravel()[used][order]
        return Taps(places, weights)

    def matrix(self, size: int) -> Array:
        """Return the map as a dense matrix, for inputs of the given size: float64[n, size]."""
        dense = np.zeros((len(self.places), size))
        rows = np.broadcast_to(np.arange(len(self.places))[:, None], self.places.shape)
        np.add.at(dense, (rows, self.places), self.weights)
        return dense


# ---- coordinate transformations --------------------------------------------------------------


def _half_pixel(i: Array, axis: ResizedAxis) -> Array:
    return (i + 0.5) / axis.scale - 0.5


def _half_pixel_symmetric(i: Array, axis: ResizedAxis) -> Array:
    return _half_pixel(i, axis) + axis.size / 2 * (1 - axis.count / axis.length)


def _pytorch_half_pixel(i: Array, axis: ResizedAxis) -> Array:
    return np.full(i.shape, -0.5) if axis.length == 1 else _half_pixel(i, axis)


def _align_corners(i: Array, axis: ResizedAxis) -> Array:
    return i * (0.0 if axis.length == 1 else (axis.size - 1) / (axis.length - 1))


def _crop_and_resize(i: Array, axis: ResizedAxis) -> Array:
    last, fraction = axis.size - 1, axis.end - axis.start
    if axis.length == 1:
        return np.full(i.shape, (fraction / 2 + axis.start) * last)
    return i * fraction * last / (axis.length - 1) + axis.start * last


COORDINATES: Mapping[str, Callable[[Array, ResizedAxis], Array]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda i, axis: i / axis.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _crop_and_resize,
    "tf_half_pixel_for_nn": lambda i, axis: (i + 0.5) / axis.scale,
}
"""Coordinate transformations by name: output index to input position, as in ONNX's Resize."""
CROPS = "tf_crop_and_resize"


def positions(axis: ResizedAxis, coordinates: str) -> Array:
    """Return the input position of each output element, float64[count]."""
    return COORDINATES[coordinates](np.arange(axis.count, dtype=np.float64), axis)


def outside(at: Array, size: int) -> Array:
    """Return a mask of the positions before the first or behind the last element."""
    return (at < 0) | (at > size - 1)


# ---- interpolation weights -------------------------------------------------------------------

NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""Rounding of a position to the nearest element, by name."""


def nearest_taps(at: Array, size: int, rounding: str) -> Taps:
    """Return the taps of nearest-neighbor interpolation."""
    indices = NEAREST[rounding](at).astype(np.int64)
    places = np.clip(indices, 0, size - 1)[:, None]
    return Taps(places, np.ones(places.shape))


def triangle(distance: Array) -> Array:
    """Weight function of linear interpolation."""
    return np.clip(1 - np.abs(distance), 0, None)


def cubic(distance: Array, a: float) -> Array:
    """Weight function of cubic convolution; `a` is the slope at distance 1."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weighted_taps(
    at: Array,
    size: int,
    curve: Callable[[Array], Array],
    reach: int,
    *,
    shrink: float = 1.0,
    inside_only: bool = False,
) -> Taps:
    """Return the taps around each position, weighted by distance and normalized.

    Args:
        at: The positions.
        size: The input size; beyond the ends, the first and last element are repeated.
        curve: The weight function of the distance.
        reach: The distance from which on weights are zero.
        shrink: Below 1, the weight function is stretched by `1 / shrink` (antialiasing), so
            that no element is skipped.
        inside_only: Whether elements beyond the ends have weight zero.
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
"""The distance up to which elements have a weight, by mode."""


def resized_axes(sizes: Shape, wanted: Shape, attrs: Attrs) -> list[int]:
    """Return the axes that are resized or cropped."""
    axes = list[int]()
    for axis, (size, count) in enumerate(zip(sizes, wanted, strict=True)):
        scale, (start, end) = _get_scale(attrs, axis), _get_region(attrs, axis, len(sizes))
        if size != count or scale not in (None, 1.0) or (start, end) != (0.0, 1.0):
            axes.append(axis)
    return axes


def _get_scale(attrs: Attrs, axis: int) -> float | None:
    scales: Any = attrs["scales"]
    return None if scales is None else scales[axis]


def _get_region(attrs: Attrs, axis: int, rank: int) -> tuple[float, float]:
    region: Any = attrs["region"]
    if region is None or attrs["coordinates"] != CROPS:
        return 0.0, 1.0
    return region[axis], region[rank + axis]


def _compute_taps(axis: ResizedAxis, at: Array, attrs: Attrs) -> Taps:
    """Return the taps of each output element."""
    mode, inside_only = attrs["mode"], bool(attrs["exclude_outside"])
    if mode == "nearest":
        return nearest_taps(at, axis.size, str(attrs["nearest_mode"]))
    a: Any = attrs["cubic_coefficient"]
    curve: Callable[[Array], Array] = triangle if mode == "linear" else partial(cubic, a=a)
    shrink = min(axis.scale, 1.0) if attrs["antialias"] else 1.0
    return weighted_taps(
        at, axis.size, curve, REACHES[str(mode)], shrink=shrink, inside_only=inside_only
    )


def resize_steps(
    shape: Shape, wanted: Shape, attrs: Attrs
) -> Iterator[tuple[int, Taps, Array]]:
    """Iterate over the resized axes, with their taps and a mask of positions outside."""
    for axis in resized_axes(shape, wanted, attrs):
        size, count = _as_int(shape[axis]), _as_int(wanted[axis])
        stretch = ResizedAxis(
            size, count, _get_scale(attrs, axis) or count / size,
            *_get_region(attrs, axis, len(shape)),
        )  # fmt: skip
        at = positions(stretch, str(attrs["coordinates"]))
        taps = _compute_taps(stretch, at, attrs)
        beyond = outside(at, size) & (attrs["coordinates"] == CROPS)
        yield axis, Taps(taps.places, np.where(beyond[:, None], 0.0, taps.weights)), beyond


def _as_int(size: Size) -> int:
    """Return a size as an integer; in kernels all sizes are numbers."""
    assert isinstance(size, int)
    return size
