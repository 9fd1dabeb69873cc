"""Casts to narrow dtypes, of one byte or less.

In kernels, values of less than 8 bits are stored in an array of their carrier dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes

from braces.dtypes import FLOAT32, NARROW, SHORT_NAMES, DType, carrier_of, is_float, is_narrow
from braces.lazy import jnp

ONE_ZERO = frozenset(SHORT_NAMES[name] for name in ("f8e4m3fnuz", "f8e5m2fnuz"))
"""Float dtypes without negative zero; its bit pattern is NaN."""

FOUR_BITS = NARROW["f4e2m1fn"]
LARGEST = 6.0
"""The largest 4-bit float; the smaller ones are 0, 0.5, 1, 1.5, 2, 3 and 4."""
LIMITS: Callable[[DType], Any] = ml_dtypes.iinfo


def _wrap_integers(x: Any, limits: Any) -> Any:
    """Truncate numbers towards zero and keep the low-order bits; NaN gives 0."""
    if is_float(x.dtype):
        wide = x.astype(jnp.float64)
        x = jnp.where(jnp.abs(wide) < 2.0**31, wide, 0.0)  # also false for NaN
    x, count = x.astype(jnp.int64), limits.max - limits.min + 1
    return jnp.remainder(x - limits.min, count) + limits.min


def _round_to_f4(x: Any) -> Any:
    """Round to the nearest 4-bit float, ties to even; NaN gives -0."""
    x = jnp.clip(x.astype(FLOAT32), -LARGEST, LARGEST)
    size = jnp.abs(x)
    step = jnp.where(size < 2, 0.5, jnp.where(size < 4, 1.0, 2.0)).astype(FLOAT32)
    return jnp.where(jnp.isnan(x), -jnp.zeros_like(x), jnp.round(x / step) * step)


def cast_values(x: Any, dtype: DType) -> Any:
    """Cast an array to another dtype; overflow gives an infinity, or NaN.

    For dtypes without negative zero, XLA turns negative underflow into NaN; here it gives 0.
    """
    if is_narrow(dtype):
        values = _round_to_f4(x) if dtype == FOUR_BITS else _wrap_integers(x, LIMITS(dtype))
        return values.astype(carrier_of(dtype))
    if dtype in ONE_ZERO and is_float(x.dtype):
        half = float(jnp.finfo(dtype).smallest_subnormal) / 2
        x = jnp.where(jnp.abs(x) <= half, jnp.zeros_like(x), x)
    return x.astype(dtype)


def cast_saturated(x: Any, dtype: DType) -> Any:
    """Cast an array to another dtype with saturation: overflow gives the largest number."""
    limits: Any = ml_dtypes.finfo(dtype)
    return cast_values(jnp.clip(x, float(limits.min), float(limits.max)), dtype)
