"""Rules of images: columns of windows, shuffles of channels, grids, regions of interest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import reshape_checked, slice_axis
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.exchange.paddle.rules.nn.conv_pool import apply_channels_first, padding_of
from braces.extend import data_dependent, dims, functions as ops
from braces.extend.building import Var, call, emit
from braces.extend.programs import Literal
from braces.extend.types import INT64, Padding, product

# ---- windows ---------------------------------------------------------------------------------


def _margins(node: PaddleOp) -> Padding:
    """Return the padding of both ends of each axis: top, left, bottom, right in the file."""
    top, left, bottom, right = (int(n) for n in node.attr("paddings"))
    return top, bottom, left, right


def unfold(node: PaddleOp) -> Var:
    """The elements of each window as a column."""
    return call(
        "im2col", node.x(), window=tuple(node.attr("kernel_sizes")), padding=_margins(node),
        stride=tuple(node.attr("strides")), dilation=tuple(node.attr("dilations")),
    )  # fmt: skip


def fold(node: PaddleOp) -> Var:
    """The sum of columns at the places of their windows."""
    x, window = node.x(), tuple(int(n) for n in node.attr("kernel_sizes"))
    channels = dims.divide_exactly(x.shape[1], product(window))
    if channels is None:
        node.refuse(f"an axis of size {x.shape[1]} is not a multiple of the window {window}")
    return call(
        "col2im", x, shape=(x.shape[0], channels, *node.attr("output_sizes")), window=window,
        padding=_margins(node), stride=tuple(node.attr("strides")),
        dilation=tuple(node.attr("dilations")),
    )  # fmt: skip


def unpool(rank: int) -> Rule:
    """Return the rule of max unpooling."""

    def rule(node: PaddleOp) -> Var:
        at = cast_to_dtype(node.var("Indices"), INT64)
        sizes = [int(str(n)) for n in node.sizes("output_size", "output_size_tensor")]
        x = node.x()
        return call(f"max_unpool{rank}d", x, at, shape=(*x.shape[:2], *sizes[-rank:]))

    return rule


# ---- channels --------------------------------------------------------------------------------


def pixel_unshuffle(node: PaddleOp) -> Var:
    """Move blocks of the plane into channels."""
    return apply_channels_first(
        node, node.x(), partial(_unshuffled, node, node.attr("downscale_factor", 1))
    )


def _unshuffled(node: PaddleOp, factor: int, x: Var) -> Var:
    n, c, h, w = x.shape
    high, wide = (dims.divide_exactly(size, factor) for size in (h, w))
    if high is None or wide is None:
        node.refuse(f"cannot split a plane of {h} by {w} into blocks of {factor}")
    blocks = ops.reshape(x, (n, c, high, factor, wide, factor))
    blocks = ops.transpose(blocks, (0, 1, 3, 5, 2, 4))
    return ops.reshape(blocks, (n, c * factor * factor, high, wide))


def channel_shuffle(node: PaddleOp) -> Var:
    """Interleave the channels of groups."""
    groups = node.attr("groups", 1)

    def shuffled(x: Var) -> Var:
        part = dims.divide_exactly(x.shape[1], groups)
        if part is None:
            node.refuse(f"cannot split {x.shape[1]} channels into {groups} groups")
        grouped = ops.reshape(x, (x.shape[0], groups, part, *x.shape[2:]))
        return ops.reshape(ops.swapaxes(grouped, 1, 2), x.shape)

    return apply_channels_first(node, node.x(), shuffled)


def temporal_shift(node: PaddleOp) -> Var:
    """Shift some channels to the previous frame of a segment, and some to the next one."""
    count, share = node.attr("seg_num", 1), node.attr("shift_ratio", 0.25)

    def shifted(x: Var) -> Var:
        channels = x.shape[1]
        if not isinstance(channels, int):
            node.refuse(f"unsupported symbolic number of channels {channels}")
        first, second = int(channels * share), int(channels * 2 * share)
        segments = reshape_checked(x, (-1, count, *x.shape[1:]))
        wide = ops.pad(segments, [(0, 0), (1, 1), (0, 0), (0, 0), (0, 0)])
        parts = [
            wide[:, :count, :first], wide[:, 2:, first:second], wide[:, 1 : count + 1, second:]
        ]  # fmt: skip
        return reshape_checked(ops.concat(parts, axis=2), x.shape)

    return apply_channels_first(node, node.x(), shifted)


# ---- positions -------------------------------------------------------------------------------


def affine_grid(node: PaddleOp) -> Var:
    """The positions of an affine transformation of an image or volume."""
    theta = node.var("Theta")
    sizes = node.sizes("output_shape", "OutputShape")
    corners = bool(node.attr("align_corners", True))
    axes = [_coordinates(node, n, corners) for n in sizes[2:]]
    rank = len(axes)
    grids = [
        ops.broadcast_to(
            ops.reshape(axis, [-1 if at == i else 1 for at in range(rank)]), sizes[2:]
        )
        for i, axis in enumerate(axes)
    ][::-1]  # the last axis is the first coordinate
    points = ops.stack([*grids, ops.ones_like(grids[0])], axis=-1)
    flat = ops.reshape(cast_to_dtype(points, theta.dtype), (product(sizes[2:]), rank + 1))
    moved = ops.matmul(flat, ops.swapaxes(theta, -1, -2))
    return ops.reshape(moved, (theta.shape[0], *sizes[2:], rank))


def _coordinates(node: PaddleOp, size: object, corners: bool) -> Var:
    """Return the coordinates of the pixels of an axis, from -1 to 1."""
    if not isinstance(size, int):
        node.refuse(f"unsupported symbolic size {size} of the grid")
    points = np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(size)
    points = points if corners or size < 1 else points * (size - 1) / size
    return emit("constant", value=Literal.of(points.astype(np.float32)))


# ---- regions ---------------------------------------------------------------------------------


def _images_of_regions(node: PaddleOp, count: object) -> Var:
    """Return the image of each region, from the numbers of regions of the images."""
    if not node.has("RoisNum"):
        node.refuse("unsupported regions with LoD", "Pass the numbers of regions, boxes_num.")
    ends = ops.cumsum(cast_to_dtype(node.var("RoisNum"), INT64), axis=0)
    at = ops.expand_dims(emit("arange", stop=count), axis=1)
    return ops.sum(cast_to_dtype(ops.less_equal(ends, at), INT64), axis=1)


def roi_align(node: PaddleOp) -> Var:
    """Regions of images as bins, each the mean of interpolated samples."""
    regions = node.var("ROIs")
    return call(
        "roi_align", node.x(), regions, _images_of_regions(node, regions.shape[0]),
        output_size=(node.attr("pooled_height", 1), node.attr("pooled_width", 1)),
        spatial_scale=node.attr("spatial_scale", 1.0),
        sampling_ratio=max(int(node.attr("sampling_ratio", -1)), 0),
        aligned=bool(node.attr("aligned", False)),
    )  # fmt: skip


def deformable_conv(node: PaddleOp) -> Var:
    """A convolution whose sampling positions are moved by offsets."""
    return call(
        "deform_conv2d", node.x(), node.var("Filter"), node.var("Offset"), None,
        node.maybe("Mask"), stride=tuple(node.attr("strides")), padding=padding_of(node, 2),
        dilation=tuple(node.attr("dilations")), groups=node.attr("groups", 1),
        offset_groups=node.attr("deformable_groups", 1),
    )  # fmt: skip


def suppress(node: PaddleOp) -> Results:
    """The boxes that do not overlap an earlier one."""
    boxes = node.var("Boxes")
    scores = -emit("arange", stop=boxes.shape[0])
    at = call(
        "non_max_suppression", boxes, cast_to_dtype(scores, boxes.dtype), None,
        iou_threshold=node.attr("iou_threshold", 1.0),
    )  # fmt: skip
    (places,) = data_dependent.nonzero(at >= 0)
    return {"KeepBoxesIdxs": ops.take(at, places, axis=0)}


def crop(node: PaddleOp) -> Var:
    """A box of an array; a size of -1 reaches to the end."""
    x = node.x()
    starts = node.places("offsets", "Offsets") if not node.has("Offsets") else list(
        ops.unstack(node.var("Offsets"), axis=0))  # fmt: skip
    sizes = node.sizes("shape", "Shape", "ShapeTensor")
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        end = None if size == -1 else start + size
        x = slice_axis(x, axis, start, end)
    return x


IMAGES: Mapping[str, Rule] = {
    "affine_grid": affine_grid,
    "channel_shuffle": channel_shuffle,
    "crop_tensor": crop,
    "deformable_conv": deformable_conv,
    "deformable_conv_v1": deformable_conv,
    "fold": fold,
    "nms": suppress,
    "pixel_unshuffle": pixel_unshuffle,
    "roi_align": roi_align,
    "temporal_shift": temporal_shift,
    "unfold": unfold,
    "unpool": unpool(2),
    "unpool3d": unpool(3),
}
