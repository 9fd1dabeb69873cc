"""Pooling over regions of interest: RoI align and RoI pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    require_tuple,
    shape_of,
)
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Size, product
from braces.dtypes import DType, is_integer
from braces.errors import DTypeError, IndexRangeError, ProgramError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import at_least_float32
from braces.ops.common.rules import as_floating, float_dtype, real_function
from braces.ops.indexing.take import out_of_range_code

REGIONS_AT_ONCE = 16
"""The number of regions that are computed at once, each with a copy of its image."""
MODES = ("avg", "max")
OUTSIDE = "An image index of a region is out of range."


# ---- rules -----------------------------------------------------------------------------------


def roi_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: pointwise on regions and channels."""
    size = require_tuple(attrs["output_size"])
    x, rois, numbers = (len(shape_of(types[s][0])) for s in ("x", "rois", "batch_indices"))
    if (x, rois, numbers) != (4, 2, 1):
        raise AxisError(
            "expected images [n, c, h, w], regions [k, 4] and image indices [k], "
            f"got ranks {x}, {rois} and {numbers}."
        )
    corners = shape_of(types["rois"][0])[1]
    if isinstance(corners, int) and corners != 4:
        raise AxisError(f"expected 4 coordinates for each region, got {corners}.")
    if len(size) != 2 or min(size) < 1:
        raise AxisError("expected two output sizes of 1 or more.", given=f"output_size={size}")
    return make_axis_map(
        types,
        {"x": (("n", "c", "h", "w"),), "rois": (("k", "corner"),), "batch_indices": (("k",),)},
        {"out": (("k", "c", "row", "column"),)},
        ["n", "h", "w", "corner", "row", "column"],
        sizes=dict(zip(("row", "column"), size, strict=True)),
    )


def roi_dtype(
    what: str,
    x: DType,
    rois: DType,
    batch_indices: DType,
    *,
    mode: str = "max",
    sampling_ratio: int = 0,
    **attrs: Any,
) -> DType:
    """Dtype rule: the floating dtype of the images."""
    del attrs
    real_function(what, rois)
    if not is_integer(batch_indices):
        raise DTypeError(f"{what}: expected integer image indices, got {batch_indices}.")
    if mode not in MODES:
        raise ProgramError(
            f"{what}: unknown mode={mode!r}.", fix=f"Use one of {', '.join(MODES)}."
        )
    if sampling_ratio < 0:
        raise ProgramError(
            f"{what}: negative sampling_ratio={sampling_ratio}.",
            fix="Use 0 to choose the ratio automatically.",
        )
    return real_function(what, x)


def weighted_pixels(types: Types, attrs: Attrs) -> Size:
    """Return the operations: per region, products with the weights of rows, then columns."""
    _, channels, height, width = shape_of(types["x"][0])
    rows, columns = require_tuple(attrs["output_size"])
    regions = shape_of(types["rois"][0])[0]
    return 2 * product((regions, channels, rows, width, height + columns))


def compared_pixels(types: Types, attrs: Attrs) -> Size:
    """Return the operations: per region, comparisons of the pixels in rows, then of rows."""
    _, channels, height, width = shape_of(types["x"][0])
    rows, columns = require_tuple(attrs["output_size"])
    regions = shape_of(types["rois"][0])[0]
    return product((regions, channels, columns, height, width + rows))


# ---- kernels ---------------------------------------------------------------------------------


def _map_regions(
    function: Callable[..., Any], x: Any, batch_indices: Any, *regions: Any
) -> Any:
    """Map a function of one image and one region over all regions."""

    def map_region(operands: Any) -> Any:
        number, *region = operands
        return function(lax.dynamic_index_in_dim(x, number, keepdims=False), *region)

    return lax.map(map_region, (batch_indices, *regions), batch_size=REGIONS_AT_ONCE)


def _gather_pixels(image: Any, places: Any, weights: Any) -> Any:
    """Gather pixels by their flat indices [c, rows, columns], and multiply by weights."""
    flat = image.reshape(image.shape[0], -1)
    pixels = jnp.take_along_axis(flat, places.reshape(places.shape[0], -1), axis=1)
    return pixels.reshape(places.shape) * weights


def _samples(first: Any, last: Any, count: int, ratio: int) -> tuple[Any, Any, Any]:
    """Return the starts of bins [k, count], their length and their number of samples [k]."""
    length = (last - first) / count
    begins = first[:, None] + length[:, None] * np.arange(count).astype(first.dtype)
    sample_count = jnp.ceil(length) if ratio == 0 else jnp.full_like(length, ratio)
    return begins, length, sample_count


def _sample_position(begin: Any, length: Any, many: Any, i: Any) -> Any:
    """Return the position of sample `i` of each bin."""
    return begin + (i + 0.5) * length / jnp.maximum(many, 1)


def _clip_samples(at: Any, size: int) -> tuple[Any, Any]:
    """Clip samples to the image; return also a mask of those at most one pixel outside."""
    return jnp.clip(at, 0, size - 1), (at >= -1) & (at <= size)


