"""Elementwise functions composed of several operators."""

from __future__ import annotations

import math
from typing import Any, cast

import ml_dtypes

from braces.builder.append import as_var
from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, is_float
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import to_common_float

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

# ---- one operand -----------------------------------------------------------------------------


@transactional
def log10(x: Operand) -> Var:
    """The logarithm to the base 10: log(x) / log(10); integers give float32."""
    return ops.log(x) / math.log(10.0)


@transactional
def deg2rad(x: Operand) -> Var:
    """Degrees as radians: x * pi / 180; integers give float32."""
    return ops.multiply(_floats("deg2rad", x), math.pi / 180.0)


@transactional
def rad2deg(x: Operand) -> Var:
    """Radians as degrees: x * 180 / pi; integers give float32."""
    return ops.multiply(_floats("rad2deg", x), 180.0 / math.pi)


def _floats(what: str, x: Operand) -> Var:
    (var,) = to_common_float(what, x=as_var(x))
    return var


@transactional
def sinc(x: Operand) -> Var:
    """The normalized sinc function: sin(pi * x) / (pi * x), and 1 at 0.

    Around 0 it is computed by its Taylor series, so that derivatives of all orders are correct.

    Args:
        x: real[*shape].

    Returns:
        float[*shape]; integers give float32.

    Raises:
        DTypeError: If the dtype is complex.
    """
    var = _floats("sinc", x)

    def build() -> Var:
        angle = ops.multiply(var, math.pi)
        near = ops.abs(angle) < 0.5
        square = ops.square(ops.where(near, angle, 0.0))
        series = ops.full_like(square, _SERIES[-1])
        for factor in reversed(_SERIES[:-1]):
            series = series * square + factor
        far = ops.where(near, 1.0, angle)
        return ops.where(near, series, ops.sin(far) / far)

    return compose_block("sinc", build)


_SERIES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8))


@transactional
def nan_to_num(
    x: Operand,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Var:
    """Replace NaN and infinities by numbers; replaced elements get no gradient.

    Args:
        x: real[*shape].
        nan: The value for NaN.
        posinf: The value for infinity; the largest number of the dtype by default.
        neginf: The value for minus infinity; the smallest by default.

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
    (var,) = to_common_float("nan_to_num", x=var)

    largest = float(cast("Any", ml_dtypes).finfo(var.dtype).max)

    def build() -> Var:
        out_var = ops.where(ops.isnan(var), nan, var)
        ends = ((math.inf, posinf, largest), (-math.inf, neginf, -largest))
        for end, replacement, limit in ends:
            out_var = ops.where(
                var == end, limit if replacement is None else replacement, out_var
            )
        return out_var

    return compose_block("nan_to_num", build)


@transactional
def signbit(x: Operand) -> Var:
    """Test the sign bit: True for negative numbers and -0.0; False for NaN.

    Args:
        x: real[*shape].

    Returns:
        bool[*shape].

    Raises:
        DTypeError: If the dtype is complex.
    """
    return _below(_floats("signbit", x))


def _below(x: Var) -> Var:
    """Return a mask of numbers that are negative or -0.0."""
    zero = x == 0.0
    return ops.where(zero, ops.reciprocal(ops.where(zero, x, 1.0)), x) < 0.0


# ---- several operands ------------------------------------------------------------------------


@transactional
def copysign(x: Operand, y: Operand) -> Var:
    """Magnitude of one number with the sign of another; the sign of NaN is plus.

        out = |x| where y is not negative, -|x| elsewhere; -0.0 is negative

    Args:
        x: real[*shape].
        y: real[*shape], broadcast against `x`. It gets no gradient.

    Returns:
        float, the common shape, in the promoted dtype; integers give float32.

    Raises:
        ShapeError: If the shapes do not broadcast.
        DTypeError: If the dtype is complex.
    """
    size, sign = to_common_float("copysign", x=as_var(x), y=as_var(y))

    def build() -> Var:
        magnitude = ops.abs(size)
        return ops.where(_below(sign), -magnitude, magnitude)

    return compose_block("copysign", build)


@transactional
def heaviside(x: Operand, y: Operand) -> Var:
    """Heaviside step function: 0 below zero, 1 above, `y` at zero; NaN stays NaN.

    Args:
        x: real[*shape]. It gets no gradient.
        y: real[*shape], broadcast against `x`: the value at zero.

    Returns:
        float, the common shape, in the promoted dtype; integers give float32.

    Raises:
        ShapeError: If the shapes do not broadcast.
        DTypeError: If the dtype is complex.
    """
    step, middle = to_common_float("heaviside", x=as_var(x), y=as_var(y))

    def build() -> Var:
        ends = ops.where(ops.isnan(step), step, ops.maximum(ops.sign(step), 0.0))
        return ops.where(step == 0.0, middle, ops.stop_gradient(ends))

    return compose_block("heaviside", build)


@transactional
def lerp(x: Operand, y: Operand, weight: Operand) -> Var:
    """Linear interpolation between two numbers.

        out = x + weight * (y - x)

    Args:
        x: number[*shape], the value at weight 0.
        y: number[*shape], the value at weight 1.
        weight: number; all three broadcast.

    Returns:
        number, the common shape, in the promoted dtype.

    Raises:
        ShapeError: If the shapes do not broadcast.
    """
    start = as_var(x)
    return start + ops.multiply(weight, ops.subtract(y, start))


@transactional
def isclose(
    x: Operand,
    y: Operand,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Var:
    """Test numbers for equality within tolerances.

        out = |x - y| <= atol + rtol * |y|; infinities are close to themselves

    Args:
        x: number[*shape].
        y: number[*shape], broadcast against `x`.
        rtol: The relative tolerance, multiplied by |y|.
        atol: The absolute tolerance.
        equal_nan: Whether NaN is close to NaN.

    Returns:
        bool, the common shape.

    Raises:
        ShapeError: If the shapes do not broadcast.
    """
    return compose_block("isclose", lambda: _close(as_var(x), as_var(y), rtol, atol, equal_nan))


@transactional
def allclose(
    x: Operand,
    y: Operand,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Var:
    """Test all numbers for equality within tolerances, as one bool; see `isclose`."""
    return compose_block(
        "allclose", lambda: ops.all(_close(as_var(x), as_var(y), rtol, atol, equal_nan))
    )


def _close(x: Var, y: Var, rtol: float, atol: float, equal_nan: bool) -> Var:
    x, y = (
        ops.cast(operand, "int64") if operand.dtype == BOOL else operand for operand in (x, y)
    )
    near = ops.abs(x - y) <= atol + rtol * ops.abs(y)
    is_close = ops.logical_or(ops.logical_and(near, ops.isfinite(y)), x == y)
    if not equal_nan:
        return is_close
    return ops.logical_or(is_close, ops.logical_and(ops.isnan(x), ops.isnan(y)))
