"""Rules of reductions, and of operators along one axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype, number
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops
from braces.extend.building import Var, current_program, emit
from braces.extend.operators import derived
from braces.extend.programs import DATA
from braces.extend.types import BOOL, INT64, DType, TensorType, dimensions, is_float, product

Reduction = Callable[..., Var]

AXES_AS_INPUT = 18
"""The version in which axes became an input instead of an attribute; 13 for `ReduceSum`."""


def axes_of(node: OnnxNode, at: int, since: int) -> tuple[int, ...] | None:
    """Return axes, which are an attribute in older versions and an input in newer ones."""
    if node.version < since:
        attribute = node.attr("axes")
        return None if attribute is None else tuple(attribute)
    axes_input = node.ints(at, "axes")
    return (
        None
        if axes_input is None
        else tuple(int(axis) for axis in axes_input if isinstance(axis, int))
    )


def reduction(
    function: Reduction, since: int = AXES_AS_INPUT, single: Callable[[Var], Var] | None = None
) -> Rule:
    """Return the rule of a reduction.

    Args:
        function: The reduction, a function of an array, `axis` and `keepdims`.
        since: The first version in which axes are an input.
        single: The elementwise function if no axis is reduced; by default the identity.
    """

    def reduce_axes(node: OnnxNode) -> Var:
        x, axes = node.var(0), axes_of(node, 1, since)
        if not axes and node.flag("noop_with_empty_axes"):
            return x if single is None else single(x)
        keepdims_ = node.flag("keepdims", default=True)
        return cast_to_dtype(function(x, axis=axes or None, keepdims=keepdims_), x.dtype)

    return reduce_axes


def reduce_bools_as_integers(function: Reduction) -> Reduction:
    """Return a reduction that takes bools as 0 and 1."""

    def reduce_axes(x: Var, **options: Any) -> Var:
        return function(ops.cast(x, "uint8") if x.dtype == BOOL else x, **options)

    return reduce_axes


def extreme(function: Reduction, otherwise: Callable[[DType], float]) -> Reduction:
    """Return a minimum or maximum whose empty result is the identity element."""
    reduce = reduce_bools_as_integers(function)

    def reduce_axes(x: Var, *, axis: tuple[int, ...] | None, keepdims: bool) -> Var:
        axes = range(x.ndim) if axis is None else [a % x.ndim for a in axis]
        if 0 not in [x.shape[a] for a in axes]:
            return reduce(_never_empty(x, axes, otherwise), axis=axis, keepdims=keepdims)
        reduced_shape = [
            1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes
        ]
        return ops.broadcast_to(number(otherwise(x.dtype), x.dtype), reduced_shape)

    return reduce_axes


def _never_empty(x: Var, axes: Iterable[int], otherwise: Callable[[DType], float]) -> Var:
    """Pad an array with the identity element along axes that may be empty.

    Such are data-dependent sizes, as the count that NonZero gives; sizes of inputs are not.
    """
    inputs = [info.type for info in current_program().table.vars.values() if info.kind == DATA]
    fed = dimensions(tuple(each.shape for each in inputs if isinstance(each, TensorType)))
    empty = [a in axes and not dimensions((n,)) <= fed for a, n in enumerate(x.shape)]
    if not any(empty):
        return x
    x = ops.cast(x, "uint8") if x.dtype == BOOL else x
    return ops.pad(x, [(0, int(each)) for each in empty], value=otherwise(x.dtype))


def lowest(dtype: DType) -> float:
    """Return the identity element of the maximum."""
    if is_float(dtype):
        return -math.inf
    return 0 if dtype == BOOL else int(np.iinfo(dtype).min)


def highest(dtype: DType) -> float:
    """Return the identity element of the minimum."""
    if is_float(dtype):
        return math.inf
    return 1 if dtype == BOOL else int(np.iinfo(dtype).max)


def absolute_sum(x: Var, **options: Any) -> Var:
    """Return the sum of absolute values."""
    return ops.sum(ops.abs(x), **options)


def square_sum(x: Var, **options: Any) -> Var:
    """Return the sum of squares."""
    return ops.sum(ops.square(x), **options)


def log_sum(x: Var, **options: Any) -> Var:
    """Return the logarithm of the sum."""
    return ops.log(ops.sum(x, **options))


def arg_extreme_rule(op_type: str) -> Rule:
    """Return the rule of an argmax or argmin, with the first or the last of ties."""
    function = ops.function_of(op_type)

    def rule(node: OnnxNode) -> Var:
        x = node.var(0)
        axis, keepdims_ = node.axis("axis", 0, x.ndim), node.flag("keepdims", default=True)
        if not node.flag("select_last_index"):
            return cast_to_dtype(function(x, axis=axis, keepdims=keepdims_), INT64)
        from_end = function(ops.flip(x, axis=axis), axis=axis, keepdims=keepdims_)
        return ops.size(x.shape[axis], dtype="int64") - 1 - from_end

    return rule


def softmax_rule(function: Callable[..., Var]) -> Rule:
    """Return the rule of a softmax; before version 13 all axes from one on are merged."""

    def rule(node: OnnxNode) -> Var:
        x = node.var(0)
        if node.version >= 13:
            return function(x, axis=node.attr("axis", -1))
        at = node.axis("axis", 1, x.ndim)
        flat = ops.reshape(x, (product(x.shape[:at]), product(x.shape[at:])))
        return ops.reshape(function(flat, axis=-1), x.shape)

    return rule


def hardmax(x: Var, axis: int) -> Var:
    """1 at the first maximum of an axis, 0 elsewhere."""
    at = axis % x.ndim
    ones = ops.one_hot(ops.argmax(x, axis=at), x.shape[at], dtype=x.dtype)
    return ops.moveaxis(ones, -1, at)


def cumulative_rule(function: Callable[..., Var], first: float) -> Rule:
    """Return the rule of a cumulative sum or product.

    Exclusive ones leave out the number itself: they shift the input by one.
    """

    def rule(node: OnnxNode) -> Var:
        x, reverse = node.var(0), node.flag("reverse")
        axis = int(node.number(1, "The axis")) % x.ndim
        if node.flag("exclusive"):
            widths = [(0, 0)] * x.ndim
            widths[axis] = (0, 1) if reverse else (1, 0)
            padded, size = ops.pad(x, widths, value=first), x.shape[axis]
            x = emit("window", padded, start=1 if reverse else 0, size=size, axis=axis)
        return cast_to_dtype(function(x, axis=axis, reverse=reverse), x.dtype)

    return rule


REDUCTIONS: Mapping[str, Rule] = {
    **derived("onnx", lambda op_type: reduction(ops.function_of(op_type)), "reduction"),
    **derived("onnx", lambda op_type: softmax_rule(ops.function_of(op_type)), "softmax"),
    **derived("onnx", arg_extreme_rule, "position"),
    "CumProd": cumulative_rule(ops.cumprod, 1.0),
    "CumSum": cumulative_rule(ops.cumsum, 0.0),
    "Hardmax": softmax_rule(hardmax),
    "ReduceL1": reduction(absolute_sum, single=ops.abs),
    "ReduceL2": reduction(ops.norm, single=ops.abs),
    "ReduceLogSum": reduction(log_sum, single=ops.log),
    "ReduceMax": reduction(extreme(ops.max, lowest)),
    "ReduceMin": reduction(extreme(ops.min, highest)),
    "ReduceSum": reduction(ops.sum, since=13),
    "ReduceSumSquare": reduction(square_sum, single=ops.square),
}
