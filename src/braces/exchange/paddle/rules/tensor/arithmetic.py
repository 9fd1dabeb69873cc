"""Rules of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

from braces.exchange.common.rules import elementwise
from braces.exchange.common.rules.elementwise import (
    cast_to_dtype,
    clamp,
    clamp_zero_slope,
    thresholded_relu,
)
from braces.exchange.paddle.graph.node import PaddleOp, Rule
from braces.extend import functions as ops, pointwise
from braces.extend.building import Var
from braces.extend.layers import truncated_divide
from braces.extend.operators import UNARY, derived
from braces.extend.types import BOOL, INT64, is_float

Function = Callable[..., Var]


def unary_rule(function: Callable[[Var], Var]) -> Rule:
    """Return the rule of a function of one array."""
    return lambda node: function(node.x())


def align_operand(y: Var, rank: int, axis: int) -> Var:
    """Align the second operand with an axis of the first.

    Excess trailing axes of size 1 are dropped.
    """
    if axis == -1 or (y.ndim >= rank > 0 and axis == 0):
        return y
    shape = list(y.shape)
    while len(shape) > max(rank - axis, 0) and shape[-1] == 1:
        del shape[-1]
    shape += [1] * (rank - axis - len(shape))
    return y if tuple(shape) == tuple(y.shape) else ops.reshape(y, shape)


def binary_rule(function: Function) -> Rule:
    """Return the rule of a binary function, with broadcasting along `axis`."""

    def rule(node: PaddleOp) -> Var:
        x, y = node.x(), node.y()
        axis = node.attr("axis", -1)
        if x.ndim < y.ndim:
            return function(align_operand(x, y.ndim, axis), y)
        return function(x, align_operand(y, x.ndim, axis))

    return rule


def scale(node: PaddleOp) -> Var:
    """A multiple plus a bias, which is added before or after."""
    x, bias = node.var("X"), node.attr("bias", 0.0)
    known = node.known_value("ScaleTensor") if node.has("ScaleTensor") else None
    if node.has("ScaleTensor") and known is None:
        factor: Any = cast_to_dtype(ops.reshape(node.var("ScaleTensor"), ()), x.dtype)
    else:
        factor = node.number("scale", "ScaleTensor", 1.0)
    dtype = x.dtype
    if not is_float(dtype):
        x = cast_to_dtype(x, INT64) if dtype == BOOL else x
        factor, bias = (v if isinstance(v, Var) else int(v) for v in (factor, bias))
    if not node.attr("bias_after_scale", True):
        return cast_to_dtype(_times(_plus(x, bias), factor), dtype)
    return cast_to_dtype(_plus(_times(x, factor), bias), dtype)


def _times(x: Var, factor: Any) -> Var:
    return x if not isinstance(factor, Var) and factor == 1 else x * factor


def _plus(x: Var, bias: Any) -> Var:
    return x if not bias else x + bias


def increment(node: PaddleOp) -> Var:
    """Add a step in place."""
    x, step = node.var("X"), node.attr("step", 1.0)
    return x + (step if is_float(x.dtype) else int(step))


def cast(node: PaddleOp) -> Var:
    """A cast."""
    return cast_to_dtype(node.var("X"), node.dtype("out_dtype"))


def total(node: PaddleOp) -> Var:
    """The sum of several arrays."""
    return reduce(ops.add, node.vars("X"))


def power(node: PaddleOp) -> Var:
    """A power with one exponent."""
    x, exponent = node.var("X"), node.number("factor", "FactorTensor", 1.0)
    special_case = elementwise.small_power(x, exponent)
    if special_case is not None:
        return special_case
    base = elementwise.as_float(x) if isinstance(exponent, float) else x
    return ops.pow(base, elementwise.number(exponent, base.dtype))


def clip(node: PaddleOp) -> Var:
    """Clip to bounds; the derivative is 0 at a bound, and bounds have none."""
    x = node.var("X")
    low, high = (_bound_like(_bound(node, name), x) for name in ("Min", "Max"))
    if not isinstance(low, Var) and not isinstance(high, Var):
        return clamp_zero_slope(x, low, high)
    if not is_float(x.dtype):
        return clamp(x, low, high)
    clipped = ops.stop_gradient(ops.maximum(ops.minimum(x, high), low))
    return ops.where((x > low) & (x < high), x, clipped)


def _bound(node: PaddleOp, slot: str) -> Any:
    known = node.known_value(slot)
    if known is not None and known.array.size == 1:
        return known.numbers().ravel()[0]
    return node.var(slot) if node.has(slot) else node.attr(slot.lower(), 0.0)


def _bound_like(bound: Any, x: Var) -> Any:
    if isinstance(bound, Var):
        return cast_to_dtype(ops.reshape(bound, ()), x.dtype)
    return bound if is_float(x.dtype) else int(bound)


def where(node: PaddleOp) -> Var:
    """An elementwise selection."""
    return ops.where(cast_to_dtype(node.var("Condition"), BOOL), node.var("X"), node.var("Y"))


def logical(op_type: str) -> Rule:
    """Return the rule of a logical operator; nonzero is true."""

    def rule(node: PaddleOp) -> Var:
        slots = [slot for slot in ("X", "Y") if node.has(slot)]
        return ops.function_of(op_type)(
            *(cast_to_dtype(node.var(slot), BOOL) for slot in slots)
        )

    return rule


# ---- activations -----------------------------------------------------------------------------


def hard_sigmoid(node: PaddleOp) -> Var:
    """A hard sigmoid."""
    return elementwise.hard_sigmoid(
        node.var("X"), node.attr("slope", 0.2), node.attr("offset", 0.5)
    )


def hard_swish(node: PaddleOp) -> Var:
    """A hard swish."""
    x, defaults = node.var("X"), (("offset", 3.0), ("threshold", 6.0), ("scale", 6.0))
    offset, threshold, scale = (node.attr(name, default) for name, default in defaults)
    if (offset, threshold, scale) == (3.0, 6.0, 6.0):
        return ops.hard_swish(x)
    return x * clamp_zero_slope(x + offset, 0.0, threshold) / scale


def swish(node: PaddleOp) -> Var:
    """X times the sigmoid of a multiple."""
    return elementwise.swish(node.var("X"), node.attr("beta", 1.0))


def relu6(node: PaddleOp) -> Var:
    """ReLU with an upper bound."""
    return clamp_zero_slope(node.var("X"), 0.0, node.attr("threshold", 6.0))


def selu(node: PaddleOp) -> Var:
    """A scaled ELU."""
    alpha, factor = (
        node.attr("alpha", 1.6732632423543772),
        node.attr("scale", 1.0507009873554805),
    )
    return elementwise.elu(node.var("X"), alpha, factor)


def softplus(node: PaddleOp) -> Var:
    """The softplus, linear beyond a threshold."""
    return elementwise.softplus(
        node.var("X"), node.attr("beta", 1.0), node.attr("threshold", 20.0)
    )


def prelu(node: PaddleOp) -> Var:
    """Leaky ReLU with one learned slope, or one per channel or element."""
    x, slope = node.var("X"), node.var("Alpha")
    mode, last = node.attr("mode", "all"), node.attr("data_format", "NCHW") == "NHWC"
    if mode == "all":
        slope = ops.reshape(slope, ())
    elif mode == "channel":
        trailing_axes = 0 if last else x.ndim - 2
        slope = ops.reshape(slope, (x.shape[-1 if last else 1], *[1] * trailing_axes))
    return ops.where(x > 0, x, x * slope)


def hard_tanh(node: PaddleOp) -> Var:
    """Clip to two constants."""
    return clamp_zero_slope(node.var("X"), node.attr("t_min", 0.0), node.attr("t_max", 24.0))


def with_number(function: Function, name: str, default: float) -> Rule:
    """Return the rule of a function with one number."""
    return lambda node: function(node.var("X"), node.attr(name, default))


def stanh(node: PaddleOp) -> Var:
    """A scaled tanh."""
    factor, inner = node.attr("scale_b", 1.7159), node.attr("scale_a", 0.67)
    return factor * ops.tanh(inner * node.var("X"))


def any_not_finite(x: Var) -> Var:
    """Return whether any number is infinite or NaN."""
    return ops.any(ops.logical_not(ops.isfinite(x)))


ARITHMETIC: Mapping[str, Rule] = {
    **derived("paddle", lambda op: unary_rule(ops.function_of(op)), *UNARY),
    **derived("paddle", lambda op: binary_rule(ops.function_of(op)), "binary", "comparison"),
    **derived("paddle", lambda op: binary_rule(partial(elementwise.bitwise, op)), "bitwise"),
    **derived("paddle", logical, "logical"),
    "bitwise_not": unary_rule(elementwise.invert_bits),
    "brelu": hard_tanh,
    "cast": cast,
    "celu": with_number(ops.celu, "alpha", 1.0),
    "clip": clip,
    "elementwise_div": binary_rule(truncated_divide),
    "elu": with_number(ops.elu, "alpha", 1.0),
    "gelu": lambda node: ops.gelu(
        node.var("X"), approximate=bool(node.attr("approximate", False))
    ),
    "hard_shrink": with_number(ops.hard_shrink, "threshold", 0.5),
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
    "increment": increment,
    "isfinite": lambda node: ops.logical_not(any_not_finite(node.var("X"))),
    "leaky_relu": with_number(ops.leaky_relu, "alpha", 0.02),
    "log10": unary_rule(pointwise.log10),
    "pow": power,
    "prelu": prelu,
    "relu6": relu6,
    "scale": scale,
    "selu": selu,
    "softplus": softplus,
    "softshrink": with_number(ops.softshrink, "lambda", 0.5),
    "stanh": stanh,
    "sum": total,
    "swish": swish,
    "thresholded_relu": with_number(thresholded_relu, "threshold", 1.0),
    "where": where,
}
"""Operators that compute row by row, for any number of rows."""
