"""What works number by number and means the same in several systems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braces.builder.var import Var
from braces.dtypes import BOOL, FLOAT32, DType, is_float, is_stored
from braces.frontend.core import functions as ops
from braces.ops.nn.activation import SELU_ALPHA, SELU_SCALE

# ---- dtypes ----------------------------------------------------------------------------------


def in_dtype(x: Var, dtype: DType) -> Var:
    """The same numbers in another dtype; as truth values, whether they are not zero."""
    if x.dtype == dtype:
        return x
    if dtype == BOOL and not is_stored(x.dtype):
        return ops.not_equal(x, ops.zeros_like(x))
    return ops.cast(x, dtype)


def as_float(x: Var) -> Var:
    """The numbers themselves, where they are floats, else as float32."""
    return x if is_float(x.dtype) else in_dtype(x, FLOAT32)


def scalar(x: Var) -> Var:
    """The one number of an array."""
    return ops.reshape(x, ()) if x.ndim else x


def number(x: Any, dtype: DType) -> Any:
    """A number beside variables, in their dtype."""
    return np.asarray(x).astype(dtype)


# ---- arithmetic ------------------------------------------------------------------------------


def scaled(x: Var, factor: float) -> Var:
    """A multiple, or the array itself where that is what it is."""
    if factor == 1.0:
        return x
    whole = not is_float(x.dtype) and float(factor).is_integer()
    return x * (int(factor) if whole else factor)


def whole_quotient(x: Var, y: Var) -> Var:
    """A quotient of integers, cut off towards zero."""
    below = ops.floor_divide(x, y)
    if x.dtype.kind == "u":
        return below
    up = ops.not_equal(below * y, x) & (below < 0)
    return below + ops.cast(up, below.dtype)


def remainder_towards_zero(x: Var, y: Var) -> Var:
    """The remainder of a division towards zero, which has the sign of the dividend.

    Its slope by `x` is 1 everywhere.
    """
    if not is_float(x.dtype):
        return x - whole_quotient(x, y) * y
    below = x < 0
    size = ops.remainder(ops.where(below, -x, x), ops.abs(y))
    return ops.where(below, -size, size)


def small_power(x: Var, exponent: Any) -> Var | None:
    """A power by what computes it at once, where there is such an operator."""
    if isinstance(exponent, Var) or exponent not in (1, 2, 0.5, -1):
        return None
    made = {1: ops.identity, 2: ops.square, 0.5: ops.sqrt, -1: ops.reciprocal}
    return made[exponent](x if exponent in (1, 2) else as_float(x))


def bitwise(word: str, x: Var, y: Var) -> Var:
    """An operator on bits, `and`, `or` or `xor`; on bools the one of truth values."""
    kind = "logical" if x.dtype == BOOL else "bitwise"
    return ops.function_of(f"{kind}_{word}")(x, y)


def inverted(x: Var) -> Var:
    """All bits the other way, or truth values."""
    return ops.logical_not(x) if x.dtype == BOOL else ops.bitwise_invert(x)


# ---- bounds ----------------------------------------------------------------------------------


def clamp(x: Var, low: Any, high: Any) -> Var:
    """Numbers brought between two bounds, of which each may be `None`.

    The slope is 1 at a bound. Bounds are numbers or variables. A variable receives the
    gradient of the numbers beyond it. Where the bounds cross, the upper one counts.
    """
    if not is_float(x.dtype):
        x = x if low is None else ops.maximum(x, low)
        return x if high is None else ops.minimum(x, high)
    if _are_ordered(low, high):
        return ops.clip(x, min=_as_float(low), max=_as_float(high))
    x = x if low is None else _bounded(x, x < low, low)
    return x if high is None else _bounded(x, x > high, high)


def _are_ordered(low: Any, high: Any) -> bool:
    """Whether both bounds are numbers, in order."""
    if isinstance(low, Var) or isinstance(high, Var):
        return False
    return bool((-math.inf if low is None else low) <= (math.inf if high is None else high))


def _as_float(bound: Any) -> float | None:
    return None if bound is None else float(bound)


def _bounded(x: Var, beyond: Var, bound: Any) -> Var:
    """Numbers, with a bound in the place of those beyond it; a bound that is NaN stays so."""
    unknown = isinstance(bound, Var)
    return ops.where(beyond | ops.isnan(bound) if unknown else beyond, bound, x)


def cut_off(x: Var, low: float, high: float) -> Var:
    """Numbers brought between two numbers; the slope is 0 at a bound, as beyond it."""
    if not is_float(x.dtype):
        return clamp(x, number(low, x.dtype), number(high, x.dtype))
    named = {(-1.0, 1.0): ops.hard_tanh, (0.0, 6.0): ops.relu6}.get((low, high))
    if named is not None:
        return named(x)
    return ops.where((x > low) & (x < high), x, ops.stop_gradient(clamp(x, low, high)))


# ---- activations -----------------------------------------------------------------------------


def elu(x: Var, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Var:
    """A multiple of the ELU of a multiple; positive numbers are not multiplied first."""
    if input_scale == 1.0 and _is_nearly(alpha, SELU_ALPHA) and _is_nearly(scale, SELU_SCALE):
        return ops.selu(x)
    bent = ops.elu(scaled(x, input_scale), alpha=float(alpha))
    return scaled(bent if input_scale == 1.0 else ops.where(x > 0, x, bent), scale)


def _is_nearly(value: float, wanted: float) -> bool:
    """Whether a number is another one, or what a file keeps of it in 32 bits."""
    return bool(np.float32(value) == np.float32(wanted))


def softplus(x: Var, beta: float = 1.0, threshold: float = 20.0) -> Var:
    """A smooth positive part, linear beyond a threshold."""
    x = as_float(x)
    wide = scaled(x, beta)
    soft = ops.softplus(wide)
    return ops.where(wide > threshold, x, soft if beta == 1.0 else soft / beta)


def swish(x: Var, beta: float) -> Var:
    """X sigmoid(beta x)."""
    return ops.silu(x) if beta == 1.0 else x * ops.sigmoid(x * beta)


def hard_sigmoid(x: Var, slope: float, offset: float) -> Var:
    """The line `slope x + offset` between 0 and 1; the slope is 0 where it meets them."""
    if _is_nearly(slope, 1 / 6) and offset == 0.5:
        return ops.hard_sigmoid(x)
    return cut_off(scaled(as_float(x), slope) + offset, 0.0, 1.0)


def thresholded(x: Var, alpha: float) -> Var:
    """Numbers above a threshold, else 0."""
    return ops.where(x > alpha, x, ops.zeros_like(x))
