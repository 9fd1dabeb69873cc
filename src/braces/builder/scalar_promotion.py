"""Dtype promotion of literals, and the checks that their values fit the dtype.

The rules hold for every literal in a program:

- A *scalar* is a Python number, a NumPy scalar, an array of rank 0, or a nested list of Python
  numbers. It is weakly typed: beside a variable it takes the variable's dtype, if the kind
  allows it. A bool stays a bool, an integer beside bools is int64, a fraction beside integers
  float32, a complex number beside real ones complex64 (complex128 beside float64).
- An *array* with axes keeps its dtype; it promotes with the variable's dtype as a variable.
- *Alone*, a value with a dtype keeps it; Python integers are int64, Python floats float32.
- A fraction is rounded to its dtype. Overflow is refused, and so are values that an integer
  dtype cannot represent, fractions and NaN included.
- Integers stay exact until they have a dtype, even in lists that NumPy would convert to floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from braces.dims import Dim
from braces.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    SHORT_NAMES,
    DType,
    is_float,
    is_narrow,
    is_stored,
)
from braces.errors import BracesError, DTypeError, array_fix
from braces.ir.records import Literal

PYTHON = (bool, int, float, complex)


def scalar_dtype(kind: str, beside: DType | None) -> DType:
    """Return the dtype of a scalar of a kind (`b`, `i`, `f` or `c`) beside a variable."""
    if kind == "b":
        return BOOL
    if kind == "i":
        return INT64 if beside is None or beside == BOOL else beside
    if kind == "f":
        return beside if beside is not None and is_float(beside) else FLOAT32
    if beside is not None and beside.kind == "c":
        return beside
    return SHORT_NAMES["c128" if beside is not None and beside == FLOAT64 else "c64"]


def numbers(value: Any) -> np.ndarray[Any, Any]:
    """Convert a number, nested list or array to an array; integers beyond 64 bits are objects.

    Raises:
        DTypeError: If the value has elements other than numbers, or ragged nested lists.
    """
    try:
        array = _keep_exact_ints(value, np.asarray(value))
    except BracesError:
        raise
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        fix = array_fix(error, "Pass a number, a nested list of numbers, or a NumPy array.")
        raise DTypeError(
            f"cannot convert {value!r:.80} to an array.", given=str(error), fix=fix
        ) from None
    if isinstance(value, Dim):
        raise DTypeError(
            f"the size `{value}` is symbolic, so it cannot be a constant.",
            fix="Write br.size(x.shape[0]) for an integer variable; arithmetic with a variable "
            "converts a size, as in x / x.shape[0].",
        )
    if not _has_numbers(array):
        raise DTypeError(
            f"expected a number or an array of numbers, got {value!r:.80}.",
            fix="Pass a number, a nested list of numbers, or a NumPy array.",
        )
    return array


def as_array(value: Any, beside: DType | None = None) -> np.ndarray[Any, Any]:
    """Convert a constant operand to an array, in the dtype of the promotion rules.

    Raises:
        DTypeError: If the value is not a number, or is out of range of the dtype.
    """
    if type(value) in PYTHON:
        return _python_number(value, scalar_dtype(_KINDS[type(value)], beside))
    array = numbers(value)
    typed = not _only_python(value) and array.dtype != object
    if typed and (array.ndim or beside is None):
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    return cast_exactly(array, scalar_dtype(_kind(array.dtype), beside))


def as_literal(value: Any, beside: DType | None = None) -> Literal:
    """Convert an operand that is not a variable to a literal.

    Raises:
        DTypeError: If the value is neither a number nor an array, or is out of range of the
            dtype.
    """
    if isinstance(value, str | bytes | dict | set) or value is None or callable(value):
        raise DTypeError(
            f"expected a variable, a number or an array, got {value!r:.80}.",
            fix="Pass a variable, a Python number, or a NumPy array.",
        )
    return Literal.of(as_array(value, beside))


def leading_dtype(dtypes: Sequence[DType]) -> DType | None:
    """Return the dtype that decides promotion of scalars: floats first, bools last."""
    if len(dtypes) < 2:
        return dtypes[0] if dtypes else None
    return max(dtypes, key=lambda dtype: (is_float(dtype), dtype.kind != "b"))


def cast_literal(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Convert a number, nested list or array to an explicit dtype.

    Raises:
        DTypeError: If the value is not a number, or is out of range of the dtype.
    """
    if type(value) is int and is_float(dtype):
        return _python_number(value, dtype)  # it may be larger than any integer dtype
    return cast_exactly(numbers(value), dtype)


