"""Sequences along an axis: differences, integrals, convolution, polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, FLOAT64, is_float
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.public_names import arange
from braces.frontend.core.variables import constant
from braces.frontend.losses.reduction import (
    broadcast_along,
    check_one_of,
    format_types,
    to_common_float,
)
from braces.ops.common.rules import axis_index, promote

__all__ = [
    "central_difference",
    "convolve",
    "correlate",
    "diff",
    "polyval",
    "trapezoid",
    "unwrap",
    "vander",
]

MODES = ("full", "same", "valid")
"""Modes of `convolve` and `correlate`: the extent of the result."""

# ---- differences -----------------------------------------------------------------------------


@transactional
def diff(
    x: Operand,
    n: int = 1,
    axis: int = -1,
    prepend: Operand | None = None,
    append: Operand | None = None,
) -> Var:
    """Differences of neighbors along one axis.

        out[..., i, ...] = x[..., i + 1, ...] - x[..., i, ...]

    Args:
        x: any[*shape]; for bools, the result is True where neighbors differ.
        n: The order of the difference.
        axis: The axis; negative counts from the end.
        prepend: An array to concatenate before `x` along the axis, with as many axes.
        append: An array to concatenate after it.

    Returns:
        As `x`, with `n` less along the axis.

    Raises:
        ShapeError: If the axis is out of range, or the concatenated shapes do not match.
        ProgramError: If `n` is negative.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     steps = br.signal.diff(br.constant([1.0, 4.0, 9.0]))
        >>> br.Executor().run(prog, br.Scope(), fetch=steps).tolist()
        [3.0, 5.0]
    """
    var = as_var(x)
    at = axis_index(axis, var.ndim, "diff")
    if n < 0:
        raise ProgramError(f"diff: expected a non-negative order, got {n}.")
    parts = [as_var(part) for part in (prepend, var, append) if part is not None]
    out_var = var if len(parts) == 1 else ops.concat(parts, axis=at)
    for _ in range(n):
        out_var = _subtract_neighbors(out_var, at)
    return out_var


def _subtract_neighbors(x: Var, axis: int) -> Var:
    later, earlier = _slice(x, axis, slice(1, None)), _slice(x, axis, slice(None, -1))
    return (ops.not_equal if x.dtype == BOOL else ops.subtract)(later, earlier)


def _at_end(x: Var, axis: int, end: int) -> Var:
    """Return a mask of the first or last index of an axis; it broadcasts against the array."""
    size = x.shape[axis]
    return broadcast_along(
        arange(size) == (0 if end == 0 else ops.size(size) - 1), axis, x.ndim
    )


def _slice(x: Var, axis: int, part: slice) -> Var:
    return x[(slice(None),) * axis + (part,)]


@transactional
def central_difference(x: Operand, spacing: float = 1.0, axis: int = -1) -> Var:
    """Numerical derivative of equally spaced samples by central differences: `numpy.gradient`.

        out[i] = (x[i + 1] - x[i - 1]) / (2 * spacing), and a one-sided difference at the ends

    For the gradients of a program see `br.gradients`.

    Args:
        x: real[*shape].
        spacing: The distance between points.
        axis: The axis; negative counts from the end.

    Returns:
        float[*shape]; integers give float32.

    Raises:
        ShapeError: If the axis is out of range, or it has fewer than two points.
        DTypeError: If the dtype is complex.
    """
    (var,) = to_common_float("central_difference", x=as_var(x))
    at = axis_index(axis, var.ndim, "central_difference")
    if var.shape[at] in (0, 1):
        raise ShapeError(
            "central_difference: expected at least two points.", given=format_types({"x": var})
        )

    def build() -> Var:
        after, before = (ops.roll(var, by, axis=at) for by in (-1, 1))
        first, last = (_at_end(var, at, end) for end in (0, -1))
        slopes = ops.where(last, var - before, (after - before) / 2.0)
        return ops.where(first, after - var, slopes) / spacing

    return compose_block("central_difference", build)


@transactional
def trapezoid(y: Operand, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Var:
    """Integrate along one axis by the trapezoidal rule.

        out = sum_i (x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2

    Args:
        y: real[*shape].
        x: real[n], or of the shape of `y`: the positions of the points.
        dx: The distance between points, if `x` is not given.
        axis: The axis; negative counts from the end.

    Returns:
        float[*rest]; integers give float32.

    Raises:
        ShapeError: If the axis is out of range, or the numbers of points differ.
        DTypeError: If the dtype is complex.
    """
    height, *places = to_common_float(
        "trapezoid", y=as_var(y), **({} if x is None else {"x": as_var(x)})
    )
    at = axis_index(axis, height.ndim, "trapezoid")

    def build() -> Var:
        means = (_slice(height, at, slice(1, None)) + _slice(height, at, slice(None, -1))) / 2.0
        if not places:
            return ops.sum(means, axis=at) * dx
        wide = _subtract_neighbors(places[0], at if places[0].ndim > 1 else 0)
        if wide.ndim == 1:
            wide = broadcast_along(wide, at, height.ndim)
        return ops.sum(means * wide, axis=at)

    return compose_block("trapezoid", build)


@transactional
def unwrap(
    x: Operand, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Var:
    """Unwrap angles: add periods so that neighbors differ by at most half a period.

    Args:
        x: real[*shape].
        discont: The smallest jump to remove; half a period by default and at least.
        axis: The axis; negative counts from the end.
        period: The period of the angles.

    Returns:
        float[*shape]; integers give float32. The added periods have no gradient.

    Raises:
        ShapeError: If the axis is out of range.
        DTypeError: If the dtype is complex.
    """
    (var,) = to_common_float("unwrap", x=as_var(x))
    at = axis_index(axis, var.ndim, "unwrap")
    least = max(period / 2 if discont is None else discont, period / 2)

    def build() -> Var:
        jumps = ops.stop_gradient(var - ops.roll(var, 1, axis=at))
        jumps = ops.where(_at_end(var, at, 0), 0.0, jumps)
        within = ops.remainder(jumps + period / 2, period) - period / 2
        upwards = ops.logical_and(within == -period / 2, jumps > 0.0)
        corrections = ops.where(upwards, period / 2, within) - jumps
        corrections = ops.where(ops.abs(jumps) < least, 0.0, corrections)
        return var + ops.cumsum(corrections, axis=at)

    return compose_block("unwrap", build)


# ---- filters ---------------------------------------------------------------------------------


@transactional
def convolve(x: Operand, y: Operand, mode: str = "full") -> Var:
    """The convolution of two sequences.

        out[i] = sum_k x[i - k] * y[k], over all valid indices of both

    Args:
        x: number[n].
        y: number[m]; at least one of the sizes is fixed.
        mode: `"full"`: all n + m - 1 positions with an overlap. `"same"`: the middle ones, as
            many as in the longer sequence. `"valid"`: positions with complete overlap.

    Returns:
        number, in the promoted dtype; integers are exact up to 2^53.

    Raises:
        ShapeError: If the operands are not vectors, are empty, or both have symbolic sizes.
        ProgramError: If the mode is unknown.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     out = br.signal.convolve(br.constant([1.0, 2.0, 3.0]), br.constant([1.0, 1.0]))
        >>> br.Executor().run(prog, br.Scope(), fetch=out).tolist()
        [1.0, 3.0, 5.0, 3.0]
    """
    long, short, count = _order_by_length("convolve", as_var(x), as_var(y), mode)
    return _correlate(long, ops.flip(short, axis=0), _padding(mode, count))


@transactional
def correlate(x: Operand, y: Operand, mode: str = "valid") -> Var:
    """The cross-correlation of two sequences.

        out[i] = sum_k x[i + k] * y[k], over all valid indices of both

    Args:
        x: number[n].
        y: number[m], of a fixed size, not longer than `x`. A complex `y` is conjugated.
        mode: As for `convolve`.

    Returns:
        number, in the promoted dtype.

    Raises:
        ShapeError: If the operands are not vectors, are empty, or `y` is longer.
        ProgramError: If the mode is unknown.
    """
    long, short = as_var(x), as_var(y)
    longer, _, count = _order_by_length("correlate", long, short, mode)
    if longer is not long:
        raise ShapeError(
            "correlate: expected a second sequence of constant size, no longer than the first.",
            given=format_types({"x": long, "y": short}),
            fix="Swap the sequences: the result is reversed.",
        )
    kernel = ops.conj(short) if short.dtype.kind == "c" else short
    return _correlate(long, kernel, _padding(mode, count))


def _padding(mode: str, count: int) -> tuple[int, int]:
    """Return the padding before and after a sequence for a kernel of `count` elements."""
    if mode == "valid":
        return 0, 0
    return (count - 1, count - 1) if mode == "full" else (count // 2, (count - 1) // 2)


def _order_by_length(what: str, x: Var, y: Var, mode: str) -> tuple[Var, Var, int]:
    """Return the longer sequence, the shorter one, and the size of the shorter one."""
    check_one_of(what, "mode", mode, MODES)
    types = format_types({"x": x, "y": y})
    if x.ndim != 1 or y.ndim != 1 or 0 in (*x.shape, *y.shape):
        raise ShapeError(f"{what}: expected two vectors that are not empty.", given=types)
    if isinstance(x.shape[0], int):
        swapped = not isinstance(y.shape[0], int) or y.shape[0] > x.shape[0]
        x, y = (y, x) if swapped else (x, y)
    count = y.shape[0]
    if not isinstance(count, int):
        raise ShapeError(
            f"{what}: expected a sequence of constant size.",
            given=types,
            fix="For two of symbolic size, multiply br.fft.rfft of both.",
        )
    return x, y, count


def _correlate(x: Var, y: Var, padding: tuple[int, int]) -> Var:
    """Correlate two sequences with a one-dimensional convolution operator."""
    dtype = promote(x.dtype, y.dtype)
    wide = dtype if is_float(dtype) else FLOAT64
    x, y = (ops.reshape(ops.cast(part, wide), (1, 1, part.shape[0])) for part in (x, y))
    out = emit("conv1d", x, y, padding=padding)[0, 0]
    return out if wide == dtype else ops.cast(out, dtype)


# ---- powers ----------------------------------------------------------------------------------


@transactional
def vander(x: Operand, n: int | None = None, increasing: bool = False) -> Var:
    """Vandermonde matrix: the powers of each number in a row.

        out[i, j] = x[i] ** (n - 1 - j), or x[i] ** j if increasing

    Args:
        x: number[m].
        n: The number of powers; m by default.
        increasing: Whether the powers increase.

    Returns:
        number[m, n].

    Raises:
        ShapeError: If `x` is not a vector, or its size is symbolic and `n` is missing.
    """
    var = as_var(x)
    count = var.shape[0] if n is None and var.ndim == 1 else n
    if var.ndim != 1 or not isinstance(count, int):
        raise ShapeError(
            "vander: expected a vector, and n= if its size is symbolic.",
            given=format_types({"x": var}),
        )
    powers = list(range(count) if increasing else reversed(range(count)))
    return ops.pow(ops.expand_dims(var, axis=1), constant(powers, "int64"))


@transactional
def polyval(coefficients: Operand | Sequence[float], x: Operand) -> Var:
    """Evaluate a polynomial by Horner's rule, the highest power first.

        out[i] = sum_k coefficients[k] * x[i] ** (n - 1 - k)

    Args:
        coefficients: number[n], of a fixed size; or numbers and variables in a list.
        x: number[*shape].

    Returns:
        number[*shape], in the promoted dtype.

    Raises:
        ShapeError: If the coefficients are not a vector, or have a symbolic size.
    """
    x_var = as_var(x)
    factors = as_var(coefficients, x_var.dtype)
    if factors.ndim != 1 or not isinstance(factors.shape[0], int):
        raise ShapeError(
            "polyval: expected a vector of coefficients of constant size.",
            given=format_types({"coefficients": factors}),
        )

    def build() -> Var:
        total = ops.zeros_like(x_var)
        for factor in ops.unstack(factors):
            total = total * x_var + factor
        return total

    return compose_block("polyval", build)
