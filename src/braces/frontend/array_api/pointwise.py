"""Functions of numbers, each on its own, that are made of others."""

from __future__ import annotations

import math
from typing import Any, cast

import ml_dtypes

from braces.builder.append import as_var
from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, is_float
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.losses.reduction import in_floats

__all__ = [
    "allclose",
    "copysign",
    "deg2rad",
    "heaviside",
    "isclose",
    "lerp",
    "log10",
    "nan_to_num",
    "rad2deg",
    "signbit",
    "sinc",
]

# ---- of one number ---------------------------------------------------------------------------


@building
def log10(x: Operand) -> Var:
    """The logarithm to the base 10: log(x) / log(10); integers give float32."""
    return ops.log(x) / math.log(10.0)


@building
def deg2rad(x: Operand) -> Var:
    """Degrees as radians: x * pi / 180; integers give float32."""
    return ops.multiply(_floats("deg2rad", x), math.pi / 180.0)


@building
def rad2deg(x: Operand) -> Var:
    """Radians as degrees: x * 180 / pi; integers give float32."""
    return ops.multiply(_floats("rad2deg", x), 180.0 / math.pi)


def _floats(what: str, x: Operand) -> Var:
    (var,) = in_floats(what, x=as_var(x))
    return var


@building
def sinc(x: Operand) -> Var:
    """The sine beside its angle: sin(pi * x) / (pi * x), and 1 at 0.

    Around 0 it is computed by its series, so that slopes of all orders are there.

    Args:
        x: real[*shape].

    Returns:
        float[*shape]; integers give float32.

    Raises:
        DTypeError: Complex numbers.
    """
    var = _floats("sinc", x)

    def built() -> Var:
        angle = ops.multiply(var, math.pi)
        near = ops.abs(angle) < 0.5
        square = ops.square(ops.where(near, angle, 0.0))
        series = ops.full_like(square, _SERIES[-1])
        for factor in reversed(_SERIES[:-1]):
            series = series * square + factor
        far = ops.where(near, 1.0, angle)
        return ops.where(near, series, ops.sin(far) / far)

    return composed("sinc", built)


_SERIES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8))


@building
def nan_to_num(
    x: Operand,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Var:
    """Numbers with others in the place of NaN and infinities; these get no gradient.

    Args:
        x: real[*shape].
        nan: What stands for NaN.
        posinf: What stands for infinity; the largest number of the dtype by default.
        neginf: What stands for minus infinity; the smallest by default.

    Returns:
        As `x`; integers stay as they are.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     out = br.nan_to_num(br.constant([br.nan, 1.0, br.inf]), posinf=9.0)
        >>> br.Executor().run(prog, br.Scope(), fetch=out).tolist()
        [0.0, 1.0, 9.0]
    """
    var = as_var(x)
    if not is_float(var.dtype):
        return var
    (var,) = in_floats("nan_to_num", x=var)

    largest = float(cast("Any", ml_dtypes).finfo(var.dtype).max)

    def built() -> Var:
        found = ops.where(ops.isnan(var), nan, var)
        ends = ((math.inf, posinf, largest), (-math.inf, neginf, -largest))
        for end, given, last in ends:
            found = ops.where(var == end, last if given is None else given, found)
        return found

    return composed("nan_to_num", built)


@building
def signbit(x: Operand) -> Var:
    """Whether numbers are negative, -0.0 among them; NaN is not.

    Args:
        x: real[*shape].

    Returns:
        bool[*shape].

    Raises:
        DTypeError: Complex numbers.
    """
    return _below(_floats("signbit", x))


def _below(x: Var) -> Var:
    """Where a number is less than zero, or the zero that is below it."""
    zero = x == 0.0
    return ops.where(zero, ops.reciprocal(ops.where(zero, x, 1.0)), x) < 0.0


# ---- of several ------------------------------------------------------------------------------


@building
def copysign(x: Operand, y: Operand) -> Var:
    """The size of one number with the sign of another; that of NaN is plus.

        out = |x| where y is not negative, -|x| elsewhere; -0.0 is negative

    Args:
        x: real[*shape].
        y: real[*shape], broadcast against `x`. It gets no gradient.

    Returns:
        float, the common shape, in the promoted dtype; integers give float32.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Complex numbers.
    """
    size, sign = in_floats("copysign", x=as_var(x), y=as_var(y))

    def built() -> Var:
        found = ops.abs(size)
        return ops.where(_below(sign), -found, found)

    return composed("copysign", built)


@building
def heaviside(x: Operand, y: Operand) -> Var:
    """Heaviside's step: 0 below zero, 1 above, and what is said at zero; NaN stays NaN.

    Args:
        x: real[*shape]. It gets no gradient.
        y: real[*shape], broadcast against `x`: what there is at zero.

    Returns:
        float, the common shape, in the promoted dtype; integers give float32.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Complex numbers.
    """
    step, middle = in_floats("heaviside", x=as_var(x), y=as_var(y))

    def built() -> Var:
        ends = ops.where(ops.isnan(step), step, ops.maximum(ops.sign(step), 0.0))
        return ops.where(step == 0.0, middle, ops.stop_gradient(ends))

    return composed("heaviside", built)


@building
def lerp(x: Operand, y: Operand, weight: Operand) -> Var:
    """Numbers on the line from one to another.

        out = x + weight * (y - x)

    Args:
        x: number[*shape]: where the line begins.
        y: number[*shape]: where it ends.
        weight: number: how far along; all three broadcast.

    Returns:
        number, the common shape, in the promoted dtype.

    Raises:
        ShapeError: The shapes do not broadcast.
    """
    start = as_var(x)
    return start + ops.multiply(weight, ops.subtract(y, start))


@building
def isclose(
    x: Operand,
    y: Operand,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Var:
    """Whether numbers are equal up to an error.

        out = |x - y| <= atol + rtol * |y|; infinities are close to themselves

    Args:
        x: number[*shape].
        y: number[*shape], broadcast against `x`.
        rtol: The error beside `y`.
        atol: The error that is added.
        equal_nan: Whether NaN is close to NaN.

    Returns:
        bool, the common shape.

    Raises:
        ShapeError: The shapes do not broadcast.
    """
    return composed("isclose", lambda: _close(as_var(x), as_var(y), rtol, atol, equal_nan))


@building
def allclose(
    x: Operand,
    y: Operand,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Var:
    """Whether all numbers are equal up to an error, as one bool; see `isclose`."""
    return composed(
        "allclose", lambda: ops.all(_close(as_var(x), as_var(y), rtol, atol, equal_nan))
    )


def _close(x: Var, y: Var, rtol: float, atol: float, equal_nan: bool) -> Var:
    x, y = (ops.cast(one, "int64") if one.dtype == BOOL else one for one in (x, y))
    near = ops.abs(x - y) <= atol + rtol * ops.abs(y)
    found = ops.logical_or(ops.logical_and(near, ops.isfinite(y)), x == y)
    if not equal_nan:
        return found
    return ops.logical_or(found, ops.logical_and(ops.isnan(x), ops.isnan(y)))
