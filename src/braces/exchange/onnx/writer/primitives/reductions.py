"""Export of reductions, cumulative operations and sorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from braces.exchange.onnx.writer.graph import dtype_widening as widths, loop_if
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.exchange.onnx.writer.primitives.arithmetic import named
from braces.exchange.onnx.writer.primitives.conv_pool import identity_element
from braces.extend.types import BOOL, FLOAT32, INT32, INT64, DType


def reduced(kind: str, e: ExportedEquation, x: str) -> str:
    """A reduction over axes."""
    return reduce(e.g, kind, x, e.params["axes"], e.dtype)


def reduce(
    g: OnnxGraph, kind: str, x: str, axes: Sequence[int], dtype: DType, keepdims: bool = False
) -> str:
    """Build a reduction over axes, of which there may be none."""
    if not axes:
        return x
    at = g.integers(*axes)
    return widths.widened_op(g, kind, x, dtype=dtype, beside=(at,), keepdims=int(keepdims))


def any_of(e: ExportedEquation, x: str) -> str:
    """A logical any; false for empty axes."""
    return e.g.cast(_count_true(e, x), BOOL)


def all_of(e: ExportedEquation, x: str) -> str:
    """A logical all; true for empty axes."""
    return e.g.op("Not", e.g.cast(_count_true(e, e.g.op("Not", x)), BOOL))


def _count_true(e: ExportedEquation, x: str) -> str:
    """Count the true elements."""
    if e.dtype != BOOL:
        raise e.refuse(f"unsupported reduction to {e.dtype}")
    return reduce(e.g, "ReduceSum", e.g.cast(x, INT32), e.params["axes"], INT32)


def arg_extreme(kind: str, e: ExportedEquation, x: str) -> str:
    """An argmax or argmin."""
    (axis,) = e.params["axes"]
    position = e.query(kind, x, axis=axis, keepdims=0)
    return widths.cast_value(e.g, position, INT64, e.dtype)


def cumsum(e: ExportedEquation, x: str) -> str:
    """A cumulative sum."""
    axis = e.g.constant(e.params["axis"], INT64)
    return e.same("CumSum", x, beside=(axis,), reverse=int(e.params["reverse"]))


def cumulative(kind: str, e: ExportedEquation, x: str) -> str:
    """A cumulative product, minimum or maximum: a loop over the axis."""
    type_, axis, g = e.type(), e.params["axis"], e.g
    row_shape = tuple(size for i, size in enumerate(type_.shape) if i != axis)
    start = g.op("Expand", e.scalar(identity_element(kind, e)), g.shape(row_shape))

    def step(inner: OnnxGraph, before: str, piece: str) -> tuple[str, str]:
        accumulated = widths.widened_op(inner, kind, before, piece, dtype=e.dtype)
        return accumulated, inner.op("Identity", accumulated)

    return loop_if.scan_axis(g, x, type_, axis, start, step, reverse=bool(e.params["reverse"]))


def running_log(e: ExportedEquation, x: str) -> str:
    """A cumulative logsumexp: a loop over the axis."""
    type_, axis, dtype = e.type(), e.params["axis"], e.dtype
    row_shape = tuple(size for i, size in enumerate(type_.shape) if i != axis)
    start = e.g.op("Expand", e.scalar(identity_element("Max", e)), e.g.shape(row_shape))

    def step(inner: OnnxGraph, before: str, piece: str) -> tuple[str, str]:
        same = partial(widths.widened_op, inner, dtype=dtype)
        maximum = same("Max", before, piece)
        is_infinite = inner.op("IsInf", widths.cast_value(inner, maximum, dtype, FLOAT32))
        shift = widths.widened_where(
            inner, is_infinite, inner.constant(0, dtype), maximum, dtype
        )
        parts = (same("Exp", same("Sub", operand, shift)) for operand in (before, piece))
        accumulated = same("Add", same("Log", same("Add", *parts)), shift)
        return accumulated, inner.op("Identity", accumulated)

    return loop_if.scan_axis(
        e.g, x, type_, axis, start, step, reverse=bool(e.params["reverse"])
    )


def stable_sort(e: ExportedEquation, *values: str) -> list[str]:
    """A stable sort of several arrays by keys.

    Several keys are sorted one by one, the last one first.
    """
    g, axis = e.g, int(e.params["dimension"])
    sorted_values = list(values)
    for at in reversed(range(e.params["num_keys"])):
        type_ = e.type(at)
        key = widths.cast_value(
            g, sorted_values[at], type_.dtype, widths.computed_in("TopK", type_.dtype)
        )
        size = g.size(type_.shape[axis])
        _, permutation = g.several("TopK", key, size, count=2, axis=axis, largest=0)
        sorted_values = [
            g.op("GatherElements", value, permutation, axis=axis) for value in sorted_values
        ]
    return sorted_values


def largest(e: ExportedEquation, x: str) -> list[str]:
    """The largest numbers of an axis, and their indices."""
    g, dtype = e.g, e.dtype
    wide = widths.computed_in("TopK", dtype)
    size = g.size(e.size(e.params["k"]))
    axis = e.params.get("axis", len(e.shape) - 1)
    moved = widths.cast_value(g, x, dtype, wide)
    values, positions = g.several("TopK", moved, size, count=2, axis=axis)
    return [
        widths.cast_value(g, values, wide, dtype),
        widths.cast_value(g, positions, INT64, e.result(1).dtype),
    ]


REDUCTIONS: Mapping[str, Rule] = {
    **named(arg_extreme, "position"),
    **named(reduced, "reduction", "extreme"),
    "cumlogsumexp": running_log,
    "cummax": partial(cumulative, "Max"),
    "cummin": partial(cumulative, "Min"),
    "cumprod": partial(cumulative, "Mul"),
    "cumsum": cumsum,
    "reduce_and": all_of,
    "reduce_or": any_of,
    "sort": stable_sort,
    "top_k": largest,
}
