"""Primitives that reduce axes, or go along one: sums, products so far, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from braces.dtypes import BOOL, INT32, INT64, DType
from braces.exchange.onnx_out import loops, widths
from braces.exchange.onnx_out.equation import Equation, Rule
from braces.exchange.onnx_out.graph import Graph
from braces.exchange.onnx_out.primitives.windows import neutral


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


def ordered(e: Equation, *values: str) -> list[str]:
    """Numbers in order, and what belongs to them moved along; equal ones stay in order."""
    if e.params["num_keys"] != 1:
        raise e.refuse("by several keys")
    g, type_ = e.g, e.type()
    axis: int = e.params["dimension"]
    size = g.size(type_.shape[axis])
    wide = widths.computed_in("TopK", type_.dtype)
    key = widths.moved(g, values[0], type_.dtype, wide)
    first, places = g.several("TopK", key, size, count=2, axis=axis, largest=0)
    rest = [g.op("GatherElements", value, places, axis=axis) for value in values[1:]]
    return [widths.moved(g, first, wide, type_.dtype), *rest]


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
