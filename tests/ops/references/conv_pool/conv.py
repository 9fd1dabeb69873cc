"""References of `braces.ops.conv_pool.conv`: window by window."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating

CHANNELS_FIRST = {
    "NCW": (0, 1, 2),
    "NWC": (0, 2, 1),
    "NCHW": (0, 1, 2, 3),
    "NHWC": (0, 3, 1, 2),
    "NCDHW": (0, 1, 2, 3, 4),
    "NDHWC": (0, 4, 1, 2, 3),
}
"""The axes of an array in this layout, in the order batch, channels, space."""
OUTPUTS_FIRST = {
    "NCW": (0, 1, 2),
    "NWC": (2, 1, 0),
    "NCHW": (0, 1, 2, 3),
    "NHWC": (3, 2, 0, 1),
    "NCDHW": (0, 1, 2, 3, 4),
    "NDHWC": (4, 3, 0, 1, 2),
}
"""The axes of a weight, in the order outputs, inputs, window."""


def each(values: Any, count: int) -> list[int]:
    """One number for each axis."""
    return list(np.broadcast_to(values, count))


def edges(
    padding: Any, sizes: Any, window: Any, stride: Any, dilation: Any
) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis."""
    if padding == "valid":
        return [(0, 0)] * len(sizes)
    if padding == "same":
        found = list[tuple[int, int]]()
        for size, k, s, d in zip(sizes, window, stride, dilation, strict=True):
            missing = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            found.append((missing // 2, missing - missing // 2))
        return found
    numbers = list(np.ravel(padding))
    if len(numbers) == 2 * len(sizes):
        return [(numbers[2 * i], numbers[2 * i + 1]) for i in range(len(sizes))]
    return [(n, n) for n in each(numbers, len(sizes))]


def windows(
    x: Array, pads: Any, window: Any, stride: Any, dilation: Any, fill: Any
) -> tuple[tuple[int, ...], Any]:
    """The number of windows along each spatial axis, and a function that cuts one out."""
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    counts = tuple(
        max((n - r) // s + 1, 0)
        for n, r, s in zip(padded.shape[2:], reach, stride, strict=True)
    )

    def cut(place: tuple[int, ...]) -> Array:
        slices = [
            slice(i * s, i * s + r, d)
            for i, s, r, d in zip(place, stride, reach, dilation, strict=True)
        ]
        return padded[(slice(None), slice(None), *slices)]

    return counts, cut


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    layout: str,
) -> Array:
    dtype = floating(np.zeros((), np.result_type(x, weight))).dtype
    x, weight = x.transpose(CHANNELS_FIRST[layout]), weight.transpose(OUTPUTS_FIRST[layout])
    count = x.ndim - 2
    stride, dilation = each(stride, count), each(dilation, count)
    pads = edges(padding, x.shape[2:], weight.shape[2:], stride, dilation)
    counts, cut = windows(x, pads, weight.shape[2:], stride, dilation, 0)
    out = np.zeros((x.shape[0], weight.shape[0], *counts), dtype)
    taken, given = weight.shape[1], weight.shape[0] // groups
    for group, *place in product(range(groups), *map(range, counts)):
        seen = cut(tuple(place))[:, group * taken : (group + 1) * taken]
        outputs = slice(group * given, (group + 1) * given)
        axes = list(range(1, x.ndim))
        out[(slice(None), outputs, *place)] = np.tensordot(seen, weight[outputs], (axes, axes))
    if bias is not None:
        out += bias.reshape(-1, *[1] * count)
    return out.transpose(np.argsort(CHANNELS_FIRST[layout]))


def to_input(weight: Array, result: Array, *, shape: Any, **attrs: Any) -> Array:
    """One number of the input at a time: what the convolution makes of it meets the result."""
    return beside(lambda x: convolution(x, weight, None, **attrs), result, shape)


def to_weight(x: Array, result: Array, *, shape: Any, **attrs: Any) -> Array:
    """As `to_input`, of the weight."""
    return beside(lambda weight: convolution(x, weight, None, **attrs), result, shape)


def beside(made: Any, result: Array, shape: Any) -> Array:
    """The gradient of the sum of a result, where that is linear in an array."""
    found = np.zeros(shape, floating(result).dtype)
    for place in np.ndindex(*shape):
        alone = np.zeros(shape, found.dtype)
        alone[place] = 1
        found[place] = (made(alone) * result).sum()
    return found


def transposed(
    x: Array,
    weight: Array,
    bias: Array | None,
    *,
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    layout: str,
) -> Array:
    """Element by element, whose windows are added to a larger array that is cut then."""
    dtype = floating(np.zeros((), np.result_type(x, weight))).dtype
    x, weight = x.transpose(CHANNELS_FIRST[layout]), weight.transpose(OUTPUTS_FIRST[layout])
    count, window, sizes = x.ndim - 2, weight.shape[2:], x.shape[2:]
    stride, dilation = each(stride, count), each(dilation, count)
    extra = each(output_padding, count)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    axes = list(zip(sizes, stride, reach, extra, strict=True))
    full = [max((n - 1) * s, 0) + r + e for n, s, r, e in axes]
    taken, given = x.shape[1] // groups, weight.shape[1]
    out = np.zeros((x.shape[0], given * groups, *full), dtype)
    for group, *place in product(range(groups), *map(range, sizes)):
        channels = slice(group * taken, (group + 1) * taken)
        spread = np.tensordot(x[(slice(None), channels, *place)], weight[channels], 1)
        at = [
            slice(i * s, i * s + r, d)
            for i, s, r, d in zip(place, stride, reach, dilation, strict=True)
        ]
        out[(slice(None), slice(group * given, (group + 1) * given), *at)] += spread
    if padding == "same":
        cut = [(max(r - s, 0) // 2, n * s) for n, s, r, _ in axes]
        more = [(0, max(s - r, 0)) for _, s, r, _ in axes]
        out = np.pad(out, [(0, 0), (0, 0), *more])
    else:
        pads = edges(padding, sizes, window, stride, dilation)
        cut = [
            (low, max((n - 1) * s + r + e - low - high, 0))
            for (low, high), (n, s, r, e) in zip(pads, axes, strict=True)
        ]
    out = out[(slice(None), slice(None), *(slice(low, low + n) for low, n in cut))]
    if bias is not None:
        out = out + bias.reshape(-1, *[1] * count)
    return out.transpose(np.argsort(CHANNELS_FIRST[layout]))


REFERENCES = {
    "conv1d": Reference(convolution),
    "conv2d": Reference(convolution),
    "conv3d": Reference(convolution),
    "conv_transpose1d": Reference(transposed),
    "conv_transpose2d": Reference(transposed),
    "conv_transpose3d": Reference(transposed),
    "conv_to_input": Reference(to_input),
    "conv_to_weight": Reference(to_weight),
}
