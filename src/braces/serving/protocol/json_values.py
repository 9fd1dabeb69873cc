"""JSON of requests, without extensions, and its values as arrays.

Values that JSON cannot write are strings, as in the JSON form of protobuf: "NaN", "Infinity",
"-Infinity". Bare NaN, which Python's reader accepts, is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn, TypeGuard, cast

import numpy as np

from braces.dtypes import DType, is_float
from braces.errors import visible
from braces.serving.protocol.refusal import RefusalError, invalid
from braces.serving.protocol.tensor_spec import DATATYPES, MOST_AXES, Array

NOT_FINITE = ("NaN", "Infinity", "-Infinity")
LARGEST_SIZE = 2**63 - 1


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object in UTF-8.

    Raises:
        RefusalError: If the bytes are anything else.
    """
    _refuse_arrays(body)
    try:
        value = _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise invalid(f"the JSON is not UTF-8: byte {error.start} is invalid.") from None
    except RecursionError:
        raise invalid("the JSON is nested too deeply.") from None
    except ValueError as error:
        raise invalid(f"the body is not JSON: {visible(str(error)[:200])}.") from None
    if not is_object(value):
        raise invalid(f"expected a JSON object, got {type(value).__name__}.")
    return value


def _refuse_arrays(body: bytes) -> None:
    """Refuse a .npy or .npz file that came as JSON, with the content type that it needs."""
    for start, kind in ((b"PK\x03\x04", "npz"), (b"\x93NUMPY", "npy")):
        if body.startswith(start):
            raise invalid(
                f"the body is a .{kind} file, not JSON; add the header "
                f"Content-Type: application/x-{kind}."
            )


def _refuse_constant(text: str) -> NoReturn:
    raise invalid(f'{text} is not JSON; write it as the string "{text}".')


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a JSON object."""
    return isinstance(value, dict)


def parse_shape(value: Any, name: str) -> tuple[int, ...]:
    """Check a shape: a list of sizes.

    Raises:
        RefusalError: If the value is not such a list.
    """
    sizes = cast("list[Any]", value) if isinstance(value, list) else None
    if sizes is None or not all(type(size) is int for size in sizes):
        raise invalid(f"`shape` of `{name}` is not a list of integers.")
    if len(sizes) > MOST_AXES or not all(0 <= size <= LARGEST_SIZE for size in sizes):
        raise invalid(f"`shape` of `{name}` is out of range.")
    return tuple(sizes)


def to_array(data: Any, dtype: DType, shape: tuple[int, ...], name: str) -> Array:
    """Convert nested or flat lists to an array.

    Raises:
        RefusalError: If number, nesting or kind of the values differ.
    """
    if not isinstance(data, list):
        raise invalid(f"`data` of `{name}` is not a list.")
    try:
        raw: Array = np.array(cast("list[Any]", data))
        if raw.dtype.kind == "U" and is_float(dtype):
            raw = _with_not_finite(cast("list[Any]", data))
    except _TextError:
        raise invalid(f"`data` of `{name}` has a string; expected numbers.") from None
    except (ValueError, RecursionError, OverflowError, TypeError):
        raise invalid(f"`data` of `{name}` has lists of different lengths.") from None
    if raw.shape != shape and (raw.ndim != 1 or raw.size != math.prod(shape)):
        got = f"shape {list(raw.shape)}" if raw.ndim != 1 else f"{raw.size} values"
        raise invalid(f"`data` of `{name}` has {got}; expected shape {list(shape)}.")
    return _converted(raw, dtype, name).reshape(shape)


class _TextError(Exception):
    """A string among the numbers that is not the name of a number."""


def _with_not_finite(data: Sequence[Any]) -> Array:
    """Convert lists with strings among the numbers."""

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(each) for each in cast("list[Any]", value)]
        if isinstance(value, str) and value not in NOT_FINITE:
            raise _TextError
        return float(value)

    return np.array([number(each) for each in data])


def _converted(raw: Array, dtype: DType, name: str) -> Array:
    kinds = {"b": "b", "i": "iu", "u": "iu"}.get(dtype.kind, "iuf")
    if raw.dtype.kind not in kinds and raw.size:
        raise invalid(f"`data` of `{name}` has values that are not {DATATYPES[dtype]}.")
    try:
        with np.errstate(over="raise"):
            array = raw.astype(dtype)
    except FloatingPointError:
        raise _out_of_range(dtype, name) from None
    if dtype.kind in "iu" and not np.array_equal(array, raw):
        raise _out_of_range(dtype, name)
    return array


def _out_of_range(dtype: DType, name: str) -> RefusalError:
    return invalid(f"`data` of `{name}` has values out of range of {DATATYPES[dtype]}.")


def to_json(array: Array) -> list[Any]:
    """Return the values of an array as a flat list."""
    flat = array.reshape(-1)
    if flat.dtype.kind not in "biu":
        flat = flat.astype(np.float64)
        if not np.isfinite(flat).all():
            return [_json_number(value) for value in flat.tolist()]
    return flat.tolist()


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
