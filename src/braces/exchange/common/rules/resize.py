"""Resize images."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from braces.exchange.common.model.unsupported import FIX_SIZE, SupportsRefuse
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.extend import dims, functions as ops
from braces.extend.building import Var
from braces.extend.types import Dim, Size, is_integer

LARGEST_DENOMINATOR = 64
"""The largest denominator of a factor of a symbolic size."""


def scale_size(node: SupportsRefuse, size: Size, scale: float) -> Size:
    """Return a size times a factor, rounded down."""
    if not isinstance(size, Dim):
        return int(size * scale)
    exact = Fraction(scale)
    if exact.denominator > LARGEST_DENOMINATOR:
        node.refuse(f"unsupported scale {scale} of the symbolic size {size}", FIX_SIZE)
    return dims.call("floordiv", size * exact.numerator, exact.denominator)


def resize_axes(
    x: Var,
    axes: Sequence[int],
    sizes: Sequence[Size],
    scales: Sequence[float] | None,
    **options: Any,
) -> Var:
    """Resize axes of an array, in its own dtype."""
    shape = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    if scales is not None:
        factors = dict(zip(axes, scales, strict=True))
        options["scales"] = tuple(factors.get(a, 1.0) for a in range(x.ndim))
    resized = ops.resize(x, shape, **options)
    return round_to_dtype_of(resized, x) if resized.dtype != x.dtype else resized


def round_to_dtype_of(numbers: Var, like: Var) -> Var:
    """Cast numbers to the dtype of others; for integers, round and saturate."""
    if is_integer(like.dtype):
        info = np.iinfo(like.dtype)
        numbers = ops.clip(ops.round(numbers), min=float(info.min), max=float(info.max))
    return cast_to_dtype(numbers, like.dtype)
