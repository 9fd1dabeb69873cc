"""Primitives that reduce axes, or go along one: sums, products so far, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from braces.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from braces.exchange.onnx.writer.graph import dtype_widening as widths, loop_if as loops
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.exchange.onnx.writer.graph.jaxpr_equation import Equation, Rule
from braces.exchange.onnx.writer.primitives.conv_pool import neutral


def reduced(kind: str, e: Equation, x: str) -> str:
    """A reduction over axes."""
    return reduce(e.g, kind, x, e.params["axes"], e.dtype)


def reduce(
    g: Graph, kind: str, x: str, axes: Sequence[int], dtype: DType, keepdims: bool = False
) -> str:
    """A reduction over axes, which may be none."""
    if not axes:
        return x
    at = g.integers(*axes)
    return widths.same(g, kind, x, dtype=dtype, beside=(at,), keepdims=int(keepdims))


def any_of(e: Equation, x: str) -> str:
    """Whether any holds; none of nothing does."""
    return e.g.cast(_number_of(e, x), BOOL)


def all_of(e: Equation, x: str) -> str:
    """Whether all hold; all of nothing do."""
    return e.g.op("Not", e.g.cast(_number_of(e, e.g.op("Not", x)), BOOL))


def _number_of(e: Equation, x: str) -> str:
    """How many hold."""
    if e.dtype != BOOL:
        raise e.refuse("of integers")
    return reduce(e.g, "ReduceSum", e.g.cast(x, INT32), e.params["axes"], INT32)


def best(kind: str, e: Equation, x: str) -> str:
    """Where the largest or smallest number of an axis is."""
    (axis,) = e.params["axes"]
    found = e.asked(kind, x, axis=axis, keepdims=0)
    return widths.moved(e.g, found, INT64, e.dtype)


def sums(e: Equation, x: str) -> str:
    """Sums so far."""
    axis = e.g.constant(e.params["axis"], INT64)
    return e.same("CumSum", x, beside=(axis,), reverse=int(e.params["reverse"]))


def running(kind: str, e: Equation, x: str) -> str:
    """Products, or extremes, so far: a loop over the axis."""
    type_, axis, g = e.type(), e.params["axis"], e.g
    row = tuple(size for i, size in enumerate(type_.shape) if i != axis)
    start = g.op("Expand", e.scalar(neutral(kind, e)), g.shape(row))

    def step(inner: Graph, before: str, piece: str) -> tuple[str, str]:
        found = widths.same(inner, kind, before, piece, dtype=e.dtype)
        return found, inner.op("Identity", found)

    return loops.along(g, x, type_, axis, start, step, reverse=bool(e.params["reverse"]))


def running_log(e: Equation, x: str) -> str:
    """Logarithms of sums of exponentials so far: a loop over the axis."""
    type_, axis, dtype = e.type(), e.params["axis"], e.dtype
    row = tuple(size for i, size in enumerate(type_.shape) if i != axis)
    start = e.g.op("Expand", e.scalar(neutral("Max", e)), e.g.shape(row))

    def step(inner: Graph, before: str, piece: str) -> tuple[str, str]:
        same = partial(widths.same, inner, dtype=dtype)
        most = same("Max", before, piece)
        endless = inner.op("IsInf", widths.moved(inner, most, dtype, FLOAT32))
        shift = widths.chosen(inner, endless, inner.constant(0, dtype), most, dtype)
        parts = (same("Exp", same("Sub", one, shift)) for one in (before, piece))
        found = same("Add", same("Log", same("Add", *parts)), shift)
        return found, inner.op("Identity", found)

    return loops.along(e.g, x, type_, axis, start, step, reverse=bool(e.params["reverse"]))


def ordered(e: Equation, *values: str) -> list[str]:
    """Numbers in order, and what belongs to them moved along; equal ones stay in order.

    By several keys they are brought into order by each, the last one first.
    """
    g, axis = e.g, int(e.params["dimension"])
    found = list(values)
    for at in reversed(range(e.params["num_keys"])):
        type_ = e.type(at)
        key = widths.moved(g, found[at], type_.dtype, widths.computed_in("TopK", type_.dtype))
        size = g.size(type_.shape[axis])
        _, places = g.several("TopK", key, size, count=2, axis=axis, largest=0)
        found = [g.op("GatherElements", value, places, axis=axis) for value in found]
    return found


def largest(e: Equation, x: str) -> list[str]:
    """The largest numbers of an axis, and where they are."""
    g, dtype = e.g, e.dtype
    wide = widths.computed_in("TopK", dtype)
    size = g.size(e.size(e.params["k"]))
    axis = e.params.get("axis", len(e.shape) - 1)
    moved = widths.moved(g, x, dtype, wide)
    values, places = g.several("TopK", moved, size, count=2, axis=axis)
    return [
        widths.moved(g, values, wide, dtype),
        widths.moved(g, places, INT64, e.result(1).dtype),
    ]


REDUCTIONS: Mapping[str, Rule] = {
    "argmax": partial(best, "ArgMax"),
    "argmin": partial(best, "ArgMin"),
    "cumlogsumexp": running_log,
    "cummax": partial(running, "Max"),
    "cummin": partial(running, "Min"),
    "cumprod": partial(running, "Mul"),
    "cumsum": sums,
    "reduce_and": all_of,
    "reduce_max": partial(reduced, "ReduceMax"),
    "reduce_min": partial(reduced, "ReduceMin"),
    "reduce_or": any_of,
    "reduce_prod": partial(reduced, "ReduceProd"),
    "reduce_sum": partial(reduced, "ReduceSum"),
    "sort": ordered,
    "top_k": largest,
}
