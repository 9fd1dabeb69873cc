"""Rules of histograms, modes and reductions of segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce as fold
from math import inf, nan, prod
from typing import Any

import numpy as np

from braces.errors import ProgramError
from braces.exchange.common.rules.along_axis import indices_along, scatter_along
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import at_axis
from braces.exchange.torch.rules.nn.im2col_grid import constant
from braces.exchange.torch.rules.tensor.arithmetic import as_variable, operand
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.extend import dims, functions as ops
from braces.extend.building import Var
from braces.extend.types import FLOAT64, INT64, is_float

Range = Sequence[float]
Edges = Sequence[Var]

# ---- edges -----------------------------------------------------------------------------------


def flatten_all(x: Var) -> Var:
    """Return all elements as a vector."""
    return ops.reshape(x, (dims.product(x.shape),))


def outer_edges(x: Var, bounds: Range | None, margin: float) -> tuple[Any, Any]:
    """Return the first and last edge: given ones, or the extremes of the numbers."""
    if bounds is not None or x.shape == (0,):
        low, high = bounds or (0.0, 1.0)
        wide = margin if low == high else 0.0
        return operand(low - wide, x.dtype), operand(high + wide, x.dtype)
    low, high = ops.min(x), ops.max(x)
    wide = ops.where(ops.equal(low, high), operand(margin, x.dtype), operand(0, x.dtype))
    return low - wide, high + wide


def even_edges(x: Var, bins: int, bounds: Range | None) -> Var:
    """Return the edges of bins of equal width, counted from the nearer end."""
    low, high = outer_edges(x, bounds, 0.5)
    at = np.arange(bins + 1)
    step = as_variable((high - low) / operand(bins, x.dtype), x.dtype)
    up, down = low + step * at.astype(x.dtype), high - step * (bins - at).astype(x.dtype)
    return ops.where(constant(at < (bins + 1) // 2), up, down)


# ---- counts ----------------------------------------------------------------------------------


def histogram(
    x: Var, bins: int = 100, *, range: Range | None = None, weight: Var | None = None,
    density: bool = False,
) -> tuple[Var, Var]:  # fmt: skip
    """The number or weight of the elements in each bin of equal width, and the edges."""
    edges = even_edges(flatten_all(x), bins, range)
    return histogram_in(x, edges, weight=weight, density=density)


def histogram_in(
    x: Var, edges: Var, *, weight: Var | None = None, density: bool = False
) -> tuple[Var, Var]:
    """The number or weight of the elements between given edges, and the edges."""
    points = ops.expand_dims(flatten_all(x), axis=1)
    weights = None if weight is None else flatten_all(weight)
    return points_between(points, [edges], weight=weights, density=density), edges


def axis_edges(
    x: Var, bins: Sequence[int], *, range: Range | None = None, weight: Var | None = None,
    density: bool = False,
) -> list[Var]:  # fmt: skip
    """The edges of bins of equal width along each axis of points."""
    ranges = [
        None if range is None else range[2 * at : 2 * at + 2] for at, _ in enumerate(bins)
    ]
    pairs = enumerate(zip(bins, ranges, strict=True))
    return [even_edges(flatten_all(x[..., at]), count, ends) for at, (count, ends) in pairs]


def points_in_counts(
    x: Var, bins: Sequence[int], *, range: Range | None = None, weight: Var | None = None,
    density: bool = False,
) -> Var:  # fmt: skip
    """The number or weight of the points in each box of equal size."""
    return points_between(x, axis_edges(x, bins, range=range), weight=weight, density=density)


def points_between(
    x: Var, edges: Edges, *, weight: Var | None = None, density: bool = False
) -> Var:
    """The number or weight of the points in each box."""
    counts = [int(edge.shape[0]) - 1 for edge in edges]
    places, inside = zip(*(
        _bin_of(flatten_all(x[..., at]), edge) for at, edge in enumerate(edges)
    ), strict=True)  # fmt: skip
    flat = fold(lambda total, pair: total * pair[0] + pair[1],
                zip(counts, places, strict=True), ops.zeros_like(places[0]))  # fmt: skip
    total = _sum_at(flat, fold(ops.logical_and, inside), prod(counts), weight, x)
    counted = ops.reshape(total, tuple(counts))
    if not density:
        return counted
    widths = fold(lambda left, edge: ops.expand_dims(left, axis=-1) * (edge[1:] - edge[:-1]),
                  edges, ops.ones_like(total[0]))  # fmt: skip
    return counted / widths / ops.sum(total)


def _bin_of(x: Var, edges: Var) -> tuple[Var, Var]:
    """Return the bin of each number, and whether it is in any; the last one is closed."""
    last = int(edges.shape[0]) - 2
    place = cast_to_dtype(ops.searchsorted(edges, x, side="right"), INT64) - 1
    inside = ops.logical_and(x >= edges[0], x <= edges[-1])
    return ops.minimum(ops.maximum(place, 0), last), inside


def _sum_at(place: Var, inside: Var, count: int, weight: Var | None, like: Var) -> Var:
    """Return the sum of the weights at each place; those outside do not count."""
    weights = cast_to_dtype(inside, like.dtype)
    if weight is not None:
        weights = ops.where(inside, flatten_all(weight), ops.zeros_like(weights))
    return ops.scatter_add(fill_shape((count,), 0, dtype=like.dtype), place, weights, axis=0)


def count_in_range(x: Var, bins: int = 100, low: float = 0, high: float = 0) -> Var:
    """The number of elements in each bin of equal width."""
    flat = flatten_all(x)
    floats = flat if is_float(x.dtype) else cast_to_dtype(flat, FLOAT64)
    empty = flat.shape == (0,)
    first, last = outer_edges(floats, None if low == high and not empty else (low, high), 1.0)
    inside = ops.logical_and(floats >= first, floats <= last)
    scaled = (floats - first) * operand(bins, floats.dtype) / (last - first)
    place = cast_to_dtype(ops.where(inside, scaled, ops.zeros_like(scaled)), INT64)
    return _sum_at(ops.minimum(place, bins - 1), inside, bins, None, flat)


# ---- modes -----------------------------------------------------------------------------------


def mode(x: Var, axis: int = -1, keepdims: bool = False) -> tuple[Var, Var]:
    """The smallest of the most frequent numbers along an axis, and its last index."""
    if not x.ndim:
        return ops.identity(x), ops.zeros_like(x, dtype=INT64)
    last = ops.moveaxis(x, axis, -1)
    same = ops.equal(ops.expand_dims(last, axis=-1), ops.expand_dims(last, axis=-2))
    counts = ops.sum(cast_to_dtype(same, INT64), axis=-1)
    frequent = ops.equal(counts, ops.max(counts, axis=-1, keepdims=True))
    order = ops.argsort(last, axis=-1)
    ranked = ops.take_along_axis(cast_to_dtype(frequent, INT64), order, axis=-1)
    first = ops.take_along_axis(order, ops.argmax(ranked, axis=-1, keepdims=True), axis=-1)
    is_it = ops.equal(last, ops.take_along_axis(last, first, axis=-1))
    indices = indices_along(last.shape[-1], last.ndim - 1, last.ndim)
    at = ops.max(ops.where(is_it, indices, -1), axis=-1, keepdims=True)
    pairs = ops.take_along_axis(last, at, axis=-1), at
    values, places = (ops.moveaxis(part, -1, axis) for part in pairs)
    if keepdims:
        return values, places
    return ops.squeeze(values, axis=axis), ops.squeeze(places, axis=axis)


# ---- segments --------------------------------------------------------------------------------

NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -inf, "min": inf}
WAYS = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}


def segment_reduce(
    x: Var, reduce: str, *, lengths: Var | None = None, indices: Var | None = None,
    offsets: Var | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Var:  # fmt: skip
    """A reduction of consecutive segments of an axis."""
    if indices is not None or (lengths is None and offsets is None):
        raise ProgramError("segment_reduce: expected `lengths` or `offsets`.")
    axis %= x.ndim
    bounds = _segment_ends(lengths) if offsets is None else offsets
    starts, ends = bounds[..., :-1], bounds[..., 1:]
    position = indices_along(x.shape[axis], axis + 1, axis + 2)
    segment = ops.sum(
        cast_to_dtype(ops.expand_dims(ends, axis=-1) <= position, INT64), axis=axis
    )
    count, start = ends.shape[axis], NEUTRAL[reduce] if initial is None else initial
    shape = (*x.shape[:axis], count + 1, *x.shape[axis + 1 :])
    trailing = (*segment.shape, *[1] * (x.ndim - axis - 1))
    places = ops.broadcast_to(ops.reshape(segment, trailing), x.shape)
    total = scatter_along(
        fill_shape(shape, start, dtype=x.dtype), places, x, axis, WAYS[reduce]
    )[at_axis(axis, slice(0, count))]
    return total if reduce != "mean" else _mean(total, ends - starts, axis, initial)


def _segment_ends(lengths: Var | None) -> Var:
    """Return the bounds of segments of given lengths: 0, and the ends."""
    assert lengths is not None
    ends = ops.cumsum(cast_to_dtype(lengths, INT64), axis=-1)
    return ops.pad(ends, [*[(0, 0)] * (ends.ndim - 1), (1, 0)])


def _mean(total: Var, lengths: Var, axis: int, initial: Any) -> Var:
    """Return means from totals; an empty segment has the initial value, or NaN."""
    trailing = (*lengths.shape, *[1] * (total.ndim - axis - 1))
    counts = ops.reshape(cast_to_dtype(lengths, total.dtype), trailing)
    means = total / ops.maximum(counts, 1.0)
    empty = total if initial is not None else ops.full_like(total, nan)
    return ops.where(counts > 0, means, empty)


HISTOGRAMS: Mapping[str, Callable[..., Any]] = {
    "_histogramdd_bin_edges": axis_edges,
    "_histogramdd_from_bin_cts": points_in_counts,
    "_histogramdd_from_bin_tensors": points_between,
    "histc": count_in_range,
    "histogram.bin_ct": histogram,
    "histogram.bins_tensor": histogram_in,
    "mode": mode,
    "segment_reduce": segment_reduce,
}
