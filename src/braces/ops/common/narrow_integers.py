"""How kernels make numbers of one byte or less of others.

Of less than 8 bits, kernels have numbers in an array of the dtype that carries theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes

from braces.dtypes import FLOAT32, NARROW, SHORT_NAMES, DType, carrier_of, is_float, is_narrow
from braces.lazy import jnp

ONE_ZERO = frozenset(SHORT_NAMES[name] for name in ("f8e4m3fnuz", "f8e5m2fnuz"))
"""Floats whose bits of a negative zero are NaN."""

FOUR_BITS = NARROW["f4e2m1fn"]
LARGEST = 6.0
"""The largest float of four bits; the others are 0, 0.5, 1, 1.5, 2, 3 and 4."""
LIMITS: Callable[[DType], Any] = ml_dtypes.iinfo


def _wrapped(x: Any, limits: Any) -> Any:
    """Numbers cut off towards zero, of which the last bits are kept; NaN gives 0."""
    if is_float(x.dtype):
        wide = x.astype(jnp.float64)
        x = jnp.where(jnp.abs(wide) < 2.0**31, wide, 0.0)  # NaN is not less either
    x, count = x.astype(jnp.int64), limits.max - limits.min + 1
    return jnp.remainder(x - limits.min, count) + limits.min


def _in_four_bits(x: Any) -> Any:
    """The nearest of the floats of four bits, the even one of two; NaN gives -0."""
    x = jnp.clip(x.astype(FLOAT32), -LARGEST, LARGEST)
    size = jnp.abs(x)
    step = jnp.where(size < 2, 0.5, jnp.where(size < 4, 1.0, 2.0)).astype(FLOAT32)
    return jnp.where(jnp.isnan(x), -jnp.zeros_like(x), jnp.round(x / step) * step)


def rounded(x: Any, dtype: DType) -> Any:
    """An array in another dtype; what is too large becomes infinite, or NaN.

    XLA makes NaN of a negative number that is too small for a dtype without a negative zero.
    """
    if is_narrow(dtype):
        made = _in_four_bits(x) if dtype == FOUR_BITS else _wrapped(x, LIMITS(dtype))
        return made.astype(carrier_of(dtype))
    if dtype in ONE_ZERO and is_float(x.dtype):
        half = float(jnp.finfo(dtype).smallest_subnormal) / 2
        x = jnp.where(jnp.abs(x) <= half, jnp.zeros_like(x), x)
    return x.astype(dtype)


def saturated(x: Any, dtype: DType) -> Any:
    """An array in another dtype; what is too large becomes the largest number."""
    limits: Any = ml_dtypes.finfo(dtype)
    return rounded(jnp.clip(x, float(limits.min), float(limits.max)), dtype)
