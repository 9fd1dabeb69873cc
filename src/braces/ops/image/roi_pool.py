"""Regions of images, each brought to one size: means of samples, or largest pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    mapped,
    shape_of,
    tuple_of,
)
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Size, product
from braces.dtypes import DType, is_integer
from braces.errors import DTypeError, IndexRangeError, ProgramError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import wide
from braces.ops.common.rules import float_dtype, floating, real_function
from braces.ops.indexing.take import outside

TOGETHER = 16
"""So many regions are computed at once, each with an image of its own."""
MODES = ("avg", "max")
OUTSIDE = "The number of an image, which a region belongs to, is not there."


# ---- rules -----------------------------------------------------------------------------------


def pooled(types: Types, attrs: Attrs) -> AxisMap:
    """Each region is on its own, and so is each channel."""
    size = tuple_of(attrs["output_size"])
    x, rois, numbers = (len(shape_of(types[s][0])) for s in ("x", "rois", "batch_indices"))
    if (x, rois, numbers) != (4, 2, 1):
        raise AxisError("needs images [n, c, h, w], regions [k, 4] and image numbers [k].")
    corners = shape_of(types["rois"][0])[1]
    if isinstance(corners, int) and corners != 4:
        raise AxisError(f"needs 4 numbers for each region, not {corners}.")
    if len(size) != 2 or min(size) < 1:
        raise AxisError("needs two sizes from 1 on.", given=f"output_size={size}")
    return mapped(
        types,
        {"x": (("n", "c", "h", "w"),), "rois": (("k", "corner"),), "batch_indices": (("k",),)},
        {"out": (("k", "c", "row", "column"),)},
        ["n", "h", "w", "corner", "row", "column"],
        sizes=dict(zip(("row", "column"), size, strict=True)),
    )


def of_regions(
    what: str,
    x: DType,
    rois: DType,
    batch_indices: DType,
    *,
    mode: str = "max",
    sampling_ratio: int = 0,
    **attrs: Any,
) -> DType:
    """The floating dtype of images."""
    del attrs
    real_function(what, rois)
    if not is_integer(batch_indices):
        raise DTypeError(f"{what} needs integers that number images, not {batch_indices}.")
    if mode not in MODES:
        raise ProgramError(f"{what} has mode={mode!r}.", fix=f"Say one of {', '.join(MODES)}.")
    if sampling_ratio < 0:
        raise ProgramError(f"{what} has sampling_ratio={sampling_ratio}.", fix="0 chooses it.")
    return real_function(what, x)


def weighted_pixels(types: Types, attrs: Attrs) -> Size:
    """For each region products with the weights of all rows, then of all columns."""
    _, channels, height, width = shape_of(types["x"][0])
    rows, columns = tuple_of(attrs["output_size"])
    regions = shape_of(types["rois"][0])[0]
    return 2 * product((regions, channels, rows, width, height + columns))


def compared_pixels(types: Types, attrs: Attrs) -> Size:
    """For each region all pixels of a row, then all rows."""
    _, channels, height, width = shape_of(types["x"][0])
    rows, columns = tuple_of(attrs["output_size"])
    regions = shape_of(types["rois"][0])[0]
    return product((regions, channels, columns, height, width + rows))


# ---- kernels ---------------------------------------------------------------------------------


def _of_each(function: Callable[..., Any], x: Any, batch_indices: Any, *regions: Any) -> Any:
    """A function of one image and one region, for all regions."""

    def of_one(given: Any) -> Any:
        number, *region = given
        return function(lax.dynamic_index_in_dim(x, number, keepdims=False), *region)

    return lax.map(of_one, (batch_indices, *regions), batch_size=TOGETHER)


def _picked(image: Any, places: Any, weights: Any) -> Any:
    """Pixels by their places [c, rows, columns], times weights."""
    flat = image.reshape(image.shape[0], -1)
    found = jnp.take_along_axis(flat, places.reshape(places.shape[0], -1), axis=1)
    return found.reshape(places.shape) * weights


def _samples(first: Any, last: Any, count: int, ratio: int) -> tuple[Any, Any, Any]:
    """Where bins begin [k, count], how long they are, and how many samples each has [k]."""
    length = (last - first) / count
    begins = first[:, None] + length[:, None] * np.arange(count).astype(first.dtype)
    many = jnp.ceil(length) if ratio == 0 else jnp.full_like(length, ratio)
    return begins, length, many


def _at(begin: Any, length: Any, many: Any, i: Any) -> Any:
    """Where a sample of each bin lies."""
    return begin + (i + 0.5) * length / jnp.maximum(many, 1)


def _within(at: Any, size: int) -> tuple[Any, Any]:
    """Samples brought onto pixels, and whether they lie near enough to count."""
    return jnp.clip(at, 0, size - 1), (at >= -1) & (at <= size)


def _row_weights(begins: Any, lengths: Any, many: Any, size: int) -> Any:
    """How much of each pixel of an axis is in the mean of each bin: [k, bins, size]."""
    pixels = np.arange(size).astype(begins.dtype)

    def add(i: Any, total: Any) -> Any:
        i = i.astype(begins.dtype)
        at, known = _within(_at(begins, lengths[:, None], many[:, None], i), size)
        known = known & (i < many[:, None])
        near = jnp.maximum(1 - jnp.abs(at[..., None] - pixels), 0)
        return total + jnp.where(known[..., None], near, jnp.zeros_like(near))

    start = jnp.zeros((*begins.shape, size), begins.dtype)
    total = lax.fori_loop(0, _whole(many.max()), add, start)
    return total / jnp.maximum(many, 1)[:, None, None]


def _whole(x: Any) -> Any:
    return x.astype("int32")


def _corners(at: Any, size: int) -> tuple[Any, Any, Any, Any]:
    """The two pixels around samples, and their weights; outside there are none."""
    at, known = _within(at, size)
    low = jnp.minimum(jnp.floor(at), size - 1)
    far = at - low
    none = jnp.zeros_like(far)
    high = jnp.minimum(low + 1, size - 1)
    return (
        _whole(low), _whole(high),
        jnp.where(known, 1 - far, none), jnp.where(known, far, none),
    )  # fmt: skip


def _largest(image: Any, rows: Any, columns: Any) -> Any:
    """The largest weighted pixel around all samples of each bin, of one region."""
    still = lax.stop_gradient(image)
    (down, tall, high), (across, broad, wide_) = rows, columns
    height, width = image.shape[1:]
    shape = (image.shape[0], len(down), len(across))
    many = _whole(jnp.maximum(wide_, 0))

    def better(i: Any, best: Any) -> Any:
        row, column = (n.astype(image.dtype) for n in (i // many, i % many))
        up, bottom, *y_weights = _corners(_at(down, tall, high, row), height)
        left, right, *x_weights = _corners(_at(across, broad, wide_, column), width)
        for y, y_weight in zip((up, bottom), y_weights, strict=True):
            for x, x_weight in zip((left, right), x_weights, strict=True):
                weight = jnp.broadcast_to(y_weight[:, None] * x_weight, shape)
                place = jnp.broadcast_to(y[:, None] * width + x, shape)
                best = _chosen(best, _picked(still, place, weight), place, weight)
        return best

    start = (
        jnp.full(shape, -np.inf, image.dtype), jnp.zeros(shape, "int32"),
        jnp.zeros(shape, image.dtype),
    )  # fmt: skip
    _, places, weights = lax.fori_loop(0, _whole(jnp.maximum(high, 0)) * many, better, start)
    return _picked(image, places, weights)


def _chosen(best: Any, value: Any, place: Any, weight: Any) -> Any:
    """The larger ones, with their places and weights."""
    value_before, place_before, weight_before = best
    more = value > value_before
    return (
        jnp.where(more, value, value_before), jnp.where(more, place, place_before),
        jnp.where(more, weight, weight_before),
    )  # fmt: skip


ALIGNED = (
    "x=f32[2,3,6,7] rois=f32[4,4] batch_indices=i64[4] output_size=(2,3) spatial_scale=0.5",
    "x=f64[2,2,5,5] rois=f64[b,4] batch_indices=i32[b] output_size=(2,2) sampling_ratio=2",
    "x=f64[2,2,h,w] rois=f64[3,4] batch_indices=i64[3] output_size=(3,2) aligned=True",
    "x=f64[2,2,5,6] rois=f64[3,4] batch_indices=i64[3] output_size=(2,2) mode=max",
    "x=f32[2,2,5,6] rois=f32[0,4] batch_indices=i64[0] output_size=(2,2)",
)


@op(
    axes=pooled,
    dtypes=of_regions,
    costly=True,
    operations=weighted_pixels,
    picks=("x",),
    examples=ALIGNED,
)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Indices,
    *,
    output_size: tuple[int, ...],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    mode: str = "avg",
    aligned: bool = False,
) -> Tensor:
    """Regions of images, each as bins that are means of samples between pixels.

        out[k, c, i, j] = mean over samples s of bin (i, j) of x[batch_indices[k], c] at s

    Samples are made of the four pixels around them. There is no gradient of regions. Source:
    He et al., Mask R-CNN, 2017.

    Inputs:
        x: number[n, c, h, w]. Images.
        rois: number[k, 4]. Regions: x and y of one corner, then of the opposite one.
        batch_indices: integer[k]. The image of each region.

    Attributes:
        output_size: How many bins there are along height and width.
        spatial_scale: What coordinates are multiplied by: pixels for each unit.
        sampling_ratio: How many samples a bin has along each axis; 0 is one for each pixel.
        mode: "avg" is the mean; "max" the largest of the pixels, times their weights.
        aligned: Whether pixels have their middles at halves, as half a pixel is taken away;
            else regions are one pixel large at least.

    Outputs:
        out: float[k, c, *output_size].

    Raises:
        ShapeError: An input has other axes, or `output_size` is no pair of sizes.
        DTypeError: `batch_indices` are no integers, or something is complex.
        ProgramError: `mode` is none of these, or `sampling_ratio` is negative.
        IndexRangeError: There is no such image, in the run.
    """
    dtype = float_dtype(np.dtype(x.dtype))
    if 0 in x.shape or not len(rois):
        return jnp.zeros((len(rois), x.shape[1], *output_size), dtype)
    images = wide(floating(x))
    places = lax.stop_gradient(rois).astype(images.dtype)
    scaled = places * np.asarray(spatial_scale, images.dtype) - (0.5 if aligned else 0.0)
    firsts, lasts = (scaled[:, 1], scaled[:, 0]), (scaled[:, 3], scaled[:, 2])
    if not aligned:
        lasts = tuple(jnp.maximum(b, a + 1) for a, b in zip(firsts, lasts, strict=True))
    rows, columns = (
        _samples(first, last, count, sampling_ratio)
        for first, last, count in zip(firsts, lasts, output_size, strict=True)
    )
    if mode == "max":
        return _of_each(_largest, images, batch_indices, rows, columns).astype(dtype)
    height, width = x.shape[2:]
    weights = _row_weights(*rows, height), _row_weights(*columns, width)
    return _of_each(_mean, images, batch_indices, *weights).astype(dtype)


def _mean(image: Any, rows: Any, columns: Any) -> Any:
    """The products of one image with weights of rows and of columns."""
    return jnp.einsum("ph,chw,qw->cpq", rows, image, columns)


@roi_align.checked(IndexRangeError, OUTSIDE)
def no_image_to_align(x: Tensor, rois: Tensor, batch_indices: Indices, **attrs: Any) -> Any:
    """Whether a region belongs to no image."""
    del rois, attrs
    return outside(batch_indices, x.shape[0], lowest=0)


@op(
    axes=pooled,
    dtypes=of_regions,
    costly=True,
    operations=compared_pixels,
    picks=("x",),
    examples=(
        "x=f32[2,3,6,7] rois=f32[4,4] batch_indices=i64[4] output_size=(2,3) spatial_scale=0.5",
        "x=f64[2,2,5,5] rois=f64[b,4] batch_indices=i32[b] output_size=(2,2)",
        "x=f64[2,2,h,w] rois=f64[3,4] batch_indices=i64[3] output_size=(5,4)",
        "x=f32[2,2,5,6] rois=f32[0,4] batch_indices=i64[0] output_size=(2,2)",
    ),
)
def roi_pool(
    x: Tensor,
    rois: Tensor,
    batch_indices: Indices,
    *,
    output_size: tuple[int, ...],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Regions of images, each as bins that are their largest pixels.

        out[k, c, i, j] = max over pixels p of bin (i, j) of x[batch_indices[k], c, p]

    Regions are rounded to pixels, and bins reach as far as they touch any; one without pixels
    is 0. Where several are the largest, the gradient goes to the first. There is none of
    regions. Source: Girshick, Fast R-CNN, 2015.

    Inputs:
        x: number[n, c, h, w]. Images.
        rois: number[k, 4]. Regions: x and y of one corner, then of the opposite one.
        batch_indices: integer[k]. The image of each region.

    Attributes:
        output_size: How many bins there are along height and width.
        spatial_scale: What coordinates are multiplied by: pixels for each unit.

    Outputs:
        out: float[k, c, *output_size].

    Raises:
        ShapeError: An input has other axes, or `output_size` is no pair of sizes.
        DTypeError: `batch_indices` are no integers, or something is complex.
        IndexRangeError: There is no such image, in the run.
    """
    dtype = float_dtype(np.dtype(x.dtype))
    if 0 in x.shape or not len(rois):
        return jnp.zeros((len(rois), x.shape[1], *output_size), dtype)
    images, (rows, columns) = floating(x), output_size
    places = wide(lax.stop_gradient(rois))
    corners = _rounded(places * np.asarray(spatial_scale, places.dtype))
    down = _members(corners[:, 1], corners[:, 3], rows, x.shape[2])
    across = _members(corners[:, 0], corners[:, 2], columns, x.shape[3])
    return _of_each(_largest_member, images, batch_indices, down, across)


