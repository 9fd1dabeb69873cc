"""References of `braces.ops.image.roi_pool`: region by region, sample by sample.

Regions have no gradient, so they are what is nearest among 256ths of a pixel: moved by much
less, as differences move them, they stay where they are. Gradients do move with them, so
differences of gradients tell nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.ops.reference import Array, Generator, Reference, Values, floating

PARTS = 256


def near(at: float, size: int) -> list[tuple[int, float]]:
    """The two pixels around a sample, with their weights."""
    if not -1 <= at <= size:
        return [(0, 0.0), (0, 0.0)]
    at = min(max(at, 0.0), size - 1.0)
    low = math.floor(at)
    return [(low, 1 - (at - low)), (min(low + 1, size - 1), at - low)]


def samples(first: float, last: float, count: int, at: int, ratio: int) -> list[float]:
    length = (last - first) / count
    many = ratio or max(math.ceil(length), 0)
    return [first + at * length + (i + 0.5) * length / many for i in range(many)]


def corners(roi: Array, scale: float, aligned: bool) -> list[tuple[float, float]]:
    """Return the first and last coordinates of a region."""
    a, b, c, d = (np.round(roi.astype(np.float64) * PARTS) / PARTS * scale).tolist()
    if aligned:
        return [(b - 0.5, d - 0.5), (a - 0.5, c - 0.5)]
    return [(b, max(d, b + 1)), (a, max(c, a + 1))]


def values(image: Array, ys: list[float], xs: list[float]) -> Iterator[list[float]]:
    """For each sample, the four pixels around it times their weights."""
    for y, x in product(ys, xs):
        yield [
            image[row, column] * down * across
            for row, down in near(y, image.shape[0])
            for column, across in near(x, image.shape[1])
        ]


def roi_align(
    x: Array,
    rois: Array,
    batch_indices: Array,
    output_size: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    mode: str,
    aligned: bool,
) -> Array:
    x = floating(x)
    out = np.zeros((len(rois), x.shape[1], *output_size), x.dtype)
    for k, c, *bins in np.ndindex(*out.shape) if x.size else ():
        ends = corners(rois[k], spatial_scale, aligned)
        ys, xs = (
            samples(*end, count, at, sampling_ratio)
            for end, count, at in zip(ends, output_size, bins, strict=True)
        )
        found = list(values(x[batch_indices[k], c], ys, xs))
        if found:
            total = max(map(max, found)) if mode == "max" else np.mean([*map(sum, found)])
            out[(k, c, *bins)] = total
    return out


def pixels(first: float, last: float, count: int, at: int, size: int) -> slice:
    """The pixels of a bin."""
    start, end = (math.copysign(math.floor(abs(v) + 0.5), v) for v in (first, last))
    length = max(end - start + 1, 1) / count
    begin, stop = math.floor(at * length) + start, math.ceil((at + 1) * length) + start
    return slice(*(int(min(max(v, 0), size)) for v in (begin, stop)))


def roi_pool(
    x: Array,
    rois: Array,
    batch_indices: Array,
    output_size: tuple[int, int],
    spatial_scale: float,
) -> Array:
    x = floating(x)
    out = np.zeros((len(rois), x.shape[1], *output_size), x.dtype)
    for k, c, *bins in np.ndindex(*out.shape) if x.size else ():
        a, b, e, d = (np.round(rois[k].astype(float) * PARTS) / PARTS * spatial_scale).tolist()
        cut = tuple(
            pixels(*given)
            for given in zip((b, a), (d, e), output_size, bins, x.shape[2:], strict=True)
        )
        found = x[batch_indices[k], c][cut]
        out[(k, c, *bins)] = found.max() if found.size else 0
    return out


def regions(rng: Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Corners in and around images, some of regions that are empty or far outside."""
    near_, far = rng.uniform(-1.5, 4, (2, shape[0], 2))
    found = np.concatenate([near_, near_ + np.abs(far) * 2 - 0.5], axis=1)
    return ((np.round(found * PARTS) + 0.0) / PARTS).astype(dtype)


def numbered(found: Values, attrs: Any) -> Values:
    """With images that there are."""
    del attrs
    ((x,), (numbers,)) = found["x"], found["batch_indices"]
    return {**found, "batch_indices": (numbers % max(len(x), 1),)}


REFERENCES = {
    "roi_align": Reference(roi_align, inputs={"rois": regions}, adjust=numbered, second=False),
    "roi_pool": Reference(roi_pool, inputs={"rois": regions}, adjust=numbered, second=False),
}