def _row_weights(begins: Any, lengths: Any, many: Any, size: int) -> Any:
    """Return the weight of each pixel of an axis in the mean of each bin: [k, bins, size]."""
    pixels = np.arange(size).astype(begins.dtype)

    def add(i: Any, total: Any) -> Any:
        i = i.astype(begins.dtype)
        at, is_valid = _clip_samples(
            _sample_position(begins, lengths[:, None], many[:, None], i), size
        )
        is_valid = is_valid & (i < many[:, None])
        weights = jnp.maximum(1 - jnp.abs(at[..., None] - pixels), 0)
        return total + jnp.where(is_valid[..., None], weights, jnp.zeros_like(weights))

    start = jnp.zeros((*begins.shape, size), begins.dtype)
    total = lax.fori_loop(0, _as_int32(many.max()), add, start)
    return total / jnp.maximum(many, 1)[:, None, None]


def _as_int32(x: Any) -> Any:
    return x.astype("int32")


def _corners(at: Any, size: int) -> tuple[Any, Any, Any, Any]:
    """Return the two pixels around samples and their weights, which are 0 outside."""
    at, is_valid = _clip_samples(at, size)
    low = jnp.minimum(jnp.floor(at), size - 1)
    fraction = at - low
    zeros = jnp.zeros_like(fraction)
    high = jnp.minimum(low + 1, size - 1)
    return (
        _as_int32(low), _as_int32(high),
        jnp.where(is_valid, 1 - fraction, zeros), jnp.where(is_valid, fraction, zeros),
    )  # fmt: skip


