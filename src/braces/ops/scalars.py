"""Numbers beside variables: which dtype a Python scalar takes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.dtypes import DType, dtype_of, is_float
from braces.errors import BracesError, DTypeError


def scalar_dtype(value: Any, beside: DType | None) -> DType:
    """The dtype of a Python scalar beside a variable of another dtype."""
    if isinstance(value, bool):
        return dtype_of("bool")
    if isinstance(value, int):
        return dtype_of("int64") if beside is None or beside.kind == "b" else beside
    if isinstance(value, complex):
        return dtype_of("complex64") if beside is None or beside.kind != "c" else beside
    return beside if beside is not None and is_float(beside) else dtype_of("float32")


def numbers(value: Any) -> np.ndarray[Any, Any]:
    """A number, nested list or array as an array.

    Raises:
        DTypeError: It holds something else than numbers, or rows of different lengths.
    """
    try:
        array = np.asarray(value)
    except BracesError:
        raise
    except (ValueError, TypeError) as error:
        raise DTypeError(f"{value!r:.80} cannot become an array: {error}") from None
    if array.dtype.kind not in "biufcV":
        raise DTypeError(
            f"{value!r:.80} is not a number, nor an array of numbers.",
            fix="Pass a number, a nested list of numbers, or a NumPy array.",
        )
    return array


def as_array(value: Any, beside: DType | None = None) -> np.ndarray[Any, Any]:
    """A constant operand as an array, in the dtype that the rules give it."""
    if isinstance(value, bool | int | float | complex):
        dtype = scalar_dtype(value, beside)
        try:
            return np.asarray(value, dtype)
        except OverflowError:
            raise DTypeError(f"{value} does not fit into {dtype}.") from None
    array = numbers(value)
    if isinstance(value, np.ndarray | np.generic):
        return array
    if array.dtype.kind == "f":
        return array.astype(scalar_dtype(0.0, beside))
    return array
