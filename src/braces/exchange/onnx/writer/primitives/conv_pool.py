"""Export of sliding windows: convolutions and pooling.

ONNX requires the order batch, features, space, and convolutions without input dilation. So axes
are transposed, and dilated inputs are filled with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.exchange.onnx.writer.primitives.shape import dilate_axis, pad_edges, reshape_to
from braces.extend.operators import BY_XLA
from braces.extend.types import Size, is_float
from braces.lazy import extend, jax

Combine: TypeAlias = "Callable[[list[str], list[str]], list[str]]"
"""Combines two windows: the names of an element of each array."""


def convolution_part(part: str, e: ExportedEquation, first: str, other: str) -> list[str]:
    """One of the three arrays of a convolution, from the two others."""
    windows, shape = e.params["windows"], e.params["shape"]
    structs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in e.eqn.invars]
    function = partial(BY_XLA[part], windows=windows, shape=shape)
    return e.runner.call(e.g, function, structs, [first, other])


def convolution(e: ExportedEquation, x: str, kernel: str) -> str:
    """A JAX convolution with any order of axes."""
    numbers, p = e.params["dimension_numbers"], e.params
    g, groups, batches = e.g, p["feature_group_count"], p["batch_group_count"]
    x = g.op("Transpose", x, perm=list(numbers.lhs_spec))
    kernel = g.op("Transpose", kernel, perm=list(numbers.rhs_spec))
    shape: list[Size] = [e.type().shape[i] for i in numbers.lhs_spec]
    zero = e.scalar(0)
    for axis, dilation in enumerate(p["lhs_dilation"], 2):
        if dilation > 1:
            x = dilate_axis(g, x, shape, axis, dilation, zero, e.dtype)
            shape[axis] = (shape[axis] - 1) * dilation + 1
    low, high = ([e.size(pair[k]) for pair in p["padding"]] for k in (0, 1))
    x = pad_edges(g, x, [0, 0, *low], [0, 0, *high], zero, e.dtype)
    shape[2:] = [n + a + b for n, a, b in zip(shape[2:], low, high, strict=True)]
    if batches > 1:  # batch groups become feature groups
        x, groups = _batches_as_groups(e, x, shape, batches), batches
    output = e.same(
        "Conv", x, kernel, strides=p["window_strides"], dilations=p["rhs_dilation"],
        group=groups,
    )  # fmt: skip
    return g.op("Transpose", output, perm=_inverse(numbers.out_spec))


def _batches_as_groups(e: ExportedEquation, x: str, shape: Sequence[Size], batches: int) -> str:
    rows, features, *space = shape
    assert isinstance(rows, int)
    group_size = rows // batches
    grouped = reshape_to(e.g, x, [batches, group_size, features, *space])
    front = e.g.op("Transpose", grouped, perm=[1, 0, *range(2, len(shape) + 1)])
    return reshape_to(e.g, front, [group_size, batches * features, *space])


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda i: order[i])


def pool_windows(kind: str, e: ExportedEquation, x: str) -> str:
    """A sum, minimum or maximum of windows."""

    def combine(total: list[str], piece: list[str]) -> list[str]:
        return [e.same(kind, *total, *piece)]

    return _reduce_windows(e, [x], [e.g.constant(identity_element(kind, e), e.dtype)], combine)[
        0
    ]


def reduce_window(e: ExportedEquation, *given: str) -> list[str]:
    """A reduction of windows by a function, of one array or of several."""
    count = len(given) // 2
    closed = extend.ClosedJaxpr(e.params["jaxpr"], e.params["consts"])

    def combine(total: list[str], piece: list[str]) -> list[str]:
        return e.call(closed, [*total, *piece])

    return _reduce_windows(e, given[:count], given[count:], combine)


def _reduce_windows(
    e: ExportedEquation, values: Sequence[str], fillings: Sequence[str], combine: Combine
) -> list[str]:
    """Reduce windows along one axis after the other, slice by slice."""
    p, shape, results = e.params, list(e.type().shape), list(values)
    axis_params = zip(
        p["window_dimensions"], p["window_strides"], p["padding"], p["base_dilation"],
        p["window_dilation"], strict=True,
    )  # fmt: skip
    for axis, (width, stride, pads, spacing, dilation) in enumerate(axis_params):
        low, high = map(e.size, pads)
        before: list[Size] = [0] * len(shape)
        after: list[Size] = [0] * len(shape)
        before[axis], after[axis] = low, high
        for i, filling in enumerate(fillings):
            dtype, wide = e.result(i).dtype, list(shape)
            if spacing > 1:
                results[i] = dilate_axis(e.g, results[i], wide, axis, spacing, filling, dtype)
            results[i] = pad_edges(e.g, results[i], before, after, filling, dtype)
        if width > 1 or stride > 1:
            reach = (e.shape[axis] - 1) * stride + 1
            results = _reduce_axis(
                e, results, axis, e.size(width), reach, stride, dilation, combine
            )
        shape[axis] = e.shape[axis]
    return results


def _reduce_axis(
    e: ExportedEquation, values: Sequence[str], axis: int, width: Size, reach: Size,
    stride: int, step: int, combine: Combine,
) -> list[str]:  # fmt: skip
    """Reduce the windows of an axis; `reach` is the extent of their first elements."""
    if not isinstance(width, int):
        raise e.refuse("unsupported windows of symbolic size")
    g, total = e.g, list[str]()
    at, stride_at = g.integers(axis), g.integers(stride)
    for offset in range(0, width * step, step):
        bounds = g.integers(offset), g.size(reach + offset)
        piece = [g.op("Slice", x, *bounds, at, stride_at) for x in values]
        total = combine(total, piece) if total else piece
    return total


def identity_element(kind: str, e: ExportedEquation) -> Any:
    """Return the identity element of a reduction."""
    if kind in ("Add", "Mul"):
        return int(kind == "Mul")
    if is_float(e.dtype):
        return float("-inf") if kind == "Max" else float("inf")
    info = jax.numpy.iinfo(e.dtype)
    return int(info.min if kind == "Max" else info.max)


WINDOWS: Mapping[str, Rule] = {
    "conv_general_dilated": convolution,
    "convolution_kernel": partial(convolution_part, "kernel"),
    "convolution_out": partial(convolution_part, "out"),
    "convolution_x": partial(convolution_part, "x"),
    "reduce_window": reduce_window,
    "reduce_window_max": partial(pool_windows, "Max"),
    "reduce_window_min": partial(pool_windows, "Min"),
    "reduce_window_sum": partial(pool_windows, "Add"),
}
