"""Arithmetic of numbers and symbolic sizes, as models compute shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from braces.extend import dims
from braces.extend.operators import names_in
from braces.extend.types import Dim

T = TypeVar("T")
Number: TypeAlias = Any
"""A number of Python, or a size."""


class NotConstant(Exception):
    """A value that depends on the feeds of a run."""


def symbolic(*values: Number) -> bool:
    """Return whether one of these is a symbolic size."""
    return any(isinstance(value, Dim) for value in values)


def as_integer(x: Number) -> Number:
    """Convert a float without a fraction to an integer, for arithmetic with sizes.

    Raises:
        Unknown: If the value is not an integer.
    """
    if not isinstance(x, float):
        return x
    if not x.is_integer():
        raise NotConstant
    return int(x)


def plus(x: Number, y: Number) -> Number:
    """Return the sum."""
    return dims.sum_of((as_integer(x), as_integer(y))) if symbolic(x, y) else x + y


def times(x: Number, y: Number) -> Number:
    """Return the product."""
    return dims.product((as_integer(x), as_integer(y))) if symbolic(x, y) else x * y


def minus(x: Number, y: Number) -> Number:
    """Return the difference."""
    return plus(x, times(y, -1)) if symbolic(x, y) else x - y


def negative(x: Number) -> Number:
    """Return the negated value."""
    return times(x, -1)


def absolute(x: Number) -> Number:
    """Return the absolute value."""
    if not isinstance(x, Dim):
        return abs(x)
    if not dims.never_negative(x):
        raise NotConstant
    return x


def truncated_quotient(x: Number, y: Number) -> Number:
    """Return the quotient; that of integers is truncated towards zero."""
    if symbolic(x, y):
        x, y = as_integer(x), as_integer(y)
        if not dims.never_negative(x):
            raise NotConstant
        return dims.call("floordiv", x, y)
    if isinstance(x, float) or isinstance(y, float):
        return x / y
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def modulo(x: Number, y: Number) -> Number:
    """Return the remainder, with the sign of the divisor."""
    return dims.call("mod", x, y) if symbolic(x, y) else x % y


def largest(x: Number, y: Number) -> Number:
    """Return the maximum."""
    return dims.call("max", as_integer(x), as_integer(y)) if symbolic(x, y) else max(x, y)


def smallest(x: Number, y: Number) -> Number:
    """Return the minimum."""
    return dims.call("min", as_integer(x), as_integer(y)) if symbolic(x, y) else min(x, y)


def size_rounding(plain: Callable[[float], int]) -> Callable[[Number], Number]:
    """Apply a rounding to numbers; sizes are integers already."""
    return lambda x: x if isinstance(x, Dim) else float(plain(x))


down, up = size_rounding(math.floor), size_rounding(math.ceil)


def same(x: Number, y: Number) -> bool:
    """Return whether two values are equal, for all values of the sizes.

    Raises:
        Unknown: If the result depends on the sizes.
    """
    if not symbolic(x, y):
        return bool(x == y)
    low, high = _bounds(minus(x, y))
    if low == high == 0:
        return True
    if low > 0 or high < 0:
        return False
    raise NotConstant


def below(x: Number, y: Number) -> bool:
    """Return whether `x < y`, for all values of the sizes.

    Raises:
        Unknown: If the result depends on the sizes.
    """
    if not symbolic(x, y):
        return bool(x < y)
    low, high = _bounds(minus(x, y))
    if high < 0:
        return True
    if low >= 0:
        return False
    raise NotConstant


def _bounds(size: Number) -> tuple[float, float]:
    return size.bounds if isinstance(size, Dim) else (size, size)


def above(x: Number, y: Number) -> bool:
    """Return whether `x > y`."""
    return below(y, x)


def at_most(x: Number, y: Number) -> bool:
    """Return whether `x <= y`."""
    return not below(y, x)


def at_least(x: Number, y: Number) -> bool:
    """Return whether `x >= y`."""
    return not below(x, y)


def not_equal(x: Number, y: Number) -> bool:
    """Return whether `x != y`."""
    return not same(x, y)


def nonzero(x: Number) -> bool:
    """Return whether `x != 0`."""
    return not_equal(x, 0)


def logical_and(x: Number, y: Number) -> bool:
    """Return the logical and."""
    return bool(x and y)


def logical_or(x: Number, y: Number) -> bool:
    """Return the logical or."""
    return bool(x or y)


def logical_xor(x: Number, y: Number) -> bool:
    """Return the exclusive or."""
    return bool(x) != bool(y)


def logical_not(x: Number) -> bool:
    """Return the logical not."""
    return not x


ARITHMETIC: Mapping[str, Callable[..., Number]] = {
    "add": plus, "divide": truncated_quotient, "maximum": largest, "minimum": smallest,
    "multiply": times, "remainder": modulo, "subtract": minus,
}  # fmt: skip
"""Functions of numbers and sizes, by the operator of the same meaning."""
TESTS: Mapping[str, Callable[..., bool]] = {
    "equal": same, "greater": above, "greater_equal": at_least, "less": below,
    "less_equal": at_most, "logical_and": logical_and, "logical_not": logical_not,
    "logical_or": logical_or, "logical_xor": logical_xor, "not_equal": not_equal,
}  # fmt: skip
"""Tests of numbers and sizes, by the operator of the same meaning."""


def named(
    system: str, functions: Mapping[str, Callable[..., T]]
) -> dict[str, Callable[..., T]]:
    """Return functions of operators by the names of the operators in a system."""
    names = names_in(system)
    return {name: functions[names[name]] for name in names if names[name] in functions}
