"""Elementwise operations that mean the same in several systems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.operators import SELU_ALPHA, SELU_SCALE
from braces.extend.types import BOOL, FLOAT32, DType, is_float, is_stored

# ---- dtypes ----------------------------------------------------------------------------------


def cast_to_dtype(x: Var, dtype: DType) -> Var:
    """Cast to another dtype; a cast to bool tests for nonzero."""
    if x.dtype == dtype:
        return x
    if dtype == BOOL and not is_stored(x.dtype):
        return ops.not_equal(x, ops.zeros_like(x))
    return ops.cast(x, dtype)


def as_float(x: Var) -> Var:
    """Return floats unchanged, and other numbers as float32."""
    return x if is_float(x.dtype) else cast_to_dtype(x, FLOAT32)


def scalar(x: Var) -> Var:
    """Return the only element of an array, as a scalar."""
    return ops.reshape(x, ()) if x.ndim else x


def number(x: Any, dtype: DType) -> Any:
    """Return a number as a scalar of this dtype."""
    return np.asarray(x).astype(dtype)


# ---- arithmetic ------------------------------------------------------------------------------


def scale_by(x: Var, factor: float) -> Var:
    """Multiply by a factor; return the array itself for a factor of 1."""
    if factor == 1.0:
        return x
    integral = not is_float(x.dtype) and float(factor).is_integer()
    return x * (int(factor) if integral else factor)


def small_power(x: Var, exponent: Any) -> Var | None:
    """Return a power by a dedicated operator, if there is one for this exponent."""
    if isinstance(exponent, Var) or exponent not in (1, 2, 0.5, -1):
        return None
    functions = {1: ops.identity, 2: ops.square, 0.5: ops.sqrt, -1: ops.reciprocal}
    return functions[exponent](x if exponent in (1, 2) else as_float(x))


def bitwise(op_type: str, x: Var, y: Var) -> Var:
    """Apply a bitwise operator to integers, or the logical one to bools."""
    chosen = op_type.replace("bitwise", "logical") if x.dtype == BOOL else op_type
    return ops.function_of(chosen)(x, y)


def invert_bits(x: Var) -> Var:
    """Invert all bits, or truth values."""
    return ops.logical_not(x) if x.dtype == BOOL else ops.bitwise_invert(x)


# ---- bounds ----------------------------------------------------------------------------------


def clamp(x: Var, low: Any, high: Any) -> Var:
    """Clamp numbers to two bounds, each of which may be `None`.

    The derivative is 1 at a bound. Bounds are numbers or variables. A variable receives the
    gradient of the numbers beyond it. Where the bounds cross, the upper one counts.
    """
    if not is_float(x.dtype):
        x = x if low is None else ops.maximum(x, low)
        return x if high is None else ops.minimum(x, high)
    if _are_ordered(low, high):
        return ops.clip(x, min=_as_float(low), max=_as_float(high))
    x = x if low is None else _replace_beyond(x, x < low, low)
    return x if high is None else _replace_beyond(x, x > high, high)


def _are_ordered(low: Any, high: Any) -> bool:
    """Return whether both bounds are numbers, in order."""
    if isinstance(low, Var) or isinstance(high, Var):
        return False
    return bool((-math.inf if low is None else low) <= (math.inf if high is None else high))


def _as_float(bound: Any) -> float | None:
    return None if bound is None else float(bound)


def _replace_beyond(x: Var, beyond: Var, bound: Any) -> Var:
    """Replace the numbers beyond a bound by the bound; NaN bounds propagate."""
    unknown = isinstance(bound, Var)
    return ops.where(beyond | ops.isnan(bound) if unknown else beyond, bound, x)


def clamp_zero_slope(x: Var, low: float, high: float) -> Var:
    """Clamp numbers to two constants; the derivative is 0 at a bound, as beyond it."""
    if not is_float(x.dtype):
        return clamp(x, number(low, x.dtype), number(high, x.dtype))
    named = {(-1.0, 1.0): ops.hard_tanh, (0.0, 6.0): ops.relu6}.get((low, high))
    if named is not None:
        return named(x)
    return ops.where((x > low) & (x < high), x, ops.stop_gradient(clamp(x, low, high)))


# ---- activations -----------------------------------------------------------------------------


def elu(x: Var, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Var:
    """Return a scaled ELU of a scaled input; positive numbers skip the input scale."""
    if input_scale == 1.0 and _is_nearly(alpha, SELU_ALPHA) and _is_nearly(scale, SELU_SCALE):
        return ops.selu(x)
    activated = ops.elu(scale_by(x, input_scale), alpha=float(alpha))
    return scale_by(activated if input_scale == 1.0 else ops.where(x > 0, x, activated), scale)


def _is_nearly(value: float, reference: float) -> bool:
    """Return whether two numbers are equal in float32 precision."""
    return bool(np.float32(value) == np.float32(reference))


def softplus(x: Var, beta: float = 1.0, threshold: float = 20.0) -> Var:
    """Return the softplus, linear beyond a threshold."""
    x = as_float(x)
    wide = scale_by(x, beta)
    soft = ops.softplus(wide)
    return ops.where(wide > threshold, x, soft if beta == 1.0 else soft / beta)


def swish(x: Var, beta: float) -> Var:
    """Return `x * sigmoid(beta * x)`."""
    return ops.silu(x) if beta == 1.0 else x * ops.sigmoid(x * beta)


def hard_sigmoid(x: Var, slope: float, offset: float) -> Var:
    """Clamp the line `slope x + offset` to [0, 1]; the derivative is 0 at the bounds."""
    if _is_nearly(slope, 1 / 6) and offset == 0.5:
        return ops.hard_sigmoid(x)
    return clamp_zero_slope(scale_by(as_float(x), slope) + offset, 0.0, 1.0)


def thresholded_relu(x: Var, alpha: float) -> Var:
    """Return numbers above a threshold, and 0 for the others."""
    return ops.where(x > alpha, x, ops.zeros_like(x))
