"""The values that variables hold: arrays, and lists of them."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from braces.dtypes import SHORT_NAMES, DType, dtype_of, short_name
from braces.errors import DTypeError, ShapeError, array_fix
from braces.scope.dlpack import FAILURES, borrowed, readable

_DEFAULTS = {kind: dtype_of(kind) for kind in (complex, float, int, bool)}  # widest first
_LISTS = (list, tuple)
_KNOWN = frozenset(SHORT_NAMES.values())


def shown(given: object) -> str:
    """What a user gave, shortened, on one line."""
    return " ".join(reprlib.repr(given).split())


def is_list(raw: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether a value is a list of arrays."""
    return isinstance(raw, _LISTS)


def copied(raw: Any) -> Any:
    """A copy of a value as a NumPy array, or list of such."""
    if is_list(raw):
        return [copied(one) for one in raw]
    shards = getattr(raw, "addressable_shards", ())
    if len(shards) < 2 or raw.is_fully_replicated or not raw.is_fully_addressable:
        return np.array(raw)
    return _joined(raw, shards)


def _joined(raw: Any, shards: Sequence[Any]) -> Any:
    """A value that lies on several devices, each part copied once."""
    whole = np.empty(raw.shape, raw.dtype)
    for shard in shards:
        if shard.replica_id == 0:
            whole[shard.index] = shard.data
    return whole


def bytes_of(raw: Any) -> int:
    """The bytes that a value takes."""
    return sum(map(bytes_of, raw)) if is_list(raw) else int(raw.nbytes)


def type_text(raw: Any) -> str:
    """The type of a value in short."""
    if is_list(raw):
        kinds = {type_text(one) for one in raw}
        count = f"{len(raw)} item" + ("s" if len(raw) != 1 else "")
        return f"list<{kinds.pop() if len(kinds) == 1 else '?'}> of {count}"
    dtype = short_name(raw.dtype) if raw.dtype in _KNOWN else str(raw.dtype)
    return f"{dtype}[{','.join(map(str, raw.shape))}]"


def value_text(raw: Any) -> str:
    """The type and the size of a value in short."""
    return "not set" if raw is None else f"{type_text(raw)}  {in_units(bytes_of(raw))}"


def in_units(size_bytes: float) -> str:
    """A number of bytes as text."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(size_bytes, 1) < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def total(raws: Sequence[Any]) -> str:
    """How many variables there are, and how large, as text; `None` is one without a value."""
    size_bytes = sum(bytes_of(raw) for raw in raws if raw is not None)
    return f"{len(raws):,} variable{'' if len(raws) == 1 else 's'}, {in_units(size_bytes)}"


def _leaf_kinds(given: object) -> set[type]:
    """The types of the leaves of nested lists."""
    if not is_list(given):
        return {type(given)}
    flat: set[type] = {kind for kind in set(map(type, given)) if not issubclass(kind, _LISTS)}
    return flat.union(*(_leaf_kinds(one) for one in given if is_list(one)))


def _default_dtype(given: object) -> DType | None:
    """The dtype for Python numbers; `None` for what has a dtype of its own."""
    kinds = _leaf_kinds(given)
    if kinds <= _DEFAULTS.keys():
        return next((_DEFAULTS[kind] for kind in _DEFAULTS if kind in kinds), _DEFAULTS[float])
    return None


def stored(given: object, at: str) -> Any:
    """A copy of `given` as a NumPy array, in this machine's byte order.

    Raises:
        DTypeError: No array of a dtype that programs have, or a number out of range.
        ShapeError: Nested lists whose lengths differ.
    """
    dtype = _default_dtype(given)
    try:
        with np.errstate(over="raise"):
            array = np.array(readable(given), dtype=dtype)
    except ValueError as error:
        what, fix = "These lists differ in length and make no array.", "Pad or cut them."
        raise ShapeError(what, at=at, given=shown(given), fix=fix) from error
    except (TypeError, ArithmeticError, RuntimeError) as error:
        what = f"This makes no array of {dtype or 'numbers'}."
        fix = array_fix(error, "Give a NumPy array of the dtype that is wanted; it is kept.")
        raise DTypeError(what, at=at, given=shown(given), fix=fix) from error
    return _known(array.astype(array.dtype.newbyteorder("="), copy=False), given, at)


def taken_over(given: object, at: str) -> Any:
    """An array of NumPy in the memory of `given`.

    Raises:
        DTypeError: No array of a dtype that programs have, or none whose memory NumPy can use.
    """
    try:
        array = borrowed(given)
    except FAILURES as error:
        raise _uncopied(given, at, str(error)) from error
    if array is None or not array.dtype.isnative:
        raise _uncopied(given, at)
    return _known(array, given, at)


def _uncopied(given: object, at: str, why: str = "") -> DTypeError:
    what = "A variable cannot hold this without a copy" + (f": {why}" if why else ".")
    fix = "Leave copy=False out, or give an array that lies in the memory of this machine."
    return DTypeError(what, at=at, given=shown(given), fix=fix)


def _known(array: Any, given: object, at: str) -> Any:
    if array.dtype not in _KNOWN:
        what = f"A variable cannot hold values of dtype {array.dtype}."
        fix = f"Give numbers or booleans, of one of {', '.join(SHORT_NAMES)}."
        raise DTypeError(what, at=at, given=shown(given), fix=fix)
    return array