def _rounded(x: Any) -> Any:
    """The nearest whole numbers; halves away from zero."""
    return _whole(jnp.sign(x) * jnp.floor(jnp.abs(x) + 0.5))


def _members(first: Any, last: Any, count: int, size: int) -> Any:
    """Which pixels of an axis each bin has: [k, count, size]."""
    length = jnp.maximum(last - first + 1, 1)[:, None]
    bins = np.arange(count, dtype=np.int32)
    begins = bins * length // count + first[:, None]
    ends = -(-(bins + 1) * length // count) + first[:, None]
    pixels = np.arange(size, dtype=np.int32)
    return (pixels >= begins[..., None]) & (pixels < ends[..., None])


def _largest_member(image: Any, down: Any, across: Any) -> Any:
    """The first of the largest pixels of each bin, of one region."""
    still, width = lax.stop_gradient(image), image.shape[2]
    lowest = np.asarray(-np.inf).astype(image.dtype)
    in_row = jnp.where(across[:, None], still[:, None], lowest)  # [c, columns, h, w]
    best_column = jnp.argmax(in_row, axis=3)
    in_bin = jnp.where(down[:, None], jnp.max(in_row, axis=3)[:, None], lowest)
    row = jnp.argmax(in_bin, axis=3)  # [c, rows, columns]
    spread = jnp.broadcast_to(best_column[:, None], in_bin.shape)
    column = jnp.take_along_axis(spread, row[..., None], axis=3)[..., 0]
    some = down.any(1)[:, None] & across.any(1)
    found = _picked(image, row * width + column, jnp.ones(row.shape, image.dtype))
    return jnp.where(some, found, jnp.zeros_like(found))


@roi_pool.checked(IndexRangeError, OUTSIDE)
def no_image_to_pool(x: Tensor, rois: Tensor, batch_indices: Indices, **attrs: Any) -> Any:
    """Whether a region belongs to no image."""
    del rois, attrs
    return outside(batch_indices, x.shape[0], lowest=0)
