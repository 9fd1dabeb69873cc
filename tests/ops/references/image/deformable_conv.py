"""References of `braces.ops.image.deformable_conv`: element by element."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.conv_pool.conv import each, edges


def at(image: Array, y: float, x: float) -> Any:
    """Of channels, what lies between the four pixels around."""
    total = np.zeros(len(image), image.dtype)
    for i, j in product((0, 1), (0, 1)):
        row, column = math.floor(y) + i, math.floor(x) + j
        if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
            total += image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def deform_conv2d(
    x: Array,
    weight: Array,
    offset: Array,
    bias: Array | None,
    mask: Array | None,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    offset_groups: int,
) -> Array:
    stride, dilation = each(stride, 2), each(dilation, 2)
    (n, channels, *sizes), (given, taken, *window) = x.shape, weight.shape
    pads = edges(padding, sizes, window, stride, dilation)
    offset = offset.reshape(n, offset_groups, *window, 2, *offset.shape[2:])
    ones = np.ones_like(offset[:, :, :, :, 0])
    mask = ones if mask is None else mask.reshape(ones.shape)
    out = np.zeros((n, given, *offset.shape[5:]), floating(x).dtype)
    size, given_each = channels // offset_groups, given // groups
    for b, group, k, m, i, j in np.ndindex(ones.shape):
        y, z = (
            place * s - low + element * d + moved
            for place, s, (low, _), element, d, moved in zip(
                (i, j), stride, pads, (k, m), dilation, offset[b, group, k, m, :, i, j],
                strict=True,
            )
        )  # fmt: skip
        seen = at(x[b, group * size : (group + 1) * size], y, z) * mask[b, group, k, m, i, j]
        for c, value in enumerate(seen, group * size):
            first = c // taken * given_each
            outputs = slice(first, first + given_each)
            out[b, outputs, i, j] += weight[outputs, c % taken, k, m] * value
    return out if bias is None else out + bias[:, None, None]


REFERENCES = {"deform_conv2d": Reference(deform_conv2d)}
