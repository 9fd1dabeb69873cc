"""Rules of symbolic size arithmetic, which results in sizes instead of operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.symbolic_arithmetic import NotConstant
from braces.exchange.torch.graph.symbolic_ints import SymbolicBool
from braces.exchange.torch.rules.tensor import arithmetic
from braces.exchange.torch.rules.tensor.arithmetic import operand
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.operators import names_in
from braces.extend.types import BOOL, FLOAT64, INT64, Dim, Size, product


def of_size(x: Var, axis: int | None = None) -> Size | list[Size]:
    """The size of an axis, or all of them."""
    return list(x.shape) if axis is None else x.shape[axis]


def dropped_check(*given: Any, **options: Any) -> None:
    """A run-time check of sizes, which is dropped."""


def size_arithmetic_rule(
    of_sizes: Callable[..., Any], rule: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the rule of size arithmetic; variables use an operator instead."""

    def apply_rule(*given: Any) -> Any:
        if any(isinstance(value, Var) for value in given):
            return rule(*given)
        return of_sizes(*given)

    return apply_rule


def size_comparison_rule(of_sizes: Callable[..., bool], op_type: str) -> Callable[..., Any]:
    """Return the rule of a size comparison; an undecidable one is a symbolic bool."""

    def rule(*given: Any) -> Any:
        if any(isinstance(value, Var) for value in given):
            return ops.function_of(op_type)(*(operand(value, INT64) for value in given))
        try:
            return of_sizes(*given)
        except NotConstant:
            return SymbolicBool(op_type, given)

    return rule


def logical_rule(op_type: str) -> Callable[[Any, Any], Any]:
    """Return the rule of a logical and, or of an or."""
    logical = sizes.TESTS[op_type]

    def rule(x: Any, y: Any) -> Any:
        if isinstance(x, bool) and isinstance(y, bool):
            return logical(x, y)
        return ops.function_of(op_type)(*(operand(value, BOOL) for value in (x, y)))

    return rule


def quotient(x: Any, y: Any) -> Any:
    """A quotient of sizes, rounded down."""
    return sizes.truncated_quotient(x, y) if sizes.symbolic(x, y) else x // y


def ratio(x: Any, y: Any) -> Any:
    """A quotient of numbers; one of sizes is rounded down, as its readers do."""
    return sizes.truncated_quotient(x, y) if sizes.symbolic(x, y) else x / y


def item(values: Sequence[Any], at: int) -> Any:
    """One of several values."""
    return values[at]


def logical_not(x: Any) -> Any:
    """A logical not."""
    return not x if isinstance(x, bool) else ops.logical_not(operand(x, BOOL))


def select_size(condition: Any, x: Any, y: Any) -> Any:
    """A selection."""
    if isinstance(condition, bool):
        return x if condition else y
    return arithmetic.where(operand(condition, BOOL), x, y)


def power(x: Any, y: Any) -> Any:
    """A power of a size.

    Raises:
        Unknown: If the exponent is not a natural number.
    """
    if isinstance(x, Var) or isinstance(y, Var):
        return arithmetic.power(x, y)
    if not isinstance(x, Dim):
        return x**y
    if not isinstance(y, int) or y < 0:
        raise NotConstant
    return product([x] * y)


def as_float(x: Any) -> Any:
    """A conversion to float."""
    return operand(x, FLOAT64) if isinstance(x, Var | Dim) else float(x)


def truncate(x: Any) -> Any:
    """A truncation to an integer."""
    return x if isinstance(x, Dim) else operand(x, INT64) if isinstance(x, Var) else int(x)


def rounding_rule(op_type: str, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the rule of a rounding; sizes are integers already."""

    def rule(x: Any) -> Any:
        if isinstance(x, Var):
            return operand(arithmetic.rounding_rule(op_type)(x), INT64)
        return x if isinstance(x, Dim) else plain(x)

    return rule


def total(parts: Sequence[Any]) -> Any:
    """The sum of sizes."""
    return reduce(SIZING["python.add"], parts, 0)


def function(name: str) -> Callable[[Any], Any]:
    """Return the rule of a real function."""

    def rule(x: Any) -> Any:
        if not isinstance(x, Var | Dim):
            return getattr(math, name)(x)
        return ops.function_of(name)(operand(x, FLOAT64))

    return rule


def numel(x: Var) -> Size:
    """The number of elements."""
    return product(x.shape)


SIZING: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(
        ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "python._assert",
         "python.sym_constrain_range_for_size", "sym_constrain_range",
         "sym_constrain_range_for_size"), dropped_check,
    ),
    **{f"python.{name}": size_comparison_rule(sizes.TESTS[op_type], op_type)
       for name, op_type in names_in("torch", "comparison").items()},
    "python.add": size_arithmetic_rule(sizes.plus, arithmetic.add),
    "python.and_": logical_rule("logical_and"),
    "python.ceil": rounding_rule("ceil", math.ceil),
    "python.floor": rounding_rule("floor", math.floor),
    "python.floordiv": size_arithmetic_rule(quotient, arithmetic.floor_divide),
    "python.getitem": item,
    "python.mod": size_arithmetic_rule(sizes.modulo, arithmetic.remainder),
    "python.mul": size_arithmetic_rule(sizes.times, arithmetic.multiply),
    "python.neg": size_arithmetic_rule(sizes.negative, ops.negative),
    "python.or_": logical_rule("logical_or"),
    "python.pow": power,
    "python.round": rounding_rule("round", round),
    "python.sub": size_arithmetic_rule(sizes.minus, arithmetic.sub),
    "python.sym_float": as_float,
    "python.sym_int": truncate,
    "python.sym_ite": select_size,
    "python.sym_max": size_arithmetic_rule(sizes.largest, arithmetic.binary("maximum")),
    "python.sym_min": size_arithmetic_rule(sizes.smallest, arithmetic.binary("minimum")),
    "python.sym_not": logical_not,
    "python.sym_sqrt": function("sqrt"),
    "python._sym_sqrt": function("sqrt"),
    "python.sym_sum": total,
    "python.truediv": size_arithmetic_rule(ratio, arithmetic.div),
    "python.trunc": rounding_rule("trunc", math.trunc),
    "sym_numel": numel,
    "sym_size": of_size,
}  # fmt: skip
