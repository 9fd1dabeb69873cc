"""The one file format of this package: safetensors, and what Braces writes into its header.

    file   := u64 size of header, header, data            little endian
    header := JSON {"__metadata__": {"braces": record}, name: tensor, …}, padded with spaces
    tensor := {"dtype": "F32", "shape": [2, 3], "data_offsets": [start, stop]}
    record := JSON {"format": "braces.…", "version": 1, …}        as a text

The tensors follow each other without gaps, wider dtypes first, so that each is aligned; the
same content gives the same bytes. The format has no complex128: such an array is an F64 with
one more axis of size 2, and its name is in the record's `complex128`.

A file is checked before anything is allocated for its arrays: whatever it declares must lie
within its own length. The files of other libraries are read too; they have no record.
"""

from __future__ import annotations

import json
import math
import os
import stat
import struct
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, TypeGuard

import numpy as np

from braces.dtypes import HIGHEST_RANK, SHORT_NAMES, TensorType
from braces.errors import FileFormatError, UnknownNameError, suggest
from braces.ir.limits import LARGEST_INT, readable_name
from braces.storage.atomic import replacing

VERSION = 1
LARGEST_HEADER = 1 << 24
RESERVED = "__braces__"
"""No variable in a file has a name that begins so."""

Array = np.ndarray[Any, np.dtype[Any]]

_METADATA, _RECORD = "__metadata__", "braces"
_COMPLEX = SHORT_NAMES["c128"]
_DTYPES = {short.upper(): dtype for short, dtype in SHORT_NAMES.items() if dtype != _COMPLEX}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_DAMAGED = "The file may be damaged, or it is none that Braces wrote."


# ---- writing ---------------------------------------------------------------------------------


def write_tensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], kind: str, **record: Any
) -> None:
    """Write arrays to a file, at once or not at all.

    Args:
        path: The file; what was there before is replaced.
        arrays: The arrays by name, of dtypes that programs have.
        kind: What the file is, as `braces.parameters`.
        record: What else the header says: plain JSON.

    Raises:
        FileFormatError: The names or the record take more room than a header has.
        OSError: The folder is missing, full, or must not be written to.
    """
    wide = sorted(name for name, array in arrays.items() if array.dtype == _COMPLEX)
    whole = {"format": kind, "version": VERSION, **record}
    if wide:
        whole["complex128"] = wide
    flat = {name: _as_pairs(array) if name in wide else array for name, array in arrays.items()}
    order = sorted(flat, key=lambda name: (-flat[name].dtype.itemsize, name))
    header = _header(order, flat, json.dumps(whole, allow_nan=False))
    with replacing(path) as file:
        file.write(header)
        for name in order:
            file.write(_bytes_of(flat[name]))


def _as_pairs(array: Array) -> Array:
    return np.asarray(array, order="C").reshape(*array.shape, 1).view(np.float64)


def _bytes_of(array: Array) -> memoryview:
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data


def _header(order: list[str], arrays: Mapping[str, Array], record: str) -> bytes:
    found: dict[str, Any] = {_METADATA: {_RECORD: record}}
    at = 0
    for name in order:
        array = arrays[name]
        place = [at, at + array.nbytes]
        code, shape = _CODES[array.dtype], list(array.shape)
        found[name] = {"dtype": code, "shape": shape, "data_offsets": place}
        at += array.nbytes
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER:
        raise FileFormatError(
            f"The names and types of {len(order)} arrays take {len(text)} bytes of header.",
            fix=f"{LARGEST_HEADER} is the most; write several files.",
        )
    return struct.pack("<Q", len(text)) + text


# ---- reading ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """An array in a file: its type, and its place among the data."""

    type: TensorType
    start: int
    stop: int


@dataclass(frozen=True)
class TensorFile:
    """An open file whose header was found good.

    Attributes:
        entries: The arrays by name, in the order of the data.
        record: What Braces wrote in the header; empty where another library wrote the file.
        head: The bytes before the data.
        file: The open file.
    """

    entries: Mapping[str, Entry]
    record: Mapping[str, Any]
    head: int
    file: IO[bytes]

    @property
    def variables(self) -> dict[str, Entry]:
        """The arrays that are variables, and not parts of the format."""
        return {n: entry for n, entry in self.entries.items() if not n.startswith(RESERVED)}

    def read(self, name: str) -> Array:
        """One array, newly allocated.

        Raises:
            UnknownNameError: There is none of this name.
            FileFormatError: The file became shorter meanwhile, or a bool is neither 0 nor 1.
        """
        if name not in self.entries:
            raise UnknownNameError(
                f"The file has no array `{name}`.", fix=suggest(name, self.entries)
            )
        entry = self.entries[name]
        self.file.seek(self.head + entry.start)
        data = np.fromfile(self.file, np.uint8, entry.stop - entry.start)
        if len(data) != entry.stop - entry.start:
            raise FileFormatError(f"The file ends within the array `{name}`.")
        if entry.type.dtype.kind == "b" and data.max(initial=0) > 1:
            raise FileFormatError(f"The bools of `{name}` are not all 0 or 1.", fix=_DAMAGED)
        shape: Any = entry.type.shape
        return data.view(entry.type.dtype).reshape(shape)

    def expect(self, kind: str, fix: str) -> None:
        """Refuse a file of another kind.

        Raises:
            FileFormatError: It is of another kind; `fix` says how to make one of this.
        """
        found = self.record.get("format", "safetensors of another library")
        if found != kind:
            raise FileFormatError(f"This is no {kind} file.", given=f"{found:.80}", fix=fix)


