"""Rules of operators that work number by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

import ml_dtypes

from braces.builder.var import Var
from braces.dtypes import STORED, DType, is_float, is_narrow, is_stored
from braces.exchange.common.rules.elementwise import (
    clamp,
    elu,
    hard_sigmoid,
    in_dtype,
    number,
    remainder_towards_zero,
    swish,
    thresholded,
    whole_quotient,
)
from braces.exchange.common.values.constants import Known, Value
from braces.exchange.common.values.equal_sizes import alike
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.frontend.core import functions as ops

POWERS = STORED["f8e8m0fnu"]
"""Powers of two: exponents without anything else."""
LIMITS: Callable[[DType], Any] = ml_dtypes.finfo
"""What floats of a dtype can be."""
SAME = {
    "Abs": "abs", "Acos": "arccos", "Acosh": "arccosh", "Add": "add", "And": "logical_and",
    "Asin": "arcsin", "Asinh": "arcsinh", "Atan": "arctan", "Atanh": "arctanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Det": "det", "Equal": "equal",
    "Erf": "erf", "Exp": "exp", "Floor": "floor", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "HardSwish": "hard_swish", "Less": "less",
    "LessOrEqual": "less_equal", "Log": "log", "Mish": "mish", "Mul": "multiply",
    "Neg": "negative", "Not": "logical_not", "Or": "logical_or", "Reciprocal": "reciprocal",
    "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt",
    "Sub": "subtract", "Tan": "tan", "Tanh": "tanh", "Where": "where", "Xor": "logical_xor",
}  # fmt: skip
"""Operators that there is one of ours for, of the same inputs."""


def same(op_type: str, node: Node) -> Var:
    """One operator of the same inputs."""
    return ops.function_of(op_type)(*alike(node.vars()))


def folded(op_type: str, node: Node) -> Var:
    """One operator after the other, over all inputs."""
    return reduce(ops.function_of(op_type), alike(node.vars()))


def mean(node: Node) -> Var:
    """The mean of all inputs."""
    return folded("add", node) / float(node.count)


def divide(node: Node) -> Var:
    """A quotient; that of integers is cut off towards zero."""
    x, y = alike(node.vars())
    if is_float(x.dtype):
        return ops.divide(x, y)
    return whole_quotient(x, y)


def modulo(node: Node) -> Var:
    """What is left of a division, with the sign of the divisor, or of what is divided."""
    x, y = alike(node.vars())
    if node.flag("fmod"):
        return remainder_towards_zero(x, y)
    return ops.remainder(x, y)


def power(node: Node) -> Var:
    """A power, in the dtype of the base."""
    x, y = alike(node.vars())
    if is_float(x.dtype) or not is_float(y.dtype):
        return ops.pow(x, in_dtype(y, x.dtype))
    return in_dtype(ops.pow(ops.cast(x, y.dtype), y), x.dtype)


def clip(node: Node) -> Var:
    """Numbers, or the bounds that they lie beyond."""
    x = node.var(0)
    if node.version < 11:
        found = (node.attr("min"), node.attr("max"))
        low, high = (None if v is None else number(v, x.dtype) for v in found)
    else:
        low, high = (_bound(node, at) for at in (1, 2))
    return clamp(x, low, high)


def _bound(node: Node, at: int) -> Any:
    """A bound: a number where the model says it, else what computes it."""
    value = node.value(at)
    if isinstance(value, Known) and not value.weight and value.array.size == 1:
        return value.numbers().ravel()[0]
    return node.maybe(at)


def cast(node: Node) -> Value:
    """The same numbers in another dtype; sizes stay sizes."""
    value, dtype = node.value(0), node.dtype_attr("to")
    known = isinstance(value, Known) and value.plain and not value.weight
    if isinstance(value, Known) and known and not is_stored(dtype):
        return Known.of(value.numbers().astype(dtype))
    return converted(node, node.var(0), dtype)


def cast_like(node: Node) -> Var:
    """The same numbers in the dtype of another array."""
    return converted(node, node.var(0), node.var(1).dtype)


def converted(node: Node, x: Var, dtype: DType) -> Var:
    """The same numbers in another dtype; as floats of one byte, at most the largest."""
    if not is_stored(dtype) or is_narrow(dtype) or not is_float(x.dtype):
        return in_dtype(x, dtype)
    saturate = node.flag("saturate", default=True)
    if dtype == POWERS:
        return powers(x, node.attr("round_mode", "up"), saturate)
    if saturate:
        largest = float(LIMITS(dtype).max)
        x = ops.clip(x, min=-largest, max=largest)
    return ops.cast(x, dtype)


def powers(x: Var, way: str, saturate: bool) -> Var:
    """Powers of two: those of the exponents, of which the next one may be nearer."""
    bits = ops.bitcast(ops.abs(ops.cast(x, "float32")), dtype="uint32")
    exponent = ops.bitwise_right_shift(bits, ops.full_like(bits, 23))
    rest = ops.bitwise_and(bits, ops.full_like(bits, 2**23 - 1))
    half = ops.full_like(rest, 2**22)
    after_half = ops.where(exponent == 0, rest > half, rest >= half)
    more = {
        "up": ops.where(exponent == 0, rest > half, rest > 0),
        "down": ops.zeros_like(rest, dtype="bool"),
    }.get(way, after_half)
    found = exponent + ops.cast(more, "uint32")
    found = ops.minimum(found, ops.full_like(found, 254 if saturate else 255))
    found = ops.where(ops.isnan(x), ops.full_like(found, 255), found)
    return ops.bitcast(ops.cast(found, "uint8"), dtype=POWERS)


def computed(x: Var) -> Var:
    """Numbers in a dtype that is computed with, which holds them all."""
    return ops.cast(x, "float32") if is_stored(x.dtype) else x


def is_infinite(node: Node) -> Var:
    """Whether numbers are infinite, on one side or both."""
    x = computed(node.var(0))
    found = ops.isinf(x)
    if not node.flag("detect_positive", default=True):
        found = found & (x < 0)
    if not node.flag("detect_negative", default=True):
        found = found & (x > 0)
    return found


def on(function: Callable[[Var], Var]) -> Rule:
    """The rule of a function of the first input."""
    return lambda node: function(node.var(0))


def with_numbers(function: Callable[..., Var], **defaults: float) -> Callable[[Node], Var]:
    """The rule of an activation with numbers as attributes."""

    def activated(node: Node) -> Var:
        return function(node.var(0), *(node.attr(k, v) for k, v in defaults.items()))

    return activated


def selu(x: Var, alpha: float, gamma: float) -> Var:
    """A scaled ELU."""
    return elu(x, alpha, gamma)


def shrunk(node: Node) -> Var:
    """Numbers beyond a bound, moved towards zero; 0 in place of others, NaN among them.

    Integers are computed as float32.
    """
    x = node.var(0)
    wide = x if is_float(x.dtype) else ops.cast(x, "float32")
    return in_dtype(_shrunk(wide, node.attr("lambd", 0.5), node.attr("bias", 0.0)), x.dtype)


def _shrunk(x: Var, bound: float, bias: float) -> Var:
    beyond = ops.where(x > bound, x - bias, ops.zeros_like(x))
    return ops.where(x < -bound, x + bias, beyond)


def prelu(node: Node) -> Var:
    """Numbers, times a slope of their own where they are below zero."""
    x, slope = alike(node.vars())
    return ops.where(x < 0, x * slope, x)


def gelu(node: Node) -> Var:
    """X Phi(x), or what tanh makes of it."""
    return ops.gelu(node.var(0), approximate=node.attr("approximate", "none") == "tanh")


ARITHMETIC: Mapping[str, Rule] = {
    **{name: partial(same, op_type) for name, op_type in SAME.items()},
    "Cast": cast,
    "CastLike": cast_like,
    "Celu": with_numbers(ops.celu, alpha=1.0),
    "Clip": clip,
    "Div": divide,
    "Elu": with_numbers(ops.elu, alpha=1.0),
    "Gelu": gelu,
    "HardSigmoid": with_numbers(hard_sigmoid, alpha=0.2, beta=0.5),
    "Identity": lambda node: node.value(0),
    "IsInf": is_infinite,
    "IsNaN": lambda node: ops.isnan(computed(node.var(0))),
    "LeakyRelu": with_numbers(ops.leaky_relu, alpha=0.01),
    "Max": partial(folded, "maximum"),
    "Mean": mean,
    "Min": partial(folded, "minimum"),
    "Mod": modulo,
    "PRelu": prelu,
    "Pow": power,
    "Selu": with_numbers(
        selu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875
    ),
    "Shrink": shrunk,
    "Sum": partial(folded, "add"),
    "Swish": with_numbers(swish, alpha=1.0),
    "ThresholdedRelu": with_numbers(thresholded, alpha=1.0),
}
