"""Operators with an ONNX equivalent, for readable models.

Other operators, and those whose rule returns `None`, are exported by their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import code_of
from braces.exchange.onnx.writer.graph.node import NodeDesc, Rule
from braces.exchange.onnx.writer.primitives.shape import (
    add_axes,
    arange_to,
    expand_to,
    reshape_to,
)
from braces.extend.operators import translated
from braces.extend.types import BOOL, INT64, Dim, Shape, Size, TensorType, is_float

PROMOTING = ("add", "divide", "matmul", "maximum", "minimum", "multiply", "subtract")
FLOATS = (
    "ceil", "exp", "floor", "log", "negative", "relu", "sigmoid", "sqrt", "tanh",
)  # fmt: skip
NORMALISING = ("log_softmax", "softmax")
REDUCING = ("max", "mean", "sum")


def promoted(kind: str, n: NodeDesc) -> str | None:
    """Export as one node with operands in the dtype of the result."""
    dtype = n.result().dtype
    if dtype == BOOL or dtype.kind == "c" or (kind == "Div" and not is_float(dtype)):
        return None
    return widths.widened_op(n.g, kind, *n.promoted(), dtype=dtype)


def elementwise(kind: str, n: NodeDesc) -> str | None:
    """Export as one unary node on floats."""
    dtype = n.result().dtype
    if not is_float(dtype) or dtype.kind == "c":
        return None
    return widths.widened_op(n.g, kind, *n.promoted(), dtype=dtype)


def normalised(kind: str, n: NodeDesc) -> str | None:
    """A softmax."""
    dtype = n.result().dtype
    if not is_float(dtype) or dtype.kind == "c" or not isinstance(n.attr("axis"), int):
        return None
    return widths.widened_op(n.g, kind, *n.promoted(), dtype=dtype, axis=n.attr("axis"))


def reduced(kind: str, n: NodeDesc) -> str | None:
    """A reduction over axes."""
    axis, dtype = n.attr("axis"), n.result().dtype
    if dtype == BOOL or dtype.kind == "c" or axis == () or not n.type("x").rank:
        return None
    all_axes = range(n.type("x").rank) if axis is None else axis
    axes = (all_axes,) if isinstance(all_axes, int) else tuple(all_axes)
    if any(n.type("x").shape[at] == 0 for at in axes):
        return None  # ONNX leaves its result open
    keepdims_ = int(n.attr("keepdims"))
    beside = (n.g.integers(*axes),)
    return widths.widened_op(
        n.g, kind, *n.promoted(), dtype=dtype, beside=beside, keepdims=keepdims_
    )


def same(n: NodeDesc) -> str:
    """The identity."""
    return n.g.op("Identity", next(n.g.name(name) for name in n.op.reads()))


def same_integers(n: NodeDesc) -> str:
    """A cast to int64."""
    return widths.cast_value(n.g, n.input("x"), n.type("x").dtype, INT64)


def fence(n: NodeDesc) -> str:
    """The value of a fence."""
    return n.g.op("Identity", n.input("x"))


def constant(n: NodeDesc) -> str:
    """A constant."""
    return n.g.constant(n.attr("value").array())


def cast(n: NodeDesc) -> str | None:
    """A cast."""
    source_dtype, to = n.type("x").dtype, n.result().dtype
    if "c" in (source_dtype.kind, to.kind):
        return None
    return n.g.op("Cast", n.input("x"), to=code_of(to))


def reshape(n: NodeDesc) -> str:
    """A reshape."""
    return reshape_to(n.g, n.input("x"), n.result().shape)


def broadcast(n: NodeDesc) -> str:
    """A broadcast."""
    return expand_to(n.g, n.input("x"), n.result().shape, n.result().dtype)


def concat(n: NodeDesc) -> str:
    """A concatenation."""
    return n.g.op("Concat", *n.promoted(), axis=n.attr("axis"))


def new_axes(n: NodeDesc) -> str:
    """New axes of size 1."""
    axis = n.attr("axis")
    return add_axes(n.g, n.input("x"), (axis,) if isinstance(axis, int) else axis)


def where(n: NodeDesc) -> str | None:
    """An elementwise selection."""
    (condition, yes, no), dtype = n.op.reads(), n.result().dtype
    if dtype.kind == "c":
        return None
    types = ((operand, n.g.type(operand)) for operand in (yes, no))
    first, second = (
        widths.cast_value(n.g, n.g.name(operand), type_.dtype, dtype)
        for operand, type_ in types
        if isinstance(type_, TensorType)
    )
    return widths.widened_where(n.g, n.g.name(condition), first, second, dtype)


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


# ---- parts -----------------------------------------------------------------------------------


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


def arange(n: NodeDesc) -> str | None:
    """An `arange` of integers."""
    start, stop, step = (n.attr(name) for name in ("start", "stop", "step"))
    dtype = n.result().dtype
    if not isinstance(step, int) or dtype.kind not in "iuf":
        return None
    if any(isinstance(bound, float) for bound in (start, stop)):
        return None
    g = n.g
    bounds = (0, start) if stop is None else (start, stop)
    range_name = g.op("Range", *map(g.number, bounds), g.constant(step, INT64))
    return widths.cast_value(g, range_name, INT64, dtype)


def size(n: NodeDesc) -> str:
    """A size as a number."""
    return widths.cast_value(n.g, n.g.number(n.attr("value")), INT64, n.result().dtype)


def nonzero(n: NodeDesc) -> list[list[str]] | None:
    """The indices of nonzero elements, one array per axis; with a fixed count by the kernel."""
    x, g = n.type("x"), n.g
    if isinstance(n.attr("count"), int) or x.dtype.kind == "c":
        return None
    indices_ = g.op("NonZero", widths.cast_value(g, n.input("x"), x.dtype, BOOL))
    return [[g.op("Gather", indices_, g.constant(at, INT64), axis=0) for at in range(x.rank)]]


def data_dependent_size(n: NodeDesc) -> str:
    """A data-dependent size."""
    value, size = same_integers(n), n.attr("size")
    if isinstance(size, Dim) and size.name:
        n.g.told[size.name] = add_axes(n.g, value, (0,)), -1
    return value


def resize(n: NodeDesc) -> str | None:
    """A resize to symbolic sizes; between known sizes by the kernel."""
    x, shape = n.type("x"), n.result().shape
    resized = [pair for pair in zip(x.shape, shape, strict=True) if pair[0] != pair[1]]
    if all(isinstance(size, int) for pair in resized for size in pair) or n.attr("antialias"):
        return None
    has_region = n.attr("coordinates") == "tf_crop_and_resize"
    if x.dtype.kind == "c" or (has_region and n.attr("region") is None):
        return None
    g, scales = n.g, n.attr("scales")
    region = g.constant(np.asarray(n.attr("region"), np.float32)) if has_region else ""
    return widths.widened_op(
        g, "Resize", *n.promoted(), dtype=n.result().dtype, beside=(region, "", g.shape(shape)),
        mode=n.attr("mode"), coordinate_transformation_mode=n.attr("coordinates"),
        nearest_mode=n.attr("nearest_mode"), cubic_coeff_a=n.attr("cubic_coefficient"),
        exclude_outside=int(n.attr("exclude_outside")),
        extrapolation_value=float(n.attr("extrapolation_value")),
    ) if scales is None else None  # fmt: skip


def _each(
    rule: Callable[[str, NodeDesc], str | None], op_types: Sequence[str]
) -> dict[str, Rule]:
    names = translated("braces", "onnx")
    return {op_type: partial(rule, names[op_type]) for op_type in op_types}


OPERATORS: Mapping[str, Rule] = {
    **_each(promoted, PROMOTING),
    **_each(elementwise, FLOATS),
    **_each(normalised, NORMALISING),
    **_each(reduced, REDUCING),
    "arange": arange,
    "as_size": data_dependent_size,
    "broadcast_to": broadcast,
    "cast": cast,
    "concat": concat,
    "constant": constant,
    "countable": same_integers,
    "embedding": embedding,
    "ensure_shape": same,
    "expand_dims": new_axes,
    "fence": fence,
    "gather_nd": gather_nd,
    "getitem": getitem,
    "identity": same,
    "nonzero": nonzero,
    "reshape": reshape,
    "resize": resize,
    "scatter_nd_add": scatter_nd_add,
    "setitem_add": setitem_add,
    "size": size,
    "stop_gradient": same,
    "take": take,
    "where": where,
    "window": window,
    "window_add": window_add,
}
