"""Rules of common divisors and multiples, and of the bits of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.torch.rules.tensor.arithmetic import as_variable, promoted_dtype
from braces.exchange.torch.rules.tensor.control import while_loop
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.constructs import custom_gradient
from braces.extend.types import INT32, DType, dtype_of


def greatest_divisor(x: Any, y: Any) -> Var:
    """The greatest common divisor, by Euclid's algorithm."""
    dtype = promoted_dtype(x, y)
    x, y = (ops.abs(as_variable(v, dtype)) for v in (x, y))
    x, y = x + ops.zeros_like(y), y + ops.zeros_like(x)

    def going(_: Var, rest: Var) -> list[Var]:
        return [ops.any(ops.not_equal(rest, 0))]

    def step(divisor: Var, rest: Var) -> list[Var]:
        ended = ops.equal(rest, 0)
        remainder = divisor % ops.where(ended, ops.ones_like(rest), rest)
        return [ops.where(ended, divisor, rest), ops.where(ended, rest, remainder)]

    return while_loop(going, step, [x, y])[0]


def least_multiple(x: Any, y: Any) -> Var:
    """The least common multiple; 0 if a number is 0."""
    dtype = promoted_dtype(x, y)
    x, y = (as_variable(v, dtype) for v in (x, y))
    divisor = ops.maximum(greatest_divisor(x, y), 1)
    return ops.abs(x // divisor * y)


# ---- bits of floats --------------------------------------------------------------------------


def _bits(x: Var) -> tuple[Var, DType]:
    """Return the bits of floats as signed integers, and the dtype of these."""
    dtype = dtype_of(f"int{8 * x.dtype.itemsize}")
    return ops.bitcast(x, dtype=dtype), dtype


def next_after(x: Any, y: Any) -> Var:
    """The next float towards another one; its gradient is that of the float."""
    dtype = promoted_dtype(x, y)
    x, y = (as_variable(v, dtype) for v in (x, y))
    return _next_after(x + ops.zeros_like(y), ops.stop_gradient(y + ops.zeros_like(x)))


@custom_gradient
def _next_after(x: Var, y: Var) -> tuple[Var, Callable[[Var], tuple[Var, Var]]]:
    bits, whole = _bits(x)
    unit = np.asarray(1, whole)
    stepped = ops.where(ops.equal(y > x, x > 0), bits + unit, bits - unit)
    least = ops.where(y > 0, unit, np.asarray(np.iinfo(whole).min + 1, whole))
    chosen = cast_to_dtype(ops.where(ops.equal(x, 0), least, stepped), whole)
    known = ops.logical_or(ops.isnan(x), ops.isnan(y))
    value = ops.where(ops.equal(x, y), y, ops.bitcast(chosen, dtype=x.dtype))
    return ops.where(known, x + y, value), lambda grad: (grad, ops.zeros_like(grad))


def split_float(x: Var) -> tuple[Var, Var]:
    """Mantissas from 0.5 to 1, and exponents of 2."""
    info = np.finfo(x.dtype)
    tiny = ops.abs(x) < float(info.tiny)
    scaled = ops.where(tiny, x * 2.0 ** (info.nmant + 1), x)
    bits, whole = _bits(ops.stop_gradient(scaled))
    ones = np.asarray((1 << info.iexp) - 1, whole)
    shift = np.asarray(info.nmant, whole)
    biased = ops.bitwise_and(ops.bitwise_right_shift(bits, shift), ones)
    exponent = ops.cast(biased, INT32) - (2 ** (info.iexp - 1) - 2)
    exponent = ops.where(tiny, exponent - (info.nmant + 1), exponent)
    plain = ops.isfinite(x) & ops.not_equal(x, 0)
    exponent = ops.where(plain, exponent, 0)
    half = ops.where(tiny, 2.0 ** (info.nmant + 1), 1.0)
    place = ops.bitwise_left_shift(biased, shift)
    power = ops.bitcast(ops.where(plain, place, ops.zeros_like(place)), dtype=x.dtype)
    mantissa = x * half / ops.where(plain, power, 1.0) * 0.5
    return ops.where(plain, mantissa, x), exponent


INTEGERS: Mapping[str, Callable[..., Any]] = {
    "frexp": split_float,
    "gcd": greatest_divisor,
    "lcm": least_multiple,
    "nextafter": next_after,
}
