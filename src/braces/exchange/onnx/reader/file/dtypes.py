"""Dtypes and arrays of ONNX as ours."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from braces.dtypes import SHORT_NAMES, DType
from braces.errors import DTypeError, ProgramError
from braces.exchange.common.values.constants import Array
from braces.lazy import onnx

LARGEST_DENSE = 1 << 28
"""The most bytes that a sparse array of a model has when it is written out."""
_OURS = frozenset(SHORT_NAMES.values())


def dtype_named(code: int) -> DType:
    """The dtype that a number of ONNX stands for.

    Raises:
        DTypeError: There is no such dtype in Braces: texts, for one.
    """
    known = onnx.TensorProto.DataType
    if code not in known.values():
        raise DTypeError(f"{code} is no dtype of ONNX.")
    name = known.Name(code)
    if code not in (known.UNDEFINED, known.STRING):
        found = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
        if found in _OURS:
            return found
    raise DTypeError(f"There is no dtype {name.lower()} in Braces.", fix=_instead(name))


def _instead(name: str) -> str:
    """What to do with a model that has such a dtype."""
    if name == "STRING":
        return "Turn texts into numbers before the model: programs have none."
    return "Export the model with another dtype."


def array_of(tensor: Any) -> Array:
    """The array of a tensor of a model.

    Raises:
        DTypeError: There is no such dtype in Braces.
        ProgramError: It holds more or fewer numbers than its shape says.
    """
    dtype = dtype_named(tensor.data_type)
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor), dtype)
    except (ValueError, TypeError, OverflowError):
        shape = ", ".join(map(str, tensor.dims))
        raise ProgramError(
            f"The tensor `{tensor.name:.80}` does not hold the numbers of its shape,"
            f" [{shape:.80}]."
        ) from None


def dense(sparse: Any) -> Array:
    """The array of a sparse tensor of a model: its numbers at their places, 0 elsewhere.

    Raises:
        DTypeError: There is no such dtype in Braces.
        ProgramError: Its places are not in its shape, or it is larger than arrays of models.
    """
    values, places = array_of(sparse.values), array_of(sparse.indices)
    shape = tuple(sparse.dims)
    if min(shape, default=0) < 0 or prod(shape) * values.itemsize > LARGEST_DENSE:
        raise ProgramError(
            f"The sparse tensor `{sparse.values.name:.80}` is too large, or has no size."
        )
    try:
        if np.any(places < 0):
            raise IndexError("places count from the start")
        made = np.zeros(shape, values.dtype)
        at = np.unravel_index(places, shape) if places.ndim == 1 else tuple(places.T)
        made[at] = values
    except (ValueError, TypeError, IndexError):
        raise ProgramError(
            f"The sparse tensor `{sparse.values.name:.80}` has places that it has not."
        ) from None
    return made