@contextmanager
def open_tensors(path: str | os.PathLike[str]) -> Generator[TensorFile]:
    """Open a safetensors file and check its header.

    Raises:
        FileFormatError: It is damaged, cut short, or of a newer format; or what is done inside
            the block finds that.
        OSError: There is no such file, or it must not be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileFormatError("This is not a regular file.")
        with open(path, "rb") as file:
            yield _opened(file)
    except FileFormatError as error:
        error.located(os.fspath(path))
        raise


def _opened(file: IO[bytes]) -> TensorFile:
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(size - 8, LARGEST_HEADER):
        raise FileFormatError(
            "This is no safetensors file, or it was cut short.",
            given=f"{size} bytes" + (f", a header of {length}" if len(start) == 8 else ""),
            fix="Programs without parameters are read by br.Program.load.",
        )
    header = _parsed(file.read(length), "header")
    record = _record(header.pop(_METADATA, {}))
    entries = {readable_name(name): _entry(name, value) for name, value in header.items()}
    entries = dict(sorted(entries.items(), key=lambda one: (one[1].start, one[1].stop)))
    _check_cover(entries, size - 8 - length)
    return TensorFile(_with_complex(entries, record), record, 8 + length, file)


def _parsed(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        text = text if isinstance(text, str) else text.decode()
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except FileFormatError:
        raise
    except (ValueError, RecursionError):
        raise FileFormatError(f"The {what} is not well-formed JSON.", fix=_DAMAGED) from None
    if not is_object(found):
        raise FileFormatError(f"The {what} is not a JSON object.", fix=_DAMAGED)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise FileFormatError(f"The header has `{name:.80}` twice.", fix=_DAMAGED)
        found[name] = value
    return found


def _refuse_constant(text: str) -> None:
    raise FileFormatError(f"{text} is no number of JSON.", fix=_DAMAGED)


def _record(metadata: Any) -> dict[str, Any]:
    if not is_object(metadata):
        raise FileFormatError("The metadata are not a JSON object.", fix=_DAMAGED)
    text: Any = metadata.get(_RECORD)
    if text is None:
        return {}
    record = _parsed(text, "record of Braces") if isinstance(text, str) else {}
    version = record.get("version")
    if type(version) is not int or not isinstance(record.get("format"), str) or version < 1:
        raise FileFormatError("The record of Braces says no format or version.", fix=_DAMAGED)
    if version > VERSION:
        raise FileFormatError(
            f"This file was written by a newer Braces: format {version}, "
            f"this one reads {VERSION}.",
            fix="Update Braces, or save the file with an older one.",
        )
    return record


def _entry(name: str, value: Any) -> Entry:
    fields: Any = value if is_object(value) else {}
    dtype = _DTYPES.get(str(fields.get("dtype")))
    if dtype is None:
        raise FileFormatError(
            f"`{name}` has a dtype that programs do not have: {fields.get('dtype')!r:.40}.",
            fix=f"Convert it to one of {', '.join(_DTYPES)}.",
        )
    shape = _numbers(fields.get("shape"), HIGHEST_RANK, f"shape of `{name}`")
    offsets = _numbers(fields.get("data_offsets"), 2, f"place of `{name}`")
    entry = Entry(TensorType(dtype, shape), *(offsets if len(offsets) == 2 else (1, 0)))
    room = math.prod(max(size, 1) for size in shape) * dtype.itemsize
    needed = math.prod(shape) * dtype.itemsize
    if room > LARGEST_INT or entry.stop - entry.start != needed:
        raise FileFormatError(
            f"`{name}` has not as many bytes as its type needs.",
            given=f"{entry.type}: {needed} bytes, stored {entry.stop - entry.start}",
            fix=_DAMAGED,
        )
    return entry


def _numbers(given: Any, most: int, what: str) -> tuple[int, ...]:
    sizes: list[Any] = given if is_list(given) and len(given) <= most else [None]
    if not all(type(one) is int and 0 <= one <= LARGEST_INT for one in sizes):
        raise FileFormatError(f"The {what} is no list of {most} sizes at most.", fix=_DAMAGED)
    return tuple(sizes)


def _check_cover(entries: Mapping[str, Entry], size: int) -> None:
    """The arrays must follow each other without gaps, and fill the data."""
    at = 0
    for name, entry in entries.items():
        if entry.start != at:
            how = "overlaps" if entry.start < at else "leaves a gap after"
            raise FileFormatError(f"`{name}` {how} the array before it.", fix=_DAMAGED)
        at = entry.stop
    if at != size:
        how = "was cut short" if at > size else "goes on after its last array"
        given = f"{size} bytes of data, {at} declared"
        raise FileFormatError(f"The file {how}.", given=given, fix=_DAMAGED)


def _with_complex(entries: dict[str, Entry], record: Mapping[str, Any]) -> dict[str, Entry]:
    names = record.get("complex128", [])
    for name in names if is_list(names) else [names]:
        entry = entries.get(name) if isinstance(name, str) else None
        if entry is None or entry.type.dtype != np.float64 or entry.type.shape[-1:] != (2,):
            raise FileFormatError(f"`{name!r:.80}` is no complex array.", fix=_DAMAGED)
        entries[name] = replace(entry, type=_complex_type(entry.type))
    return entries


def _complex_type(pairs: TensorType) -> TensorType:
    return TensorType(_COMPLEX, pairs.shape[:-1])


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value that was read from JSON is a list."""
    return isinstance(value, list)
