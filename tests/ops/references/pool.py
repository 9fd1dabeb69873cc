"""References of `braces.ops.pool`: window by window."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from references import Array, Reference, apart, floating
from references.conv import CHANNELS_FIRST, each, edges, windows


def pool(x: Array, reduce: Any, fill: Any, window: Any, stride: Any, padding: Any) -> Array:
    window = each(window, 2)
    stride = window if stride is None else each(stride, 2)
    pads = edges(padding, x.shape[2:], window, stride, (1, 1))
    counts, cut = windows(x, pads, window, stride, (1, 1), fill)
    out = np.zeros((*x.shape[:2], *counts), x.dtype)
    for place in product(*map(range, counts)):
        out[(slice(None), slice(None), *place)] = reduce(cut(place))
    return out


def max_pool(x: Array, *, layout: str, **attrs: Any) -> Array:
    axes = CHANNELS_FIRST[layout]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    out = pool(x.transpose(axes), lambda cut: cut.max((2, 3)), lowest, **attrs)
    return out.transpose(np.argsort(axes))


def avg_pool(x: Array, *, layout: str, count_include_pad: bool, **attrs: Any) -> Array:
    axes, fill = CHANNELS_FIRST[layout], 0 if count_include_pad else np.nan
    x = floating(x)
    out = pool(x.transpose(axes), lambda cut: np.nanmean(cut, (2, 3)), fill, **attrs)
    return out.transpose(np.argsort(axes))


REFERENCES = {
    "max_pool2d": Reference(max_pool, inputs={"x": apart}),
    "avg_pool2d": Reference(avg_pool),
}
