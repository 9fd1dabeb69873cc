"""Convert dtypes and arrays of ONNX."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from braces.errors import DTypeError, ProgramError
from braces.exchange.common.values.constants import Array
from braces.extend.types import SHORT_NAMES, DType
from braces.lazy import onnx

LARGEST_DENSE = 1 << 28
"""The largest size in bytes of a sparse tensor after conversion to a dense array."""
_OURS = frozenset(SHORT_NAMES.values())


def dtype_named(code: int) -> DType:
    """Return the dtype of a dtype code of ONNX.

    Raises:
        DTypeError: If Braces has no corresponding dtype, as for strings.
    """
    codes = onnx.TensorProto.DataType
    if code not in codes.values():
        raise DTypeError(f"unknown ONNX dtype {code}.")
    name = codes.Name(code)
    if code not in (codes.UNDEFINED, codes.STRING):
        result = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
        if result in _OURS:
            return result
    raise DTypeError(f"unsupported dtype {name.lower()}.", fix=_dtype_advice(name))


def _dtype_advice(name: str) -> str:
    """Return the advice for an unsupported dtype."""
    if name == "STRING":
        return "Convert strings to numbers before the model."
    return "Export the model with another dtype."


def array_of(tensor: Any) -> Array:
    """Return the array of a tensor.

    Raises:
        DTypeError: If Braces has no corresponding dtype.
        ProgramError: If the number of elements does not match the shape.
    """
    dtype = dtype_named(tensor.data_type)
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor), dtype)
    except (ValueError, TypeError, OverflowError):
        shape = ", ".join(map(str, tensor.dims))
        raise ProgramError(
            f"the data of tensor `{tensor.name:.80}` does not match its shape [{shape:.80}]."
        ) from None


def densify(sparse: Any) -> Array:
    """Return the dense array of a sparse tensor.

    Raises:
        DTypeError: If Braces has no corresponding dtype.
        ProgramError: If an index is out of bounds, or the array is too large.
    """
    values, positions = array_of(sparse.values), array_of(sparse.indices)
    shape = tuple(sparse.dims)
    if min(shape, default=0) < 0 or prod(shape) * values.itemsize > LARGEST_DENSE:
        raise ProgramError(
            f"sparse tensor `{sparse.values.name:.80}` has an invalid or too large shape "
            f"[{', '.join(map(str, shape)):.80}]."
        )
    try:
        if np.any(positions < 0):
            raise IndexError("negative index")
        array = np.zeros(shape, values.dtype)
        at = np.unravel_index(positions, shape) if positions.ndim == 1 else tuple(positions.T)
        array[at] = values
    except (ValueError, TypeError, IndexError):
        raise ProgramError(
            f"sparse tensor `{sparse.values.name:.80}` has indices out of range."
        ) from None
    return array
