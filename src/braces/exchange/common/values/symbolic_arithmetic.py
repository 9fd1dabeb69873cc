"""Arithmetic of numbers and symbolic sizes, as models compute shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from braces import dims
from braces.dims import Dim

Number: TypeAlias = Any
"""A number of Python, or a size."""


class Unknown(Exception):
    """A value that follows from what a run is fed."""


def symbolic(*values: Number) -> bool:
    """Whether one of these is a size."""
    return any(isinstance(value, Dim) for value in values)


def whole(x: Number) -> Number:
    """A float that is an integer as one, beside sizes.

    Raises:
        Unknown: It is no integer.
    """
    if not isinstance(x, float):
        return x
    if not x.is_integer():
        raise Unknown
    return int(x)


def plus(x: Number, y: Number) -> Number:
    """A sum."""
    return dims.sum_of((whole(x), whole(y))) if symbolic(x, y) else x + y


def times(x: Number, y: Number) -> Number:
    """A product."""
    return dims.product((whole(x), whole(y))) if symbolic(x, y) else x * y


def minus(x: Number, y: Number) -> Number:
    """A difference."""
    return plus(x, times(y, -1)) if symbolic(x, y) else x - y


def negative(x: Number) -> Number:
    """The opposite."""
    return times(x, -1)


def absolute(x: Number) -> Number:
    """How far it is from zero."""
    if not isinstance(x, Dim):
        return abs(x)
    if not dims.never_negative(x):
        raise Unknown
    return x


def over(x: Number, y: Number) -> Number:
    """A quotient; that of integers is cut off towards zero."""
    if symbolic(x, y):
        x, y = whole(x), whole(y)
        if not dims.never_negative(x):
            raise Unknown
        return dims.call("floordiv", x, y)
    if isinstance(x, float) or isinstance(y, float):
        return x / y
    cut = abs(x) // abs(y)
    return cut if (x < 0) == (y < 0) else -cut


def rest(x: Number, y: Number) -> Number:
    """What is left of a division, with the sign of the divisor."""
    return dims.call("mod", x, y) if symbolic(x, y) else x % y


def largest(x: Number, y: Number) -> Number:
    """The larger one."""
    return dims.call("max", whole(x), whole(y)) if symbolic(x, y) else max(x, y)


def smallest(x: Number, y: Number) -> Number:
    """The smaller one."""
    return dims.call("min", whole(x), whole(y)) if symbolic(x, y) else min(x, y)


def rounded(plain: Callable[[float], int]) -> Callable[[Number], Number]:
    """A rounding of numbers; a size is whole."""
    return lambda x: x if isinstance(x, Dim) else float(plain(x))


down, up = rounded(math.floor), rounded(math.ceil)


def same(x: Number, y: Number) -> bool:
    """Whether two are equal, for all values of the sizes.

    Raises:
        Unknown: That depends on the sizes.
    """
    if not symbolic(x, y):
        return bool(x == y)
    low, high = _bounds(minus(x, y))
    if low == high == 0:
        return True
    if low > 0 or high < 0:
        return False
    raise Unknown


def below(x: Number, y: Number) -> bool:
    """Whether one is less than another, for all values of the sizes.

    Raises:
        Unknown: That depends on the sizes.
    """
    if not symbolic(x, y):
        return bool(x < y)
    low, high = _bounds(minus(x, y))
    if high < 0:
        return True
    if low >= 0:
        return False
    raise Unknown


def _bounds(size: Number) -> tuple[float, float]:
    return size.bounds if isinstance(size, Dim) else (size, size)


def above(x: Number, y: Number) -> bool:
    """Whether one is more than another."""
    return below(y, x)


def at_most(x: Number, y: Number) -> bool:
    """Whether one is another or less."""
    return not below(y, x)


def at_least(x: Number, y: Number) -> bool:
    """Whether one is another or more."""
    return not below(x, y)


def nonzero(x: Number) -> bool:
    """Whether it is another number than zero."""
    return not same(x, 0)


def both(x: Number, y: Number) -> bool:
    """Whether both are true."""
    return bool(x and y)


def either(x: Number, y: Number) -> bool:
    """Whether one of them is true."""
    return bool(x or y)


def one_only(x: Number, y: Number) -> bool:
    """Whether just one of them is true."""
    return bool(x) != bool(y)


def untrue(x: Number) -> bool:
    """Whether it is false."""
    return not x
