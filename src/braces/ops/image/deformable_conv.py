"""Deformable convolution: the sampling positions of a window are moved by an input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from braces.define.axes.axis_map import Attrs, AxisMap, Types, make_axis_map, shape_of
from braces.define.decorator import Padding, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Size, product, sum_of
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32, result_dtype
from braces.ops.common.rules import promote
from braces.ops.conv_pool.conv import (
    check_fit,
    convolution_type,
    expand_bias,
    products_per_output,
    windows_of,
)
from braces.ops.conv_pool.data_layouts import check_rank
from braces.ops.image.grid_sample import interpolate_at

LAYOUT = "NCHW"
AROUND = {"mode": "linear", "padding_mode": "zeros", "align_corners": True}
"""Attributes of bilinear interpolation with zeros outside of the image."""


def deform_conv_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: pointwise on the batch, and on channels unless there are groups."""
    one_group = attrs["groups"] == 1
    input_channel = "C" if one_group and attrs["offset_groups"] == 1 else "I"
    indices = {
        "x": (("N", "C", "H", "W"),),
        "weight": (("O", input_channel, "window H", "window W"),),
        "offset": (("N", "offsets", "out H", "out W"),),
        "bias": (("O",),),
        "mask": (("N", "masks", "out H", "out W"),),
    }
    indices = {slot: names for slot, names in indices.items() if slot in types}
    every_axis = {axis for names in indices.values() for axis in names[0]}
    pointwise = {"N", *("O" if one_group else ""), *("C" if input_channel == "C" else "")}
    return make_axis_map(
        types, indices, {"out": (("N", "O", "out H", "out W"),)}, every_axis - pointwise
    )


def deform_conv_flops(types: Types, attrs: Attrs) -> Size:
    """Return the operations: bilinear interpolation per window element, then a convolution."""
    weight, out = types["weight"][0], types["out"][0]
    n, outputs, *places = shape_of(out)
    channels = shape_of(types["x"][0])[1]
    interpolations = product((n, channels, *places, *shape_of(weight)[2:], 12))
    inside = products_per_output(weight, {**attrs, "layout": LAYOUT})
    return sum_of((interpolations, product((n, outputs, *places, inside))))


