"""References of `braces.ops.conv_pool.im2col`: window by window."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.conv_pool.conv import each, edges, windows


def im2col(x: Array, *, window: Any, stride: Any, padding: Any, dilation: Any) -> Array:
    count = x.ndim - 2
    window, stride, dilation = (each(v, count) for v in (window, stride, dilation))
    pads = edges(padding, x.shape[2:], window, stride, dilation)
    counts, cut = windows(x, pads, window, stride, dilation, 0)
    inside = x.shape[1] * int(np.prod(window))
    out = np.zeros((x.shape[0], inside, int(np.prod(counts))), x.dtype)
    for i, place in enumerate(product(*map(range, counts))):
        out[:, :, i] = cut(place).reshape(x.shape[0], inside)
    return out


def col2im(x: Array, *, shape: Any, **attrs: Any) -> Array:
    """Column by column, by the numbers of the elements that a window reads."""
    count = int(np.prod(shape[1:]))
    numbers = im2col(np.arange(1.0, count + 1).reshape(1, *shape[1:]), **attrs)[0]
    out = np.zeros((shape[0], count + 1), floating(x).dtype)
    for n in range(shape[0]):
        np.add.at(out[n], numbers.astype(int), x[n])
    return out[:, 1:].reshape(shape)


REFERENCES = {"im2col": Reference(im2col), "col2im": Reference(col2im)}
