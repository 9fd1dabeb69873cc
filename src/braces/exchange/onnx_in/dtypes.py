"""Dtypes and arrays of ONNX as ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.dtypes import SHORT_NAMES, DType
from braces.errors import DTypeError, ProgramError
from braces.exchange.known import Array
from braces.lazy import onnx

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