@op(
    axes=deform_conv_axis_map,
    costly=True,
    operations=deform_conv_flops,
    examples=(
        "x=f32[2,2,4,5] weight=f32[3,2,2,2] offset=f32[2,8,3,4] bias=f32[3] mask=f32[2,4,3,4]",
        "x=f64[b,2,3,4] weight=f64[2,2,3,2] offset=f64[b,12,3,3] padding=(1,1,0,0)",
        "x=f64[b,4,4,4] weight=f64[2,2,2,2] offset=f64[b,16,2,2] mask=f64[b,8,2,2] stride=2 "
        "groups=2 offset_groups=2",
        "x=f32[0,1,4,4] weight=f32[1,1,2,2] offset=f32[0,8,2,2] dilation=2",
    ),
)
@in_float32
def deform_conv2d(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    *,
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """A convolution whose sampling positions are moved by offsets.

        out[n, o, i] = bias[o] + sum_{c, k} weight[o, c, k] * mask[n, k, i]
            * x[n, c] at (i * stride + k * dilation + offset[n, k, i])

    where `i` and `k` are pairs of indices. Values between pixels are interpolated bilinearly;
    outside of the image they are zero. Source: Dai et al., Deformable Convolutional Networks,
    2017; the mask: Zhu et al., Deformable ConvNets v2, 2019.

    Inputs:
        x: float[n, c, h, w]. Integers give float32.
        weight: float[o, c / groups, *window].
        offset: float[n, offset_groups * elements of a window * 2, *windows]; for each element
            the vertical offset (down), then the horizontal offset (right).
        bias: float[o]; may be absent.
        mask: float[n, offset_groups * elements of a window, *windows]; may be absent.

    Attributes:
        stride: The step between windows; one number for both axes, or one for each.
        padding: "valid", "same", or numbers, as for a convolution.
        dilation: The distance between the elements of a window.
        groups: The number of groups of channels; each output channel reads one group.
        offset_groups: The number of groups of channels with separate offsets.

    Outputs:
        out: float[n, o, *windows].

    Raises:
        ShapeError: If channels or windows differ, or an attribute has too many numbers.
    """
    dtype = result_dtype(x, weight, offset, bias, mask)
    x, weight, offset = (array.astype(dtype) for array in (x, weight, offset))
    n, channels, *space = x.shape
    window, places = weight.shape[2:], offset.shape[2:]
    kernel = (*window, *weight.shape[1::-1])
    images = (n, *space, channels)
    windows = windows_of(images, kernel, stride, padding, dilation, groups)
    check_fit(images, kernel, windows)
    group_count = n * offset_groups
    group_offsets = offset.reshape(group_count, *window, 2, *places)
    positions = [
        group_offsets[:, :, :, axis]
        + _regular_positions(axis, windows, window, places).astype(dtype)
        for axis in (0, 1)
    ]
    group_channels = x.reshape(group_count, channels // offset_groups, *space)
    sampled = interpolate_at(group_channels, positions, AROUND)
    if mask is not None:
        sampled = sampled * mask.astype(dtype).reshape(group_count, 1, *window, *places)
    columns = sampled.reshape(n, channels, math.prod(window), math.prod(places))
    out = _multiply_groups(columns, weight, groups)
    out = out.reshape(n, weight.shape[0], *places)
    return out if bias is None else out + expand_bias(bias.astype(dtype), LAYOUT)


def _multiply_groups(sampled: Any, weight: Any, groups: int) -> Any:
    """Multiply the sampled columns of each group by its weights."""
    n, channels, inside, places = sampled.shape
    grouped = sampled.reshape(n, groups, channels // groups, inside, places)
    weights = weight.reshape(groups, weight.shape[0] // groups, channels // groups, inside)
    return jnp.einsum("ngckp,gock->ngop", grouped, weights)


def _regular_positions(
    axis: int, windows: Any, window: Sequence[int], places: Sequence[int]
) -> Any:
    """Return the positions of window elements without offsets: [*window, *places]."""
    (low, _), step = windows.pads[axis], windows.strides[axis]
    elements = np.arange(window[axis]) * windows.dilations[axis] - low
    starts = np.arange(places[axis]) * step
    shape, place_shape = [1] * 4, [1] * 4
    shape[axis], place_shape[axis + 2] = window[axis], places[axis]
    return elements.reshape(shape) + starts.reshape(place_shape)


@deform_conv2d.infer
def infer_deform_conv2d(
    context: InferenceContext,
    x: TensorType,
    weight: TensorType,
    offset: TensorType,
    bias: TensorType | None,
    mask: TensorType | None,
    *,
    offset_groups: int,
    **attrs: Any,
) -> TensorType:
    """Infer the type of a convolution, and check offsets and mask for each window element."""
    out = convolution_type(4, context, x, weight, bias, **attrs, layout=LAYOUT)
    channels = x.shape[1]
    if offset_groups < 1 or (channels % offset_groups) != 0:
        raise ShapeError(
            f"{context.type}: {channels} input channels are not divisible by "
            f"offset_groups={offset_groups}.",
            fix="Use a multiple of offset_groups as the number of input channels.",
        )
    inside = product((offset_groups, *weight.shape[2:]))
    dtypes = [out.dtype]
    for slot, extra, count in (("offset", offset, 2 * inside), ("mask", mask, inside)):
        if extra is not None:
            check_rank(extra, 4, f"{slot} of {context.type}")
            expected = out.with_shape((x.shape[0], count, *out.shape[2:]))
            problem = f"{slot} of {context.type}: expected {expected}, got {extra}."
            for got, size in zip(extra.shape, expected.shape, strict=True):
                context.unify(got, size, problem)
            dtypes.append(extra.dtype)
    return out.with_dtype(promote(*dtypes))
