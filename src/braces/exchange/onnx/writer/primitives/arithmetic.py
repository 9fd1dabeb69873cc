"""Export of elementwise primitives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.extend.operators import UNARY, translated
from braces.extend.types import BOOL, FLOAT32, FLOAT64, is_float


def same(kind: str, e: ExportedEquation, *values: str) -> str:
    """Export as one node with the dtype of its inputs."""
    return e.same(kind, *values)


def compared(kind: str, e: ExportedEquation, x: str, y: str) -> str:
    """A comparison."""
    return e.query(kind, x, y)


def compare_in_total_order(kind: str, e: ExportedEquation, x: str, y: str) -> str:
    """A comparison in total order: NaN comes last."""
    compared_, dtype = e.query(kind, x, y), e.type().dtype
    if not is_float(dtype):
        return compared_
    g, wide = e.g, dtype if dtype in (FLOAT32, FLOAT64) else FLOAT32
    left_is_nan, right_is_nan = (
        g.op("IsNaN", widths.cast_value(g, operand, dtype, wide)) for operand in (x, y)
    )
    before = (
        right_is_nan
        if kind == "LessOrEqual"
        else g.op("And", right_is_nan, g.op("Not", left_is_nan))
    )
    return g.op("Or", compared_, before)


def unequal(e: ExportedEquation, x: str, y: str) -> str:
    """Inequality."""
    return e.g.op("Not", e.query("Equal", x, y))


def negative(e: ExportedEquation, x: str) -> str:
    """Negation; unsigned numbers wrap."""
    return e.same("Sub", e.scalar(0), x) if e.dtype.kind == "u" else e.same("Neg", x)


def extreme(kind: str, of_bools: str, e: ExportedEquation, x: str, y: str) -> str:
    """A maximum or minimum."""
    return e.g.op(of_bools, x, y) if e.dtype == BOOL else e.same(kind, x, y)


def divided(e: ExportedEquation, x: str, y: str) -> str:
    """A division; ONNX Runtime refuses integer division by 0, even of empty arrays."""
    return e.same("Mul" if 0 in e.shape else "Div", x, y)


def remainder(e: ExportedEquation, x: str, y: str) -> str:
    """The remainder of a truncating division."""
    return divided(e, x, y) if 0 in e.shape else e.same("Mod", x, y, fmod=1)


def square(e: ExportedEquation, x: str) -> str:
    """A square."""
    return e.same("Mul", x, x)


def root(e: ExportedEquation, x: str) -> str:
    """The reciprocal square root."""
    return e.same("Reciprocal", e.same("Sqrt", x))


def power(e: ExportedEquation, x: str) -> str:
    """A power with a constant integer exponent."""
    exponent = int(e.params["y"])
    if exponent < 0:
        return e.same("Div", e.scalar(1), e.same("Pow", x, e.scalar(-exponent)))
    return e.same("Pow", x, e.scalar(exponent))


def power_of_two(e: ExportedEquation, x: str) -> str:
    """Two to the power of a number."""
    return e.same("Pow", e.scalar(2), x)


def cube_root(e: ExportedEquation, x: str) -> str:
    """The cube root, with the sign of its argument."""
    return e.same("Mul", e.same("Sign", x), e.same("Pow", e.same("Abs", x), e.scalar(1 / 3)))


def finite(e: ExportedEquation, x: str) -> str:
    """A test for numbers that are neither infinite nor NaN."""
    test_dtype = FLOAT32 if e.type().dtype not in (FLOAT32, FLOAT64) else e.type().dtype
    operand = widths.cast_value(e.g, x, e.type().dtype, test_dtype)
    return e.g.op("Not", e.g.op("Or", e.g.op("IsNaN", operand), e.g.op("IsInf", operand)))


def _near_zero(e: ExportedEquation, x: str, near: str, far: str) -> str:
    small = widths.widened_query(e.g, "Less", e.same("Abs", x), e.scalar(0.5), dtype=e.dtype)
    return widths.widened_where(e.g, small, near, far, e.dtype)


def _where_special(e: ExportedEquation, x: str, special: str, then: str, value: str) -> str:
    is_special = widths.widened_query(e.g, "Equal", x, special, dtype=e.dtype)
    return widths.widened_where(e.g, is_special, then, value, e.dtype)


def binary_logarithm(e: ExportedEquation, x: str) -> str:
    """The logarithm to base 2."""
    return e.same("Mul", e.same("Log", x), e.scalar(1 / math.log(2)))


def one_minus_square(e: ExportedEquation, x: str) -> str:
    """One minus a square, as a product without cancellation."""
    unit = e.scalar(1)
    return e.same("Mul", e.same("Add", unit, x), e.same("Sub", unit, x))


def exp_minus_one(e: ExportedEquation, x: str) -> str:
    """exp(x) - 1; near zero `(u - 1) x / log(u)` with `u = exp(x)`, where errors cancel."""
    unit = e.scalar(1)
    u = e.same("Exp", x)
    less = e.same("Sub", u, unit)
    near = e.same("Div", e.same("Mul", less, x), e.same("Log", u))
    return _near_zero(e, x, _where_special(e, u, unit, x, near), less)


def log_plus_one(e: ExportedEquation, x: str) -> str:
    """log(1 + x); near zero `log(u) x / (u - 1)` with `u = 1 + x`, where errors cancel."""
    unit = e.scalar(1)
    u = e.same("Add", unit, x)
    log = e.same("Log", u)
    near = e.same("Div", e.same("Mul", log, x), e.same("Sub", u, unit))
    return _near_zero(e, x, _where_special(e, u, unit, x, near), log)


def next_after(e: ExportedEquation, x: str, y: str) -> str:
    """The next float towards another one, for constants."""
    number, towards = (e.g.model.values.get(operand) for operand in (x, y))
    if number is None or towards is None:
        raise e.refuse("operands are not constants")
    return e.g.constant(np.nextafter(number, towards), e.dtype)


def angle(e: ExportedEquation, y: str, x: str) -> str:
    """The angle of a point: `atan(|y| / |x|)`, moved to the quadrant of the signs."""
    g, zero, dtype = e.g, e.scalar(0), e.dtype
    height, length = e.same("Abs", y), e.same("Abs", x)
    equal = widths.widened_query(g, "Equal", height, length, dtype=dtype)
    origin = widths.widened_query(g, "Equal", height, zero, dtype=dtype)
    diagonal = widths.widened_where(g, origin, zero, e.scalar(1), dtype)
    steepness = widths.widened_where(g, equal, diagonal, e.same("Div", height, length), dtype)
    right = e.same("Atan", steepness)
    left = e.same("Sub", e.scalar(math.pi), right)
    above = widths.widened_where(g, is_negative(e, x), left, right, dtype)
    # A product, because ONNX Runtime's Where loses the sign of zero.
    sign = widths.widened_where(g, is_negative(e, y), e.scalar(-1), e.scalar(1), dtype)
    return e.same("Mul", sign, above)


def is_negative(e: ExportedEquation, x: str) -> str:
    """The sign bit of a number that is not NaN; `1 / x` reveals that of zero."""
    numbers = (x, e.same("Div", e.scalar(1), x))
    tests = (
        widths.widened_query(e.g, "Less", operand, e.scalar(0), dtype=e.dtype)
        for operand in numbers
    )
    return e.g.op("Or", *tests)


def rounded(e: ExportedEquation, x: str) -> str:
    """Rounding to nearest, with ties to even or away from zero."""
    if int(e.params["rounding_method"]) == 1:
        return e.same("Round", x)
    nearest = e.same("Floor", e.same("Add", e.same("Abs", x), e.scalar(0.5)))
    return e.same("Mul", e.same("Sign", x), nearest)


def clamp(e: ExportedEquation, low: str, x: str, high: str) -> str:
    """Clamp a number to bounds."""
    return e.same("Min", e.same("Max", x, low), high)


def select(e: ExportedEquation, which: str, *cases: str) -> str:
    """Select elementwise among several cases; a bool selects the second if true."""
    if e.type().dtype == BOOL:
        return widths.widened_where(e.g, which, cases[-1], cases[0], e.dtype)
    result = cases[-1]
    for number in range(len(cases) - 2, -1, -1):
        is_case = e.query("Equal", which, e.g.constant(number, e.type().dtype))
        result = widths.widened_where(e.g, is_case, cases[number], result, e.dtype)
    return result


def convert(e: ExportedEquation, x: str) -> str:
    """A cast."""
    return widths.cast_value(e.g, x, e.type().dtype, e.dtype)


def identity_rule(e: ExportedEquation, *values: str) -> Sequence[str]:
    """The identity."""
    del e
    return values


def size(e: ExportedEquation) -> str:
    """A symbolic size as a number."""
    size_name = e.g.number(e.size(e.params["dim"]))
    return e.g.cast(size_name, e.dtype)


def logic(of_bools: str, of_bits: str, e: ExportedEquation, *values: str) -> str:
    """A logical operation on bools, or a bitwise one on integers."""
    return e.g.op(of_bools if e.dtype == BOOL else of_bits, *values)


def named(rule: Callable[..., str], *kinds: str) -> dict[str, Rule]:
    """Return the rules of primitives that have an ONNX operator, by primitive."""
    names = translated("jax", "onnx", *kinds)
    return {primitive: partial(rule, op_type) for primitive, op_type in names.items()}


ARITHMETIC: Mapping[str, Rule] = {
    **named(same, *UNARY, "binary"),
    **named(compared, "comparison"),
    "and": partial(logic, "And", "BitwiseAnd"),
    "atan2": angle,
    "cbrt": cube_root,
    "clamp": clamp,
    "convert_element_type": convert,
    "copy": identity_rule,
    "dim_as_value": size,
    "div": divided,
    "exp2": power_of_two,
    "expm1": exp_minus_one,
    "integer_pow": power,
    "is_finite": finite,
    "le_to": partial(compare_in_total_order, "LessOrEqual"),
    "log1p": log_plus_one,
    "log2": binary_logarithm,
    "lt_to": partial(compare_in_total_order, "Less"),
    "max": partial(extreme, "Max", "Or"),
    "min": partial(extreme, "Min", "And"),
    "ne": unequal,
    "neg": negative,
    "nextafter": next_after,
    "not": partial(logic, "Not", "BitwiseNot"),
    "one_minus_square": one_minus_square,
    "optimization_barrier": identity_rule,
    "or": partial(logic, "Or", "BitwiseOr"),
    "rem": remainder,
    "round": rounded,
    "rsqrt": root,
    "select_n": select,
    "square": square,
    "stop_gradient": identity_rule,
    "xor": partial(logic, "Xor", "BitwiseXor"),
}
