"""Rules of elements that depend on data: masks, unique elements, order statistics, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.exchange.common.rules.along_axis import indices_along, sort
from braces.exchange.common.rules.elementwise import as_float, cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import fill_shape
from braces.exchange.common.rules.selection import (
    bincount,
    count_below,
    cumulative_extreme,
    repeat_by_counts,
    selected_by_mask,
    unique_consecutive,
)
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import data_dependent, functions as ops
from braces.extend.building import Var
from braces.extend.types import BOOL, FLOAT32, INT32, INT64, product

# ---- masks and unique elements ---------------------------------------------------------------


def masked_select(node: PaddleOp) -> Results:
    """The elements where a mask is true."""
    x, mask = node.var("X"), cast_to_dtype(node.var("Mask"), BOOL)
    if mask.shape != x.shape:
        mask = ops.broadcast_to(mask, x.shape)
    return {"Y": selected_by_mask(x, mask)}


def unique(node: PaddleOp) -> Results:
    """Unique numbers or slices, with first indices, inverse indices and counts."""
    axes, dtype = node.many("axis"), node.dtype("dtype", INT64)
    in_order = bool(node.attr("is_sorted", False))
    x = node.x() if axes or node.x().ndim else ops.reshape(node.x(), (1,))
    distinct = data_dependent.unique(x, axes[0] if axes else None, sorted=in_order)
    inverse = ops.reshape(distinct.inverse_indices, (-1,))
    indices = (distinct.indices, inverse, distinct.counts)
    first, inverse, counts = (cast_to_dtype(at, dtype) for at in indices)
    return {"Out": distinct.values, "Indices": first, "Index": inverse, "Counts": counts}


def consecutive(node: PaddleOp) -> Results:
    """Numbers or slices that differ from the previous one."""
    axes, dtype = node.many("axis"), node.dtype("dtype", INT64)
    values, inverse, counts = unique_consecutive(
        node.x(), True, True, axes[0] if axes else None
    )
    flat = None if inverse is None else cast_to_dtype(ops.reshape(inverse, (-1,)), dtype)
    return {
        "Out": values, "Index": flat,
        "Counts": None if counts is None else cast_to_dtype(counts, dtype),
    }  # fmt: skip


def count_numbers(node: PaddleOp) -> Var:
    """The number of occurrences of each number, or the sum of its weights."""
    x = node.x()
    return bincount(x, node.maybe("Weights"), int(node.attr("minlength", 0)))


def histogram(node: PaddleOp) -> Var:
    """The numbers of elements in equal intervals; by default between the extremes."""
    x = ops.reshape(as_float(node.x()), (product(node.x().shape),))
    bins, low, high = node.attr("bins", 100), node.attr("min", 0), node.attr("max", 0)
    if low == high == 0:
        first, last = ops.min(x), ops.max(x)
        same = ops.equal(first, last)
        first, last = (ops.where(same, v + step, v) for v, step in ((first, -1.0), (last, 1.0)))
    else:
        first, last = (fill_shape((), float(n), x.dtype) for n in (low, high))
    inside = (x >= first) & (x <= last)
    at = ops.floor((x - first) * float(bins) / (last - first))
    at = ops.clip(ops.where(inside, at, ops.zeros_like(at)), 0.0, float(bins - 1))
    start = fill_shape((bins,), 0, INT64)
    return ops.scatter_add(start, ops.cast(at, INT64), cast_to_dtype(inside, INT64), axis=0)


def search(node: PaddleOp) -> Var:
    """The insertion positions of numbers in sorted rows."""
    ordered, values = node.var("SortedSequence"), node.var("Values")
    if ordered.ndim > 1:
        ordered = ops.expand_dims(ordered, axis=-2)
    at = count_below(ordered, values, right=bool(node.attr("right", False)))
    return cast_to_dtype(at, INT32 if node.attr("out_int32", False) else INT64)


# ---- order -----------------------------------------------------------------------------------


def cumulative(op_type: str) -> Rule:
    """Return the rule of a cumulative maximum or minimum with indices."""

    def rule(node: PaddleOp) -> Results:
        x = node.x()
        axis = node.axis("axis", x.ndim)
        values, at = cumulative_extreme(op_type, x, axis)
        return {"out": values, "indices": cast_to_dtype(at, node.dtype("dtype", INT64))}

    return rule


def cumprod(node: PaddleOp) -> Var:
    """A cumulative product."""
    x = node.x()
    return ops.cumprod(x, axis=node.axis("dim", x.ndim)) if x.ndim else ops.identity(x)


def cumulative_logsumexp(node: PaddleOp) -> Var:
    """A cumulative logsumexp."""
    x = as_float(node.x())
    if node.attr("flatten", False):
        x = ops.reshape(x, (product(x.shape),))
    if not x.ndim:
        return ops.identity(x)
    if node.attr("exclusive", False):
        node.refuse("unsupported attribute `exclusive`")
    back = bool(node.attr("reverse", False))
    return ops.cumlogsumexp(x, axis=node.axis("axis", x.ndim), reverse=back)


def kth_value(node: PaddleOp) -> Results:
    """The k-th smallest number of an axis, and its index."""
    x = node.x()
    axis, k = node.axis("axis", x.ndim), int(node.number("k", "k" if node.has("k") else "", 1))
    if not x.ndim:
        return {"Out": ops.identity(x), "Indices": ops.zeros_like(x, dtype=INT64)}
    values, order = sort(x, axis)
    at = fill_shape((1,), k - 1, INT64)
    selected = [ops.take(v, at, axis=axis) for v in (values, order)]
    if not node.attr("keepdim", False):
        selected = [ops.squeeze(v, axis=axis) for v in selected]
    return {"Out": selected[0], "Indices": selected[1]}


def mode(node: PaddleOp) -> Results:
    """The most frequent number of an axis, the smallest of ties, and its last index."""
    x = node.x()
    if not x.ndim:
        return {"Out": ops.identity(x), "Indices": ops.zeros_like(x, dtype=INT64)}
    axis, keepdims = node.axis("axis", x.ndim), bool(node.attr("keepdim", False))
    rows = ops.moveaxis(x, axis, -1)
    same = ops.equal(ops.expand_dims(rows, axis=-1), ops.expand_dims(rows, axis=-2))
    counts = ops.sum(cast_to_dtype(same, INT64), axis=-1)
    values, order = sort(rows)
    frequency = ops.take_along_axis(counts, order, axis=-1)
    best = ops.argmax(frequency, axis=-1, keepdims=True)
    value = ops.take_along_axis(values, cast_to_dtype(best, INT64), axis=-1)
    at = indices_along(rows.shape[-1], rows.ndim - 1, rows.ndim)
    at = ops.max(ops.where(ops.equal(rows, value), at, 0), axis=-1, keepdims=True)
    picked = ops.take_along_axis(rows, at, axis=-1)
    results = (ops.moveaxis(v, -1, axis) for v in (picked, at))
    out, index = (v if keepdims else ops.squeeze(v, axis=axis) for v in results)
    return {"Out": out, "Indices": index}


def nan_median(node: PaddleOp) -> Results:
    """The median of the numbers that are not NaN; the mean of two in the middle."""
    x = node.x()
    axes = [int(axis) % x.ndim for axis in node.many("axis")] or list(range(x.ndim))
    keepdims = bool(node.attr("keepdim", False))
    others = [axis for axis in range(x.ndim) if axis not in axes]
    front = [x.shape[axis] for axis in others]
    merged = product([x.shape[axis] for axis in axes])
    rows = ops.reshape(ops.transpose(x, [*others, *axes]), (*front, merged))
    values, _ = sort(rows)  # NaN are the last
    count = ops.sum(cast_to_dtype(~ops.isnan(rows), INT64), axis=-1, keepdims=True)
    low, high = (ops.maximum(at, 0) for at in ((count - 1) // 2, count // 2))
    middle = [
        ops.take_along_axis(values, at, axis=-1) for at in (low, ops.minimum(high, low + 1))
    ]
    median = ops.squeeze((middle[0] + middle[1]) * 0.5, axis=-1)
    if keepdims:
        median = ops.expand_dims(median, axis=tuple(sorted(axes)))
    return {"Out": median}


# ---- repetition and choice -------------------------------------------------------------------


def repeat(node: PaddleOp) -> Var:
    """Slices of an axis, each repeated."""
    x = node.x()
    axis = node.axis("dim", x.ndim, 0)
    if not node.has("RepeatsTensor"):
        return ops.repeat(x, repeats=int(node.attr("Repeats", 1)), axis=axis)
    times = node.var("RepeatsTensor")
    return ops.take(x, repeat_by_counts(times), axis=axis)


def multiplex(node: PaddleOp) -> Var:
    """Row by row, one of several arrays."""
    xs, ids = node.vars("X"), cast_to_dtype(node.var("Ids"), INT64)
    at = ops.reshape(ids, (1, ids.shape[0], *[1] * (xs[0].ndim - 1)))
    stacked = ops.stack(xs)
    at = ops.broadcast_to(at, (1, *stacked.shape[1:]))
    return ops.squeeze(ops.take_along_axis(stacked, at, axis=0), axis=0)


def broadcast_all(node: PaddleOp) -> Results:
    """Arrays, broadcast to their common shape."""
    xs = node.vars("X")
    total: Sequence[Var] = [ops.zeros_like(x, dtype=FLOAT32) for x in xs]
    shape = total[0].shape
    for other in total[1:]:
        shape = (ops.broadcast_to(total[0], shape) + other).shape
    return {"Out": [ops.broadcast_to(x, shape) for x in xs]}


SELECTION: Mapping[str, Rule] = {
    "bincount": count_numbers,
    "broadcast_tensors": broadcast_all,
    "cummax": cumulative("cummax"),
    "cummin": cumulative("cummin"),
    "cumprod": cumprod,
    "histogram": histogram,
    "kthvalue": kth_value,
    "logcumsumexp": cumulative_logsumexp,
    "masked_select": masked_select,
    "mode": mode,
    "multiplex": multiplex,
    "nanmedian": nan_median,
    "repeat_interleave": repeat,
    "searchsorted": search,
    "unique": unique,
    "unique_consecutive": consecutive,
}
