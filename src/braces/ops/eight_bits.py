"""How kernels make floats of one byte of others."""

from __future__ import annotations

from typing import Any

from braces.dtypes import SHORT_NAMES, DType, is_float
from braces.lazy import jnp

ONE_ZERO = frozenset(SHORT_NAMES[name] for name in ("f8e4m3fnuz", "f8e5m2fnuz"))
"""Floats whose bits of a negative zero are NaN."""


def rounded(x: Any, dtype: DType) -> Any:
    """An array in another dtype; what is too large becomes infinite, or NaN.

    XLA makes NaN of a negative number that is too small for a dtype without a negative zero.
    """
    if dtype in ONE_ZERO and is_float(x.dtype):
        half = float(jnp.finfo(dtype).smallest_subnormal) / 2
        x = jnp.where(jnp.abs(x) <= half, jnp.zeros_like(x), x)
    return x.astype(dtype)


def saturated(x: Any, dtype: DType) -> Any:
    """An array in another dtype; what is too large becomes the largest number."""
    limits = jnp.finfo(dtype)
    return rounded(jnp.clip(x, float(limits.min), float(limits.max)), dtype)
