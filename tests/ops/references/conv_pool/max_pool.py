"""References of `braces.ops.conv_pool.max_pool`: window by window."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, apart, floating
from tests.ops.references.conv_pool.conv import CHANNELS_FIRST, each, edges, windows


def pool(
    x: Array,
    reduce: Any,
    fill: Any,
    *,
    window: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    layout: str,
    beyond: Any = None,
) -> Array:
    """What `reduce` makes of each window, whose elements are in the last axes.

    Padding is `fill`; what the last window reaches into behind it is `beyond`.
    """
    order = CHANNELS_FIRST[layout]
    x, count = x.transpose(order), x.ndim - 2
    window, dilation = each(window, count), each(dilation, count)
    stride = window if stride is None else each(stride, count)
    pads = edges(padding, x.shape[2:], window, stride, dilation)
    more = [(0, 0)] * count
    if ceil_mode and padding != "same":
        more = list(map(rounded_up, x.shape[2:], pads, window, stride, dilation))
    x = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    counts, cut = windows(x, more, window, stride, dilation, fill if beyond is None else beyond)
    out = np.zeros((*x.shape[:2], *counts), x.dtype)
    for place in product(*map(range, counts)):
        out[(slice(None), slice(None), *place)] = reduce(cut(place), tuple(range(2, 2 + count)))
    return out.transpose(np.argsort(order))


def rounded_up(n: int, pads: Any, k: int, stride: int, dilation: int) -> tuple[int, int]:
    """What is missing behind the padding for one window more, if it begins before that."""
    reach, whole = (k - 1) * dilation + 1, n + sum(pads)
    starts = [at for at in range(0, n + pads[0], stride) if at < whole - reach + stride]
    return 0, max(starts[-1] + reach - whole, 0) if starts else 0


def max_pool(x: Array, **attrs: Any) -> Array:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return pool(x, np.max, lowest, **attrs)


def max_pool_with_indices(x: Array, **attrs: Any) -> tuple[Array, Array]:
    """Of equal elements the first is larger: so each has a rank of its own."""
    order = CHANNELS_FIRST[attrs["layout"]]
    planes = x.transpose(order)
    flat = planes.reshape(*planes.shape[:2], math.prod(planes.shape[2:]))
    places = np.broadcast_to(-np.arange(flat.shape[2]), flat.shape)
    ascending = np.lexsort((places, flat), axis=-1)
    ranks = np.argsort(ascending, axis=-1).reshape(planes.shape).transpose(np.argsort(order))
    found = max_pool(ranks, **attrs).transpose(order)
    taken = found.reshape(*found.shape[:2], math.prod(found.shape[2:]))
    places = np.take_along_axis(ascending, taken, -1)
    back = places.reshape(found.shape).transpose(np.argsort(order))
    return max_pool(x, **attrs), back


def avg_pool(x: Array, *, count_include_pad: bool, **attrs: Any) -> Array:
    return pool(
        floating(x), np.nanmean, 0 if count_include_pad else np.nan, beyond=np.nan, **attrs
    )


def lp_pool(x: Array, *, p: float, **attrs: Any) -> Array:
    return pool(abs(floating(x)) ** p, np.sum, 0, **attrs) ** (1 / p)


REFERENCES = {
    **{f"max_pool{r}d": Reference(max_pool, inputs={"x": apart}) for r in (1, 2, 3)},
    **{
        f"max_pool_with_indices{r}d": Reference(max_pool_with_indices, inputs={"x": apart})
        for r in (1, 2, 3)
    },
    **{f"avg_pool{r}d": Reference(avg_pool) for r in (1, 2, 3)},
    **{f"lp_pool{r}d": Reference(lp_pool, inputs={"x": apart}) for r in (1, 2, 3)},
}
