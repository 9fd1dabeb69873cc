"""Rules of operators that read or replace parts of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.node import NodeDesc, Rule
from braces.exchange.onnx.writer.primitives.shape import add_axes, arange_to, expand_to
from braces.extend.types import INT64, Shape, Size


def take(n: NodeDesc) -> str | None:
    """A gather along one axis."""
    axis = n.attr("axis")
    if not isinstance(axis, int):
        return None
    return n.g.op("Gather", n.input("x"), _indices_as_int64(n, "indices"), axis=axis)


def embedding(n: NodeDesc) -> str:
    """Rows of a table."""
    return n.g.op("Gather", n.input("table"), _indices_as_int64(n, "ids"))


def _indices_as_int64(n: NodeDesc, slot: str) -> str:
    """Return indices as int64, which all ONNX operators support."""
    return widths.cast_value(n.g, n.input(slot), n.type(slot).dtype, INT64)


def getitem(n: NodeDesc) -> str:
    """`x[...]` by a constant index."""
    g, result, axis = n.g, n.input("x"), 0
    slices = dict[int, tuple[int, int, int]]()
    index: Sequence[Any] = n.attr("index")
    for entry in index:
        if isinstance(entry, int):
            result = g.op("Gather", result, g.constant(entry, INT64), axis=axis)
        elif entry != "new":
            if entry != ":":
                slices[axis] = _bounds(*entry)
            axis += 1
    if slices:
        starts, ends, steps = (g.integers(*some) for some in zip(*slices.values(), strict=True))
        result = g.op("Slice", result, starts, ends, g.integers(*slices), steps)
    return add_axes(g, result, _new_axes(index))


def _bounds(
    start: int | None = None, end: int | None = None, step: int = 1
) -> tuple[int, int, int]:
    """Return the bounds of a slice, with large numbers for open ends."""
    unbounded = 2**62
    first, last = (0, unbounded) if step > 0 else (unbounded, -unbounded)
    return first if start is None else start, last if end is None else end, step


def window(n: NodeDesc) -> str:
    """Consecutive elements of one axis."""
    g, type_ = n.g, n.type("x")
    axis: int = n.attr("axis") % type_.rank
    size: Size = n.attr("size")
    first = _window_start(n, type_.shape[axis])
    bounds = g.size(first), g.size(first + size)
    return g.op("Slice", n.input("x"), *bounds, g.integers(axis))


def window_add(n: NodeDesc) -> str:
    """Add to consecutive elements of one axis."""
    type_, update = n.type("x"), n.type("update")
    rank = type_.rank
    axis: int = n.attr("axis") % rank
    axis_size = type_.shape[axis]
    first = _window_start(n, axis_size)
    low: list[Size] = [0] * rank
    high: list[Size] = [0] * rank
    low[axis], high[axis] = first, axis_size - first - update.shape[axis]
    return _add_padded(n, n.input("update"), low, high)


def _window_start(n: NodeDesc, have: Size) -> Size:
    """Return the start of a window."""
    start: Size = n.attr("start")
    return have - start if n.attr("from_end") else start


def _add_padded(n: NodeDesc, update: str, low: Sequence[Size], high: Sequence[Size]) -> str:
    g, dtype = n.g, n.result().dtype
    zero = g.constant(0, dtype)
    padded_update = widths.widened_pad(g, update, g.shape((*low, *high)), zero, dtype)
    return widths.widened_op(g, "Add", n.input("x"), padded_update, dtype=dtype)


def setitem_add(n: NodeDesc) -> str:
    """Add at a constant index."""
    g, type_ = n.g, n.type("x")
    entries = [index_entry for index_entry in n.attr("index") if index_entry != "new"]
    new_axes_ = _new_axes(n.attr("index"))
    update = (
        g.op("Squeeze", n.input("update"), g.integers(*new_axes_))
        if new_axes_
        else n.input("update")
    )
    pads = _pads(entries, type_.shape)
    if pads is not None:
        numbers = [at for at, index_entry in enumerate(entries) if isinstance(index_entry, int)]
        aligned_update = add_axes(g, update, numbers)
        if not any(map(any, pads)):
            return widths.widened_op(g, "Add", n.input("x"), aligned_update, dtype=type_.dtype)
        return _add_padded(n, aligned_update, *pads)
    shape = [size for at, size in enumerate(n.type("update").shape) if at not in new_axes_]
    sliced_axes = [
        at for at, index_entry in enumerate(entries) if not isinstance(index_entry, int)
    ]
    parts, rank = list[str](), len(sliced_axes)
    for axis, entry in enumerate(entries):
        positions = arange_to(g, type_.shape[axis])
        if isinstance(entry, int):
            axis_indices = g.op("Gather", positions, g.constant(entry, INT64))
        else:
            bounds = _bounds(*(entry if entry != ":" else ()))
            start, end, step = (g.integers(index_entry) for index_entry in bounds)
            positions = g.op("Slice", positions, start, end, g.integers(0), step)
            own = sliced_axes.index(axis)
            axis_indices = add_axes(g, positions, [at for at in range(rank) if at != own])
        parts.append(add_axes(g, expand_to(g, axis_indices, shape[:rank], INT64), [rank]))
    index_vectors = g.op("Concat", *parts, axis=rank)
    return g.op("ScatterND", n.input("x"), index_vectors, update, reduction="add")


def _pads(entries: Sequence[Any], shape: Shape) -> tuple[list[int], list[int]] | None:
    """Return the padding around a slice; `None` if it is strided.

    Padding keeps the batch axis recognizable, unlike scattered indices.
    """
    low, high = [0] * len(shape), [0] * len(shape)
    for axis, (entry, size) in enumerate(zip(entries, shape, strict=False)):
        if entry == ":":
            continue
        if not isinstance(size, int):
            return None
        axis_slice = (
            slice(entry, entry + 1 or None) if isinstance(entry, int) else slice(*entry)
        )
        start, end, step = axis_slice.indices(size)
        if step != 1:
            return None
        low[axis], high[axis] = start, size - max(start, end)
    return low, high


def _new_axes(index: Sequence[Any]) -> list[int]:
    """Return the positions of new axes in the result of an index."""
    remaining = [entry for entry in index if not isinstance(entry, int)]
    return [position for position, entry in enumerate(remaining) if entry == "new"]


def gather_nd(n: NodeDesc) -> str:
    """A gather by indices of the first axes."""
    indices = n.op.inputs["indices"]
    shape = n.result().shape[: n.result().rank - n.type("x").rank + len(indices)]
    return n.g.op("GatherND", n.input("x"), _index_vectors(n, shape))


def scatter_nd_add(n: NodeDesc) -> str:
    """A scatter-add by indices of the first axes."""
    indices, update = n.op.inputs["indices"], n.type("updates")
    shape = update.shape[: update.rank - n.type("x").rank + len(indices)]
    where = _index_vectors(n, shape)
    return n.g.op("ScatterND", n.input("x"), where, n.input("updates"), reduction="add")


def _index_vectors(n: NodeDesc, shape: Sequence[Size]) -> str:
    """Return the index vectors of several axes."""
    g, parts = n.g, list[str]()
    for position, name in enumerate(n.op.inputs["indices"]):
        axis_index = widths.cast_value(
            g, g.name(name), n.type("indices", position).dtype, INT64
        )
        parts.append(add_axes(g, expand_to(g, axis_index, shape, INT64), [len(shape)]))
    return g.op("Concat", *parts, axis=len(shape))


INDEXING: Mapping[str, Rule] = {
    "embedding": embedding,
    "gather_nd": gather_nd,
    "getitem": getitem,
    "scatter_nd_add": scatter_nd_add,
    "setitem_add": setitem_add,
    "take": take,
    "window": window,
    "window_add": window_add,
}
