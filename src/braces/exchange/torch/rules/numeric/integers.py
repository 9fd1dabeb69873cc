"""Rules of common divisors and multiples, and of the bits of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from braces.exchange.common.rules import float_bits
from braces.exchange.torch.rules.tensor.arithmetic import as_variable, promoted_dtype
from braces.exchange.torch.rules.tensor.control import while_loop
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.types import INT32


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


def next_after(x: Any, y: Any) -> Var:
    """The next float towards another one; its gradient is that of the float."""
    dtype = promoted_dtype(x, y)
    x, y = (as_variable(v, dtype) for v in (x, y))
    return float_bits.next_after(x, y)


def split_float(x: Var) -> tuple[Var, Var]:
    """Mantissas from 0.5 to 1, and exponents of 2."""
    info = np.finfo(x.dtype)
    tiny = ops.abs(x) < float(info.tiny)
    scaled = ops.where(tiny, x * 2.0 ** (info.nmant + 1), x)
    bits, whole = float_bits.bits_of(ops.stop_gradient(scaled))
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
