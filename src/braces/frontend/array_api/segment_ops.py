"""Segment reductions, and counts in bins of histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var
from braces.dims import Size
from braces.dtypes import FLOAT32, INT64, is_float, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.public_names import full
from braces.frontend.core.variables import constant
from braces.frontend.losses.reduction import broadcast_along, format_types
from braces.ops.common.rules import float_dtype, promote, sum_dtype

__all__ = [
    "bincount", "digitize", "histogram", "segment_max", "segment_mean", "segment_min",
    "segment_prod", "segment_sum",
]  # fmt: skip

# ---- segments --------------------------------------------------------------------------------


@transactional
def segment_sum(data: Var, segment_ids: Operand, num_segments: Size) -> Var:
    """Sum slices by segment.

        out[k] = sum of data[*i] over all i with segment_ids[*i] == k

    Args:
        data: number[*chosen, *rest].
        segment_ids: int[*chosen]: the segment of each slice, from 0 on, in any order.
        num_segments: The number of segments; may be symbolic.

    Returns:
        number[num_segments, *rest]; 0 for empty segments. Small integers and bools give 64-bit
        integers.

    Raises:
        ShapeError: If the number of segment ids differs from the number of slices.
        DTypeError: If segment ids are not integers.
        IndexRangeError: If an id is negative, or `num_segments` or more at run time.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, ids = br.data("x", ["b"]), br.data("ids", ["b"], dtype="int64")
        ...     sums = br.segment_sum(x, ids, 3)
        >>> feed = {"x": [1.0, 2.0, 4.0], "ids": [2, 0, 2]}
        >>> br.Executor().run(prog, br.Scope(), feed=feed, fetch=sums).tolist()
        [2.0, 0.0, 5.0]
    """
    return _sum_by_id(*_groups("segment_sum", data, segment_ids, num_segments))


@transactional
def segment_mean(data: Var, segment_ids: Operand, num_segments: Size) -> Var:
    """Average slices by segment: `segment_sum` divided by the number of slices.

    Args:
        data: number[*chosen, *rest].
        segment_ids: int[*chosen]: the segment of each slice.
        num_segments: The number of segments.

    Returns:
        float[num_segments, *rest]; 0 for empty segments. Integers give float32.

    Raises:
        ShapeError: If the number of segment ids differs from the number of slices.
        DTypeError: If segment ids are not integers.
        IndexRangeError: If an id is negative, or `num_segments` or more at run time.
    """
    what = "segment_mean"

    def build() -> Var:
        x, ids, count = _groups(what, data, segment_ids, num_segments)
        x = ops.cast(x, float_dtype(x.dtype))
        counts = _sum_by_id(ops.ones_like(ids, dtype=INT64), ids, count)
        counts = broadcast_along(counts, 0, x.ndim - ids.ndim + 1)
        wide = ops.cast(x, promote(x.dtype, FLOAT32))
        means = _sum_by_id(wide, ids, count) / ops.cast(ops.maximum(counts, 1), wide.dtype)
        return ops.cast(means, x.dtype)

    return compose_block(what, build)


@transactional
def segment_prod(data: Var, segment_ids: Operand, num_segments: Size) -> Var:
    """Multiply slices by segment; 1 for empty segments; otherwise as `segment_sum`."""
    x, ids, count = _groups("segment_prod", data, segment_ids, num_segments)
    return _scatter(ops.cast(x, sum_dtype(x.dtype)), ids, count, 1, "mul")


@transactional
def segment_max(data: Var, segment_ids: Operand, num_segments: Size) -> Var:
    """Elementwise maximum of the slices of each segment; otherwise as `segment_sum`.

    Empty segments give minus infinity, or the smallest integer. The gradient is divided equally
    between all maxima.

    Args:
        data: real[*chosen, *rest].
        segment_ids: int[*chosen]: the segment of each slice.
        num_segments: The number of segments.

    Raises:
        ShapeError: If the number of segment ids differs from the number of slices.
        DTypeError: If segment ids are not integers, or `data` is complex.
        IndexRangeError: If an id is negative, or `num_segments` or more at run time.
    """
    x, ids, count = _groups("segment_max", data, segment_ids, num_segments)
    return _scatter(x, ids, count, _reduction_identities(x)[0], "max")


@transactional
def segment_min(data: Var, segment_ids: Operand, num_segments: Size) -> Var:
    """Elementwise minimum of the slices of each segment; otherwise as `segment_max`.

    Empty segments give infinity, or the largest integer.
    """
    x, ids, count = _groups("segment_min", data, segment_ids, num_segments)
    return _scatter(x, ids, count, _reduction_identities(x)[1], "min")


def _groups(what: str, data: Any, ids: Any, count: Any) -> tuple[Var, Var, Size]:
    """Check the operands of a segment reduction; the run checks the range of the ids."""
    x, ids, count = as_var(data), as_var(ids), _count(what, "num_segments", count)
    pairs = zip(x.shape, ids.shape, strict=False)
    if x.ndim < ids.ndim or not all(same_size(*pair) for pair in pairs):
        raise ShapeError(
            f"{what}: expected one segment id for each slice.",
            given=format_types({"data": x, "segment_ids": ids}),
            fix="The shape of the ids is a prefix of the shape of the data.",
        )
    return x, _check_ids(what, "segment_ids", ids, count), count


def _check_ids(what: str, slot: str, ids: Var, count: Size) -> Var:
    if not is_integer(ids.dtype):
        raise DTypeError(
            f"{what}: expected an integer dtype for `{slot}`, got {ids.dtype}.",
            given=format_types({slot: ids}),
            fix="Use br.cast(ids, 'int64').",
        )
    return emit("group_ids", ids, count=count)


def _count(what: str, option: str, count: Size) -> Size:
    """Check the number of segments."""
    if isinstance(count, int) and count < 0:
        raise ProgramError(f"{what}: expected a non-negative {option}=, got {count}.")
    return count


def _sum_by_id(x: Var, ids: Var, count: Size) -> Var:
    x = ops.cast(x, sum_dtype(x.dtype))
    zeros = full((count, *x.shape[ids.ndim :]), 0, x.dtype)
    return ops.scatter_add(zeros, ids, x, axis=0)


def _scatter(x: Var, ids: Var, count: Size, empty: Any, reduction: str) -> Var:
    initial = full((count, *x.shape[ids.ndim :]), empty, x.dtype)
    return ops.scatter_nd(initial, x, [ids], reduction=reduction)


def _reduction_identities(x: Var) -> tuple[Any, Any]:
    """Return the identity elements of max and min for a dtype."""
    if is_integer(x.dtype):
        limits = np.iinfo(x.dtype)
        return int(limits.min), int(limits.max)
    return (-np.inf, np.inf) if is_float(x.dtype) else (False, True)


# ---- bins ------------------------------------------------------------------------------------


@transactional
def bincount(x: Var, weights: Operand | None = None, *, length: Size) -> Var:
    """Count the occurrences of the numbers 0, 1, …, or sum their weights.

        out[k] = number of i with x[i] == k, or sum of weights[i] over them

    Args:
        x: int[n].
        weights: number[n]; all 1 by default.
        length: The size of the result; may be symbolic. NumPy takes it from the largest number
            in the data; here sizes are static.

    Returns:
        i64[length]; with weights, the dtype of their `sum`.

    Raises:
        ShapeError: If `x` is not a vector, or weights have a different shape.
        DTypeError: If the dtype of `x` is not an integer dtype.
        IndexRangeError: If a number is negative, or `length` or more at run time.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     counts = br.bincount(br.constant([1, 3, 1]), length=5)
        >>> br.Executor().run(prog, br.Scope(), fetch=counts).tolist()
        [0, 2, 0, 1, 0]
    """
    var = as_var(x)
    if var.ndim != 1:
        raise ShapeError(
            "bincount: expected a vector.",
            given=format_types({"x": var}),
            fix="Use br.reshape(x, [-1]).",
        )
    count = _count("bincount", "length", length)
    if weights is None:
        ids = _check_ids("bincount", "x", var, count)
        return _sum_by_id(ops.ones_like(ids, dtype=INT64), ids, count)
    weight_var = _weights("bincount", var, weights)
    return _sum_by_id(weight_var, _check_ids("bincount", "x", var, count), count)


def _weights(what: str, x: Var, weights: Operand) -> Var:
    """Check the weight of each number."""
    var = as_var(weights)
    if var.shape != x.shape:
        raise ShapeError(
            f"{what}: expected weights of the shape of x.",
            given=format_types({"x": x, "weights": var}),
        )
    return var


@transactional
def digitize(x: Operand, bins: Operand, right: bool = False) -> Var:
    """Return the bin of each number: the number of edges not above it.

        bins[out - 1] <= x < bins[out], or < and <= with right=True

    Args:
        x: real[*shape].
        bins: real[n]: the edges, in ascending order.
        right: Whether bins include their right edges, instead of the left ones. (`right` of
            torch.bucketize is the opposite.)

    Returns:
        i64[*shape]; from 0 to n.

    Raises:
        ShapeError: If the edges are not a vector.
        ProgramError: If constant edges are not in ascending order.
        DTypeError: If the dtype is complex.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     at = br.digitize(br.constant([0.5, 1.0, 7.0]), [0.0, 1.0, 2.0])
        >>> br.Executor().run(prog, br.Scope(), fetch=at).tolist()
        [1, 2, 3]
    """
    edges = _edges("digitize", bins)
    return ops.searchsorted(edges, x, side="left" if right else "right")


def _edges(what: str, edges: Any) -> Var:
    """Convert the edges of bins to a variable with one axis."""
    var = as_var(edges)
    if var.ndim != 1:
        raise ShapeError(
            f"{what}: expected a vector of edges.", given=format_types({"bins": var})
        )
    if not isinstance(edges, Var) and not np.all(np.diff(np.asarray(edges, float)) >= 0.0):
        raise ProgramError(
            f"{what}: expected edges in ascending order.",
            given=f"bins={edges!r:.60}",
            fix="Sort them: sorted(bins).",
        )
    return var


@transactional
def histogram(
    x: Var,
    bins: int | Sequence[float] | Var = 10,
    range: tuple[float, float] | None = None,
    weights: Operand | None = None,
    density: bool = False,
) -> tuple[Var, Var]:
    """Histogram of numbers: the counts in bins, and the edges of the bins.

        counts[k] = number of i with edges[k] <= x[i] < edges[k + 1], or <= in the last bin

    Args:
        x: real[*shape].
        bins: The number of bins of equal width, or their edges, in ascending order.
        range: The lowest and the highest edge; by default the minimum and maximum of `x`, which
            must not be empty then. Numbers outside the range and NaN are in no bin.
        weights: number[*shape]: the weight of each number.
        density: Whether counts are divided by their sum and the widths of bins.

    Returns:
        counts: i64[bins]; with weights their dtype, with `density` floats.
        edges: float[bins + 1].

    Raises:
        ShapeError: If weights have a different shape, or the edges are not a vector of at least
            two numbers.
        ProgramError: If the number of bins is below 1, the range is empty, or edges are not in
            ascending order.
        DTypeError: If the dtype is complex.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     made = br.histogram(br.constant([0.0, 1.0, 1.5]), bins=2, range=(0.0, 2.0))
        >>> [one.tolist() for one in br.Executor().run(prog, br.Scope(), fetch=list(made))]
        [[1, 2], [0.0, 1.0, 2.0]]
    """
    var = as_var(x)
    weight_var = None if weights is None else _weights("histogram", var, weights)
    if var.dtype.kind == "c":
        raise DTypeError("histogram: expected a real dtype.", given=format_types({"x": var}))

    def build() -> tuple[Var, Var]:
        flat = ops.reshape(var, (-1,))
        edges = _bin_edges(flat, bins, range)
        count = edges.shape[0]
        bin_ids = ops.searchsorted(edges, flat, side="right")
        bin_ids = ops.where(flat == edges[-1], ops.size(count - 1), bin_ids)
        ones = ops.ones_like(bin_ids) if weight_var is None else ops.reshape(weight_var, (-1,))
        counts = _sum_by_id(ones, bin_ids, count + 1)[1:-1]
        if not density:
            return counts, edges
        return counts / (ops.sum(counts) * (edges[1:] - edges[:-1])), edges

    return compose_block("histogram", build)


def _bin_edges(x: Var, bins: Any, bounds: tuple[float, float] | None) -> Var:
    """Return the edges of bins: the given ones, or those of bins of equal width."""
    if not isinstance(bins, int):
        edges = _edges("histogram", bins)
        if edges.shape[0] in (0, 1):
            raise ShapeError(
                "histogram: expected at least two edges.", given=format_types({"bins": edges})
            )
        return edges
    if bins < 1:
        raise ProgramError(f"histogram: expected at least one bin, got {bins}.")
    dtype = float_dtype(x.dtype)
    if bounds is not None:
        return constant(np.linspace(*_bounds(bounds), bins + 1), dtype)
    x = ops.cast(x, dtype)
    low, high = ops.min(x), ops.max(x)
    margin = ops.where(low == high, 0.5, 0.0)
    low, high = low - ops.cast(margin, dtype), high + ops.cast(margin, dtype)
    edges = low + constant(np.arange(bins), dtype) * ((high - low) / bins)
    return ops.concat([edges, ops.expand_dims(high, axis=0)], axis=0)


def _bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the lowest and the highest edge; an empty range is widened by 0.5 on each side."""
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ProgramError(
            f"histogram: expected a finite, ascending range, got {bounds!r:.60}.",
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)
