"""Values of variables: arrays, and lists of arrays."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from braces.dims.human_units import format_bytes
from braces.dtypes import SHORT_NAMES, DType, dtype_of, short_name
from braces.errors import DTypeError, ShapeError, array_fix
from braces.scope.dlpack import FAILURES, as_numpy, import_array

_DEFAULTS = {kind: dtype_of(kind) for kind in (complex, float, int, bool)}  # widest first
_LISTS = (list, tuple)
_KNOWN = frozenset(SHORT_NAMES.values())


def short_repr(value: object) -> str:
    """Return a shortened `repr` of user input, on one line."""
    return " ".join(reprlib.repr(value).split())


def is_list(raw: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether a value is a list of arrays."""
    return isinstance(raw, _LISTS)


def copy_value(raw: Any) -> Any:
    """Copy a value to a NumPy array, or a list of arrays."""
    if is_list(raw):
        return [copy_value(item) for item in raw]
    shards = getattr(raw, "addressable_shards", ())
    if len(shards) < 2 or raw.is_fully_replicated or not raw.is_fully_addressable:
        return np.array(raw)
    return _gather_shards(raw, shards)


def _gather_shards(raw: Any, shards: Sequence[Any]) -> Any:
    """Gather a value that is sharded over several devices, copying each shard once."""
    array = np.empty(raw.shape, raw.dtype)
    for shard in shards:
        if shard.replica_id == 0:
            array[shard.index] = shard.data
    return array


def bytes_of(raw: Any) -> int:
    """Return the size of a value in bytes."""
    return sum(map(bytes_of, raw)) if is_list(raw) else int(raw.nbytes)


def type_text(raw: Any) -> str:
    """Return the type of a value as a short string."""
    if is_list(raw):
        kinds = {type_text(item) for item in raw}
        count = f"{len(raw)} item" + ("s" if len(raw) != 1 else "")
        return f"list<{kinds.pop() if len(kinds) == 1 else '?'}> of {count}"
    dtype = short_name(raw.dtype) if raw.dtype in _KNOWN else str(raw.dtype)
    return f"{dtype}[{','.join(map(str, raw.shape))}]"


def value_text(raw: Any) -> str:
    """Return the type and the size of a value as a short string."""
    return "not set" if raw is None else f"{type_text(raw)}  {format_bytes(bytes_of(raw))}"


def format_total(raws: Sequence[Any]) -> str:
    """Format the number and total size of variables; `None` is a variable without a value."""
    size_bytes = sum(bytes_of(raw) for raw in raws if raw is not None)
    return f"{len(raws):,} variable{'' if len(raws) == 1 else 's'}, {format_bytes(size_bytes)}"


def _leaf_kinds(value: object) -> set[type]:
    """Return the types of the leaves of nested lists."""
    if not is_list(value):
        return {type(value)}
    flat: set[type] = {kind for kind in set(map(type, value)) if not issubclass(kind, _LISTS)}
    return flat.union(*(_leaf_kinds(item) for item in value if is_list(item)))


def _default_dtype(value: object) -> DType | None:
    """Return the dtype for Python numbers; `None` for values with their own dtype."""
    kinds = _leaf_kinds(value)
    if kinds <= _DEFAULTS.keys():
        return next((_DEFAULTS[kind] for kind in _DEFAULTS if kind in kinds), _DEFAULTS[float])
    return None


def convert_value(value: object, at: str) -> Any:
    """Copy `value` to a NumPy array in native byte order.

    Raises:
        DTypeError: If the dtype is not supported, or a number is out of range.
        ShapeError: If nested lists differ in length.
    """
    dtype = _default_dtype(value)
    try:
        with np.errstate(over="raise"):
            array = np.array(as_numpy(value), dtype=dtype)
    except ValueError as error:
        message, fix = "the nested lists are ragged: lengths differ.", "Pad or truncate them."
        raise ShapeError(message, at=at, given=short_repr(value), fix=fix) from error
    except (TypeError, ArithmeticError, RuntimeError) as error:
        message = f"cannot convert the value to an array of {dtype or 'numbers'}."
        fix = array_fix(error, "Pass a NumPy array of the desired dtype.")
        raise DTypeError(message, at=at, given=short_repr(value), fix=fix) from error
    return _check_dtype(array.astype(array.dtype.newbyteorder("="), copy=False), value, at)


def share_value(value: object, at: str) -> Any:
    """Return a NumPy array that shares the memory of `value`.

    Raises:
        DTypeError: If the dtype is not supported, or NumPy cannot use the memory.
    """
    try:
        array = import_array(value)
    except FAILURES as error:
        raise _copy_needed_error(value, at, str(error)) from error
    if array is None or not array.dtype.isnative:
        raise _copy_needed_error(value, at)
    return _check_dtype(array, value, at)


def _copy_needed_error(given: object, at: str, why: str = "") -> DTypeError:
    message = "cannot share the memory of this value without a copy" + (
        f": {why}" if why else "."
    )
    fix = "Omit copy=False, or pass an array in host memory."
    return DTypeError(message, at=at, given=short_repr(given), fix=fix)


def _check_dtype(array: Any, given: object, at: str) -> Any:
    if array.dtype not in _KNOWN:
        message = f"unsupported dtype {array.dtype} of a variable."
        fix = f"Use one of the dtypes {', '.join(SHORT_NAMES)}."
        raise DTypeError(message, at=at, given=short_repr(given), fix=fix)
    return array
