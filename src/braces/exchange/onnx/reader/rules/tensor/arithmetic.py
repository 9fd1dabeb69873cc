"""Rules of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

import ml_dtypes

from braces.exchange.common.rules.elementwise import (
    as_float,
    cast_to_dtype,
    clamp,
    elu,
    hard_sigmoid,
    number,
    swish,
    thresholded_relu,
)
from braces.exchange.common.values.constants import Constant, Value
from braces.exchange.common.values.equal_sizes import unify_sizes
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.layers import truncated_divide, truncated_remainder
from braces.extend.operators import ELEMENTWISE, derived
from braces.extend.types import STORED, DType, is_float, is_narrow, is_stored

POWERS = STORED["f8e8m0fnu"]
"""The dtype of powers of two: exponents without sign or mantissa."""
LIMITS: Callable[[DType], Any] = ml_dtypes.finfo
"""The limits of a float dtype."""


def equivalent_operator(op_type: str) -> Rule:
    """Return the rule of an equivalent operator on the same inputs."""
    function = ops.function_of(op_type)
    return lambda node: function(*unify_sizes(node.vars()))


def fold_inputs(op_type: str, node: OnnxNode) -> Var:
    """A binary operator folded over all inputs."""
    return reduce(ops.function_of(op_type), unify_sizes(node.vars()))


def mean(node: OnnxNode) -> Var:
    """The mean of all inputs."""
    return fold_inputs("add", node) / float(node.count)


def divide(node: OnnxNode) -> Var:
    """A quotient; that of integers is truncated towards zero."""
    return truncated_divide(*unify_sizes(node.vars()))


def modulo(node: OnnxNode) -> Var:
    """A remainder, with the sign of the divisor or of the dividend."""
    x, y = unify_sizes(node.vars())
    if node.flag("fmod"):
        return truncated_remainder(x, y)
    return ops.remainder(x, y)


def power(node: OnnxNode) -> Var:
    """A power, in the dtype of the base."""
    x, y = unify_sizes(node.vars())
    if is_float(x.dtype) or not is_float(y.dtype):
        return ops.pow(x, cast_to_dtype(y, x.dtype))
    return cast_to_dtype(ops.pow(ops.cast(x, y.dtype), y), x.dtype)


def clip(node: OnnxNode) -> Var:
    """Clip to bounds."""
    x = node.var(0)
    if node.version < 11:
        bounds = (node.attr("min"), node.attr("max"))
        low, high = (None if v is None else number(v, x.dtype) for v in bounds)
    else:
        low, high = (_bound(node, at) for at in (1, 2))
    return clamp(x, low, high)


def _bound(node: OnnxNode, at: int) -> Any:
    """Return a bound: a number if it is constant, else a variable."""
    value = node.value(at)
    if isinstance(value, Constant) and not value.weight and value.array.size == 1:
        return value.numbers().ravel()[0]
    return node.maybe(at)


def cast(node: OnnxNode) -> Value:
    """A cast; symbolic sizes stay symbolic."""
    value, dtype = node.value(0), node.dtype_attr("to")
    is_constant = isinstance(value, Constant) and value.plain and not value.weight
    if isinstance(value, Constant) and is_constant and not is_stored(dtype):
        return Constant.of(value.numbers().astype(dtype))
    return cast_saturated(node, node.var(0), dtype)


def cast_like(node: OnnxNode) -> Var:
    """A cast to the dtype of another array."""
    return cast_saturated(node, node.var(0), node.var(1).dtype)


def cast_saturated(node: OnnxNode, x: Var, dtype: DType) -> Var:
    """Cast to another dtype; casts to one-byte floats saturate."""
    if not is_stored(dtype) or is_narrow(dtype) or not is_float(x.dtype):
        return cast_to_dtype(x, dtype)
    saturate = node.flag("saturate", default=True)
    if dtype == POWERS:
        return round_to_power_of_two(x, node.attr("round_mode", "up"), saturate)
    if saturate:
        largest = float(LIMITS(dtype).max)
        x = ops.clip(x, min=-largest, max=largest)
    return ops.cast(x, dtype)


def round_to_power_of_two(x: Var, way: str, saturate: bool) -> Var:
    """Round to powers of two by the exponent bits."""
    bits = ops.bitcast(ops.abs(ops.cast(x, "float32")), dtype="uint32")
    exponent = ops.bitwise_right_shift(bits, ops.full_like(bits, 23))
    mantissa = ops.bitwise_and(bits, ops.full_like(bits, 2**23 - 1))
    half = ops.full_like(mantissa, 2**22)
    round_half = ops.where(exponent == 0, mantissa > half, mantissa >= half)
    round_up = {
        "up": ops.where(exponent == 0, mantissa > half, mantissa > 0),
        "down": ops.zeros_like(mantissa, dtype="bool"),
    }.get(way, round_half)
    result = exponent + ops.cast(round_up, "uint32")
    result = ops.minimum(result, ops.full_like(result, 254 if saturate else 255))
    result = ops.where(ops.isnan(x), ops.full_like(result, 255), result)
    return ops.bitcast(ops.cast(result, "uint8"), dtype=POWERS)


def as_computable(x: Var) -> Var:
    """Cast a storage dtype to one that operators support."""
    return ops.cast(x, "float32") if is_stored(x.dtype) else x


def is_infinite(node: OnnxNode) -> Var:
    """Test for infinity, of one sign or both."""
    x = as_computable(node.var(0))
    infinite = ops.isinf(x)
    if not node.flag("detect_positive", default=True):
        infinite = infinite & (x < 0)
    if not node.flag("detect_negative", default=True):
        infinite = infinite & (x > 0)
    return infinite


def unary_rule(function: Callable[[Var], Var]) -> Rule:
    """Return the rule of a function of the first input."""
    return lambda node: function(node.var(0))


def activation_rule(
    function: Callable[..., Var], **defaults: float
) -> Callable[[OnnxNode], Var]:
    """Return the rule of an activation with numbers as attributes."""

    def rule(node: OnnxNode) -> Var:
        return function(node.var(0), *(node.attr(k, v) for k, v in defaults.items()))

    return rule


def selu(x: Var, alpha: float, gamma: float) -> Var:
    """Return a scaled ELU."""
    return elu(x, alpha, gamma)


def shrink(node: OnnxNode) -> Var:
    """Shrinkage: numbers beyond a bound move towards zero, others and NaN become 0.

    Integers are computed as float32.
    """
    x, bound, bias = as_float(node.var(0)), node.attr("lambd", 0.5), node.attr("bias", 0.0)
    beyond = ops.where(x > bound, x - bias, ops.zeros_like(x))
    return cast_to_dtype(ops.where(x < -bound, x + bias, beyond), node.var(0).dtype)


def prelu(node: OnnxNode) -> Var:
    """Leaky ReLU with learned slopes."""
    x, slope = unify_sizes(node.vars())
    return ops.where(x < 0, x * slope, x)


def gelu(node: OnnxNode) -> Var:
    """GELU, exact or by the tanh approximation."""
    return ops.gelu(node.var(0), approximate=node.attr("approximate", "none") == "tanh")


ARITHMETIC: Mapping[str, Rule] = {
    **derived("onnx", equivalent_operator, *ELEMENTWISE, "logical", "bitwise", "other"),
    "Cast": cast,
    "CastLike": cast_like,
    "Celu": activation_rule(ops.celu, alpha=1.0),
    "Clip": clip,
    "Div": divide,
    "Elu": activation_rule(ops.elu, alpha=1.0),
    "Gelu": gelu,
    "HardSigmoid": activation_rule(hard_sigmoid, alpha=0.2, beta=0.5),
    "Identity": lambda node: node.value(0),
    "IsInf": is_infinite,
    "IsNaN": lambda node: ops.isnan(as_computable(node.var(0))),
    "LeakyRelu": activation_rule(ops.leaky_relu, alpha=0.01),
    "Max": partial(fold_inputs, "maximum"),
    "Mean": mean,
    "Min": partial(fold_inputs, "minimum"),
    "Mod": modulo,
    "PRelu": prelu,
    "Pow": power,
    "Selu": activation_rule(
        selu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875
    ),
    "Shrink": shrink,
    "Sum": partial(fold_inputs, "add"),
    "Swish": activation_rule(swish, alpha=1.0),
    "ThresholdedRelu": activation_rule(thresholded_relu, alpha=1.0),
}
