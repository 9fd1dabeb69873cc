"""Functions of the bits of floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.constructs import custom_gradient
from braces.extend.types import DType, dtype_of


def bits_of(x: Var) -> tuple[Var, DType]:
    """Return the bits of floats as signed integers, and the dtype of these."""
    dtype = dtype_of(f"int{8 * x.dtype.itemsize}")
    return ops.bitcast(x, dtype=dtype), dtype


def next_after(x: Var, y: Var) -> Var:
    """Return the next float towards another one; its gradient is that of the float."""
    x, y = x + ops.zeros_like(y), y + ops.zeros_like(x)
    return _next_after(x, ops.stop_gradient(y))


@custom_gradient
def _next_after(x: Var, y: Var) -> tuple[Var, Callable[[Var], tuple[Var, Var]]]:
    bits, whole = bits_of(x)
    unit = np.asarray(1, whole)
    stepped = ops.where(ops.equal(y > x, x > 0), bits + unit, bits - unit)
    least = ops.where(y > 0, unit, np.asarray(np.iinfo(whole).min + 1, whole))
    chosen = cast_to_dtype(ops.where(ops.equal(x, 0), least, stepped), whole)
    known = ops.logical_or(ops.isnan(x), ops.isnan(y))
    value = ops.where(ops.equal(x, y), y, ops.bitcast(chosen, dtype=x.dtype))
    return ops.where(known, x + y, value), lambda grad: (grad, ops.zeros_like(grad))