def number_of(array: np.ndarray[Any, Any]) -> float:
    """Convert a scalar array to a Python number; integers are exact."""
    return int(array) if array.dtype.kind in "iuO" else float(array)


_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}


def _kind(dtype: DType) -> str:
    if is_float(dtype):
        return "c" if dtype.kind == "c" else "f"
    return "b" if dtype == BOOL else "i"


def _only_python(value: Any) -> bool:
    """Return whether a literal has no dtype: Python numbers, or nested lists of them."""
    if isinstance(value, list | tuple):
        return all(map(_only_python, cast("Sequence[Any]", value)))
    return type(value) in PYTHON


def _keep_exact_ints(value: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array of a literal, with Python integers if no integer dtype fits them all.

    NumPy converts a mix of integers that need int64 and uint64 to floats, and integers beyond
    both to objects.
    """
    if array.dtype.kind not in "fO" or not isinstance(value, int | list | tuple):
        return array
    kinds = set(map(type, _leaves(value)))
    if kinds and all(issubclass(kind, int | np.integer | np.bool_) for kind in kinds):
        return np.asarray(value, object)
    if array.dtype == object and kinds.issubset(PYTHON):
        return np.asarray(value, complex if complex in kinds else float)
    return array


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _leaves(item)
    else:
        yield value


def _has_numbers(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype == object:
        return array.size > 0 and all(isinstance(item, int | np.integer) for item in array.flat)
    return array.dtype.kind in "biuf" or is_float(array.dtype) or is_stored(array.dtype)


def _python_number(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Convert a Python number, which may be an integer larger than any integer dtype."""
    if is_narrow(dtype):
        return cast_exactly(np.asarray(value), dtype)
    try:
        exact = float(value) if isinstance(value, int) and is_float(dtype) else value
        with np.errstate(over="ignore"):
            array = np.asarray(exact, dtype)
    except OverflowError:
        raise does_not_fit(value, dtype) from None
    if not np.isfinite(array) and np.isfinite(exact):
        raise does_not_fit(value, dtype)
    return array


# ---- range checks ----------------------------------------------------------------------------


def cast_exactly(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Convert numbers to another dtype, with rounding to floats.

    Raises:
        DTypeError: If a number is out of range: it overflows, an integer dtype (or bool) cannot
            represent it, or it is complex.
    """
    result = try_cast(array, dtype)
    if result is None:
        raise does_not_fit(array, dtype)
    return result


def try_cast(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any] | None:
    """Convert numbers as `fitted`; `None` if a number does not fit."""
    if array.dtype == dtype:
        return array
    if array.dtype == object and dtype.kind not in "iu":
        return _round_big_ints(array, dtype)
    if array.dtype.kind == "c" and dtype.kind != "c":
        return None
    if array.dtype.kind in "iuO" and dtype.kind in "iu":
        return array.astype(dtype) if _in_range(array, dtype) else None
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        if is_float(dtype):
            finite = np.isfinite(result)
            return result if finite.all() or (finite == np.isfinite(array)).all() else None
        # A number that an integer dtype cannot represent is out of range, or fails the round
        # trip.
        is_exact = np.array_equal(result.astype(array.dtype), array)
    in_range = dtype == BOOL or is_stored(dtype) or _in_range(array, dtype)
    return result if is_exact and in_range else None


def _round_big_ints(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any] | None:
    """Convert integers beyond 64 bits to a dtype other than integers."""
    try:
        return try_cast(array.astype(float), dtype)
    except OverflowError:
        return None


def _in_range(array: np.ndarray[Any, Any], dtype: DType) -> bool:
    """Return whether all numbers, none of them NaN, are in the range of an integer dtype."""
    if not array.size:
        return True
    ends = (np.asarray(array.min()).item(), np.asarray(array.max()).item())
    low, high = limits_of(dtype)
    return all(low <= end <= high for end in ends)


def limits_of(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest integer of an integer dtype."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def does_not_fit(value: Any, dtype: DType) -> DTypeError:
    """Build the error for a number that a dtype cannot represent."""
    shown = " ".join(f"{value!s:.60}".split())
    return DTypeError(
        f"{shown} is not representable as {dtype}{_range(dtype)}.",
        fix="Choose a dtype that represents it, as in br.constant(value, dtype='float64'), or "
        "apply br.cast to the other operand.",
    )


def _range(dtype: DType) -> str:
    if dtype.kind not in "iu":
        return ""
    low, high = limits_of(dtype)
    return f", whose range is {low} to {high}"
