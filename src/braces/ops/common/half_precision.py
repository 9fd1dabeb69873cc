"""Half precision in kernels: compute 16-bit floats in float32 and round the result once.

float16 ends at 65504 and has eleven significant bits, bfloat16 has eight. Squares overflow or
vanish, sums stop growing, and `1 - x` is 0 too early. Matrix products and convolutions are left
to XLA, which accumulates in float32 by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from braces.dtypes import FLOAT32, DType, is_float
from braces.ops.common.rules import float_dtype, promote


def is_narrow(dtype: DType) -> bool:
    """Return whether a dtype is a 16-bit float."""
    return is_float(dtype) and dtype.itemsize == 2


def at_least_float32(x: Any) -> Any:
    """Cast an array to at least float32, for sums over many elements (kernel helper)."""
    return x.astype(promote(float_dtype(np.dtype(x.dtype)), FLOAT32))


def result_dtype(*arrays: Any) -> Any:
    """Return the promoted floating dtype of arrays; `None` entries are ignored."""
    return float_dtype(promote(*(np.dtype(x.dtype) for x in arrays if x is not None)))


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a kernel with one result so that 16-bit floats are computed in float32.

    The result is rounded once, to the promoted dtype of all floating-point arrays.
    """

    @functools.wraps(kernel)
    def run_in_float32(*arrays: Any, **attrs: Any) -> Any:
        dtypes = [np.dtype(x.dtype) for x in arrays if x is not None]
        floats = [dtype for dtype in dtypes if is_float(dtype)]
        if not any(map(is_narrow, floats)):
            return kernel(*arrays, **attrs)
        return kernel(*map(widen_half, arrays), **attrs).astype(promote(*floats))

    return run_in_float32


def add_at(x: Any, positions: Any, updates: Any, **options: Any) -> Any:
    """Scatter-add updates into an array; positions may repeat (kernel helper).

    16-bit floats accumulate in float32 and are rounded once.

    Args:
        x: The array.
        positions: The index of the elements to update.
        updates: The values to add, of the dtype of the array.
        options: Keyword arguments for JAX's indexed update, e.g. `mode`.
    """
    return widen_half(x).at[positions].add(widen_half(updates), **options).astype(x.dtype)


def widen_half(x: Any) -> Any:
    """Cast 16-bit floats of an array, or of a list of arrays, to float32 (kernel helper)."""
    if isinstance(x, list):
        return [widen_half(item) for item in cast("list[Any]", x)]
    return x.astype(FLOAT32) if x is not None and is_narrow(np.dtype(x.dtype)) else x