def _max_of_samples(image: Any, rows: Any, columns: Any) -> Any:
    """Return the largest weighted pixel around the samples of each bin of one region."""
    fixed_image = lax.stop_gradient(image)
    (down, tall, high), (across, broad, wide_) = rows, columns
    height, width = image.shape[1:]
    shape = (image.shape[0], len(down), len(across))
    sample_columns = _as_int32(jnp.maximum(wide_, 0))

    def better(i: Any, best: Any) -> Any:
        row, column = (n.astype(image.dtype) for n in (i // sample_columns, i % sample_columns))
        up, bottom, *y_weights = _corners(_sample_position(down, tall, high, row), height)
        left, right, *x_weights = _corners(
            _sample_position(across, broad, wide_, column), width
        )
        for y, y_weight in zip((up, bottom), y_weights, strict=True):
            for x, x_weight in zip((left, right), x_weights, strict=True):
                weight = jnp.broadcast_to(y_weight[:, None] * x_weight, shape)
                place = jnp.broadcast_to(y[:, None] * width + x, shape)
                best = _select_larger(
                    best, _gather_pixels(fixed_image, place, weight), place, weight
                )
        return best

    start = (
        jnp.full(shape, -np.inf, image.dtype), jnp.zeros(shape, "int32"),
        jnp.zeros(shape, image.dtype),
    )  # fmt: skip
    _, places, weights = lax.fori_loop(
        0, _as_int32(jnp.maximum(high, 0)) * sample_columns, better, start
    )
    return _gather_pixels(image, places, weights)


def _select_larger(best: Any, value: Any, place: Any, weight: Any) -> Any:
    """Select the larger values, with their indices and weights."""
    value_before, place_before, weight_before = best
    is_larger = value > value_before
    return (
        jnp.where(is_larger, value, value_before), jnp.where(is_larger, place, place_before),
        jnp.where(is_larger, weight, weight_before),
    )  # fmt: skip


ALIGNED = (
    "x=f32[2,3,6,7] rois=f32[4,4] batch_indices=i64[4] output_size=(2,3) spatial_scale=0.5",
    "x=f64[2,2,5,5] rois=f64[b,4] batch_indices=i32[b] output_size=(2,2) sampling_ratio=2",
    "x=f64[2,2,h,w] rois=f64[3,4] batch_indices=i64[3] output_size=(3,2) aligned=True",
    "x=f64[2,2,5,6] rois=f64[3,4] batch_indices=i64[3] output_size=(2,2) mode=max",
    "x=f32[2,2,5,6] rois=f32[0,4] batch_indices=i64[0] output_size=(2,2)",
)


@op(
    axes=roi_axis_map,
    dtypes=roi_dtype,
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
    """RoI align: regions of images as bins, each the mean of interpolated samples.

        out[k, c, i, j] = mean over samples s of bin (i, j) of x[batch_indices[k], c] at s

    Samples are interpolated bilinearly. Regions have no gradient. Source: He et al., Mask
    R-CNN, 2017.

    Inputs:
        x: number[n, c, h, w]. Images.
        rois: number[k, 4]. Regions: x and y of one corner, then of the opposite one.
        batch_indices: integer[k]. The image of each region.

    Attributes:
        output_size: The number of bins along height and width.
        spatial_scale: The factor of the coordinates: pixels per unit.
        sampling_ratio: The number of samples per bin along each axis; 0: one for each pixel.
        mode: "avg" is the mean; "max" is the maximum of the pixels times their weights.
        aligned: Whether coordinates are shifted by half a pixel, so that pixel centers lie at
            halves; otherwise regions have a size of at least one pixel.

    Outputs:
        out: float[k, c, *output_size].

    Raises:
        ShapeError: If an input has a different rank, or `output_size` is not a pair of sizes.
        DTypeError: If `batch_indices` are not integers, or an input is complex.
        ProgramError: If `mode` is unknown, or `sampling_ratio` is negative.
        IndexRangeError: If an image index is out of range at run time.
    """
    dtype = float_dtype(np.dtype(x.dtype))
    if 0 in x.shape or not len(rois):
        return jnp.zeros((len(rois), x.shape[1], *output_size), dtype)
    images = at_least_float32(as_floating(x))
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
        return _map_regions(_max_of_samples, images, batch_indices, rows, columns).astype(dtype)
    height, width = x.shape[2:]
    weights = _row_weights(*rows, height), _row_weights(*columns, width)
    return _map_regions(_mean, images, batch_indices, *weights).astype(dtype)


def _mean(image: Any, rows: Any, columns: Any) -> Any:
    """Multiply one image by the weights of rows and of columns."""
    return jnp.einsum("ph,chw,qw->cpq", rows, image, columns)


@roi_align.checked(IndexRangeError, OUTSIDE)
def no_image_to_align(x: Tensor, rois: Tensor, batch_indices: Indices, **attrs: Any) -> Any:
    """Run-time check: the image index of a region is out of range."""
    del rois, attrs
    return out_of_range_code(batch_indices, x.shape[0], lowest=0)


@op(
    axes=roi_axis_map,
    dtypes=roi_dtype,
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
    """RoI pool: regions of images as bins, each the maximum of its pixels.

        out[k, c, i, j] = max over pixels p of bin (i, j) of x[batch_indices[k], c, p]

    Regions are rounded to pixels, and a bin contains all pixels that it touches. An empty bin
    is 0. On ties, the gradient goes to the first maximum. Regions have no gradient. Source:
    Girshick, Fast R-CNN, 2015.

    Inputs:
        x: number[n, c, h, w]. Images.
        rois: number[k, 4]. Regions: x and y of one corner, then of the opposite one.
        batch_indices: integer[k]. The image of each region.

    Attributes:
        output_size: The number of bins along height and width.
        spatial_scale: The factor of the coordinates: pixels per unit.

    Outputs:
        out: float[k, c, *output_size].

    Raises:
        ShapeError: If an input has a different rank, or `output_size` is not a pair of sizes.
        DTypeError: If `batch_indices` are not integers, or an input is complex.
        IndexRangeError: If an image index is out of range at run time.
    """
    dtype = float_dtype(np.dtype(x.dtype))
    if 0 in x.shape or not len(rois):
        return jnp.zeros((len(rois), x.shape[1], *output_size), dtype)
    images, (rows, columns) = as_floating(x), output_size
    places = at_least_float32(lax.stop_gradient(rois))
    corners = _round_half_away(places * np.asarray(spatial_scale, places.dtype))
    down = _bin_mask(corners[:, 1], corners[:, 3], rows, x.shape[2])
    across = _bin_mask(corners[:, 0], corners[:, 2], columns, x.shape[3])
    return _map_regions(_max_of_bins, images, batch_indices, down, across)


def _round_half_away(x: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    return _as_int32(jnp.sign(x) * jnp.floor(jnp.abs(x) + 0.5))


def _bin_mask(first: Any, last: Any, count: int, size: int) -> Any:
    """Return a mask of the pixels of each bin along an axis: [k, count, size]."""
    length = jnp.maximum(last - first + 1, 1)[:, None]
    bins = np.arange(count, dtype=np.int32)
    begins = bins * length // count + first[:, None]
    ends = -(-(bins + 1) * length // count) + first[:, None]
    pixels = np.arange(size, dtype=np.int32)
    return (pixels >= begins[..., None]) & (pixels < ends[..., None])


def _max_of_bins(image: Any, down: Any, across: Any) -> Any:
    """Return the first maximum of each bin of one region."""
    fixed_image, width = lax.stop_gradient(image), image.shape[2]
    lowest = np.asarray(-np.inf).astype(image.dtype)
    in_row = jnp.where(across[:, None], fixed_image[:, None], lowest)  # [c, columns, h, w]
    best_column = jnp.argmax(in_row, axis=3)
    in_bin = jnp.where(down[:, None], jnp.max(in_row, axis=3)[:, None], lowest)
    row = jnp.argmax(in_bin, axis=3)  # [c, rows, columns]
    columns_of_bins = jnp.broadcast_to(best_column[:, None], in_bin.shape)
    column = jnp.take_along_axis(columns_of_bins, row[..., None], axis=3)[..., 0]
    is_nonempty = down.any(1)[:, None] & across.any(1)
    maxima = _gather_pixels(image, row * width + column, jnp.ones(row.shape, image.dtype))
    return jnp.where(is_nonempty, maxima, jnp.zeros_like(maxima))


@roi_pool.checked(IndexRangeError, OUTSIDE)
def no_image_to_pool(x: Tensor, rois: Tensor, batch_indices: Indices, **attrs: Any) -> Any:
    """Run-time check: the image index of a region is out of range."""
    del rois, attrs
    return out_of_range_code(batch_indices, x.shape[0], lowest=0)
