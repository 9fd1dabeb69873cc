"""Numbers beside variables: which dtype a literal takes on, and what does not fit it.

One rule, for all that is written into a program:

- A *number* is one of Python, a NumPy scalar, an array without axes, or a nested list of Python
  numbers. Beside a variable it takes the variable's dtype, as long as that is of its kind: a
  bool stays a bool, an integer beside bools is an int64, a fraction beside integers a float32,
  a complex number beside real ones a complex64 (complex128 beside float64).
- An *array* with axes keeps its dtype, and promotes with the variable's as two variables do.
- *Alone*, what has a dtype keeps it; Python's integers are int64, its floats float32.
- A fraction is rounded to its dtype. A number that would overflow is refused, and so is what an
  integer dtype cannot hold, a fraction and NaN included.
- Integers are exact until they have a dtype, in lists too, of which NumPy may make floats.
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
    """The dtype of a number of a kind (`b`, `i`, `f` or `c`) beside a variable of another."""
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
    """A number, nested list or array as an array; integers beyond 64 bits are objects in it.

    Raises:
        DTypeError: It holds something else than numbers, or rows of different lengths.
    """
    try:
        array = _exact(value, np.asarray(value))
    except BracesError:
        raise
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        fix = array_fix(error, "Pass a number, a nested list of numbers, or a NumPy array.")
        raise DTypeError(
            f"{value!r:.80} cannot become an array.", given=str(error), fix=fix
        ) from None
    if isinstance(value, Dim):
        raise DTypeError(
            f"The size `{value}` has a value in a run only, and is no constant.",
            fix="Write br.size(x.shape[0]) for a number to compute with; beside a variable a "
            "size is one, as in x / x.shape[0].",
        )
    if not _has_numbers(array):
        raise DTypeError(
            f"{value!r:.80} is not a number, nor an array of numbers.",
            fix="Pass a number, a nested list of numbers, or a NumPy array.",
        )
    return array


def as_array(value: Any, beside: DType | None = None) -> np.ndarray[Any, Any]:
    """A constant operand as an array, in the dtype that the rules give it.

    Raises:
        DTypeError: It is no number, or does not fit.
    """
    if type(value) in PYTHON:
        return _python_number(value, scalar_dtype(_KINDS[type(value)], beside))
    array = numbers(value)
    typed = not _only_python(value) and array.dtype != object
    if typed and (array.ndim or beside is None):
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    return fitted(array, scalar_dtype(_kind(array.dtype), beside))


def as_literal(value: Any, beside: DType | None = None) -> Literal:
    """What is no variable as the literal that stands for it beside one.

    Raises:
        DTypeError: It is neither a number nor an array, or does not fit.
    """
    if isinstance(value, str | bytes | dict | set) or value is None or callable(value):
        raise DTypeError(
            f"{value!r:.80} is neither a variable nor a number nor an array.",
            fix="Pass a variable, a Python number, or a NumPy array.",
        )
    return Literal.of(as_array(value, beside))


def leading(dtypes: Sequence[DType]) -> DType | None:
    """The dtype that numbers take on beside variables of several: a float, then no bool."""
    if len(dtypes) < 2:
        return dtypes[0] if dtypes else None
    return max(dtypes, key=lambda dtype: (is_float(dtype), dtype.kind != "b"))


def literal(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A number, nested list or array in a dtype that is asked for.

    Raises:
        DTypeError: It is no number, or does not fit.
    """
    if type(value) is int and is_float(dtype):
        return _python_number(value, dtype)  # it may be larger than any integer dtype
    return fitted(numbers(value), dtype)


def number_of(array: np.ndarray[Any, Any]) -> float:
    """A scalar as a number of Python; integers are exact."""
    return int(array) if array.dtype.kind in "iuO" else float(array)


_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}


def _kind(dtype: DType) -> str:
    if is_float(dtype):
        return "c" if dtype.kind == "c" else "f"
    return "b" if dtype == BOOL else "i"


def _only_python(value: Any) -> bool:
    """Whether a literal has no dtype of its own: Python numbers, or nested lists of them."""
    if isinstance(value, list | tuple):
        return all(map(_only_python, cast("Sequence[Any]", value)))
    return type(value) in PYTHON


def _exact(value: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array of a literal, with Python's integers where NumPy has no integer dtype for all.

    NumPy makes floats of integers that int64 and uint64 hold only together, and objects of
    those that neither holds.
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
        for one in cast("Sequence[Any]", value):
            yield from _leaves(one)
    else:
        yield value


def _has_numbers(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype == object:
        return array.size > 0 and all(isinstance(one, int | np.integer) for one in array.flat)
    return array.dtype.kind in "biuf" or is_float(array.dtype) or is_stored(array.dtype)


def _python_number(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python number, whose integers may be larger than any integer dtype."""
    if is_narrow(dtype):
        return fitted(np.asarray(value), dtype)
    try:
        exact = float(value) if isinstance(value, int) and is_float(dtype) else value
        with np.errstate(over="ignore"):
            made = np.asarray(exact, dtype)
    except OverflowError:
        raise does_not_fit(value, dtype) from None
    if not np.isfinite(made) and np.isfinite(exact):
        raise does_not_fit(value, dtype)
    return made


# ---- what fits -------------------------------------------------------------------------------


def fitted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The same numbers in another dtype, rounded where it is a float.

    Raises:
        DTypeError: One of them does not fit: it would overflow, or an integer dtype (or bool)
            cannot hold it, or it is complex.
    """
    made = converted(array, dtype)
    if made is None:
        raise does_not_fit(array, dtype)
    return made


def converted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any] | None:
    """As `fitted`; `None` where a number does not fit."""
    if array.dtype == dtype:
        return array
    if array.dtype == object and dtype.kind not in "iu":
        return _rounded(array, dtype)
    if array.dtype.kind == "c" and dtype.kind != "c":
        return None
    if array.dtype.kind in "iuO" and dtype.kind in "iu":
        return array.astype(dtype) if _in_range(array, dtype) else None
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
        if is_float(dtype):
            finite = np.isfinite(made)
            return made if finite.all() or (finite == np.isfinite(array)).all() else None
        # What an integer dtype cannot hold differs on the way back, or was out of its range.
        same = np.array_equal(made.astype(array.dtype), array)
    within = dtype == BOOL or is_stored(dtype) or _in_range(array, dtype)
    return made if same and within else None


def _rounded(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any] | None:
    """Integers beyond 64 bits in a dtype that is none of integers."""
    try:
        return converted(array.astype(float), dtype)
    except OverflowError:
        return None


def _in_range(array: np.ndarray[Any, Any], dtype: DType) -> bool:
    """Whether all numbers, none of them NaN, lie within an integer dtype."""
    if not array.size:
        return True
    ends = (np.asarray(array.min()).item(), np.asarray(array.max()).item())
    low, high = limits_of(dtype)
    return all(low <= end <= high for end in ends)


def limits_of(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest integer of an integer dtype."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def does_not_fit(value: Any, dtype: DType) -> DTypeError:
    """The error for a number that a dtype cannot hold."""
    shown = " ".join(f"{value!s:.60}".split())
    return DTypeError(
        f"{shown} does not fit into {dtype}{_range(dtype)}.",
        fix="Name a dtype that holds it, as br.constant(value, dtype='float64'), or br.cast "
        "the variable beside it.",
    )


def _range(dtype: DType) -> str:
    if dtype.kind not in "iu":
        return ""
    low, high = limits_of(dtype)
    return f", whose numbers are {low} to {high}"
