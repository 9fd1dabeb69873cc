"""What works number by number and means the same in several systems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braces.builder.var import Var
from braces.dtypes import BOOL, FLOAT32, DType, is_float, is_stored
from braces.frontend import functions as ops

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
    """What is left of a division, with the sign of what is divided."""
    return ops.sign(x) * ops.remainder(ops.abs(x), ops.abs(y))


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


def log10(x: Var) -> Var:
    """The logarithm to base 10."""
    return ops.log(as_float(x)) / math.log(10.0)


def area_sine(x: Var) -> Var:
    """The inverse of sinh: the sign of x times log(|x| + sqrt(x² + 1))."""
    size = ops.abs(x)
    return ops.sign(x) * ops.log1p(size + size * size / (1 + ops.sqrt(size * size + 1)))


def area_cosine(x: Var) -> Var:
    """The inverse of cosh: log(x + sqrt((x - 1) (x + 1)))."""
    return ops.log(x + ops.sqrt((x - 1) * (x + 1)))


def area_tangent(x: Var) -> Var:
    """The inverse of tanh: (log(1 + x) - log(1 - x)) / 2."""
    return 0.5 * (ops.log1p(x) - ops.log1p(-x))


# ---- activations -----------------------------------------------------------------------------


def elu(x: Var, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Var:
    """The identity, bent smoothly for negative numbers."""
    below = alpha * ops.expm1(ops.minimum(x, 0) * input_scale)
    return scale * ops.where(x > 0, x, below)


def celu(x: Var, alpha: float = 1.0) -> Var:
    """ELU whose slope is continuous."""
    return elu(x, alpha, 1.0, 1.0 / alpha)


def softplus(x: Var, beta: float = 1.0, threshold: float = 20.0) -> Var:
    """A smooth positive part, linear beyond a threshold."""
    wide = x * beta
    soft = ops.softplus(ops.minimum(wide, threshold)) / beta
    return ops.where(wide > threshold, x, soft)


def log_sigmoid(x: Var) -> Var:
    """The logarithm of the sigmoid."""
    return -ops.softplus(-x)


def thresholded(x: Var, alpha: float) -> Var:
    """Numbers above a threshold, else 0."""
    return ops.where(x > alpha, x, ops.zeros_like(x))


def shrink(x: Var, bound: float, bias: float) -> Var:
    """Numbers beyond a bound, moved towards zero; 0 between."""
    beyond = ops.where(x > bound, x - bias, ops.zeros_like(x))
    return ops.where(x < -bound, x + bias, beyond)
