"""How kernels compute with 16-bit floats: in float32, rounded once, where the result is stored.

float16 ends at 65504 and has eleven bits, bfloat16 has eight: squares overflow or vanish, sums
stop growing, and `1 - x` is 0 long before it should be. Matrix products and convolutions are
left to XLA, which adds in float32 by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from braces.dtypes import FLOAT32, DType, is_float
from braces.ops.common.rules import float_dtype, promote


def is_narrow(dtype: DType) -> bool:
    """Whether this is a 16-bit float."""
    return is_float(dtype) and dtype.itemsize == 2


def wide(x: Any) -> Any:
    """For kernels: an array in float32 at least, for sums over many elements."""
    return x.astype(promote(float_dtype(np.dtype(x.dtype)), FLOAT32))


def result_dtype(*arrays: Any) -> Any:
    """The floating dtype of a result of these arrays, of which some may be `None`."""
    return float_dtype(promote(*(np.dtype(x.dtype) for x in arrays if x is not None)))


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of one result that computes with 16-bit floats in float32, and rounds once.

    The result has the promoted dtype of all arrays that are floats.
    """

    @functools.wraps(kernel)
    def computed(*arrays: Any, **attrs: Any) -> Any:
        given = [np.dtype(x.dtype) for x in arrays if x is not None]
        floats = [dtype for dtype in given if is_float(dtype)]
        if not any(map(is_narrow, floats)):
            return kernel(*arrays, **attrs)
        return kernel(*map(widened, arrays), **attrs).astype(promote(*floats))

    return computed


def add_at(x: Any, positions: Any, updates: Any, **options: Any) -> Any:
    """For kernels: an array with updates added at positions, of which some may be the same.

    16-bit floats add up in float32, and are rounded once.

    Args:
        x: The array.
        positions: What it is indexed with.
        updates: What is added; its dtype is that of the array.
        options: What else JAX is told of the positions.
    """
    return widened(x).at[positions].add(widened(updates), **options).astype(x.dtype)


def widened(x: Any) -> Any:
    """For kernels: an array, or a list of them, with 16-bit floats as float32."""
    if isinstance(x, list):
        return [widened(one) for one in cast("list[Any]", x)]
    return x.astype(FLOAT32) if x is not None and is_narrow(np.dtype(x.dtype)) else x
