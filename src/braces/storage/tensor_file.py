"""The file format of this package: safetensors, with metadata of Braces.

    metadata := {"braces": record}
    record   := JSON {"format": "braces.…", "version": 1, …}        as a text

The safetensors library reads the files, and checks the header against the length of the file
before anything is allocated. The output equals that of the library byte for byte. It is written
here because the library would replace the file itself, while fsync, locks and modes must apply
to the final file. The same content gives the same bytes. The format has no complex128: such an
array is stored as F64 with one more axis of size 2, and its name is in the record's
`complex128`. Files of other libraries are read too; they have no record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open

from braces.dtypes import COMPUTED, HIGHEST_RANK, STORED, TensorType, is_stored, short_name
from braces.errors import FileFormatError, UnknownNameError, suggest, visible
from braces.ir.files.atomic_write import replace_atomically
from braces.ir.files.bounded_read import check_regular
from braces.ir.limits import LARGEST_INT, readable_name

VERSION = 1
RESERVED = "__braces__"
"""The prefix of names that are not variables."""

Array = np.ndarray[Any, np.dtype[Any]]
Region: TypeAlias = tuple[slice, ...]
"""A slice for each axis of an array."""

_RECORD = "braces"
_ALIGNMENT = 8
_COMPLEX = COMPUTED["c128"]
_DTYPES = {short.upper(): dtype for short, dtype in COMPUTED.items() if dtype != _COMPLEX}
_ORDER = (
    "u64", "i64", "f64", "c64", "f32", "u32", "i32",
    "bf16", "f16", "u16", "i16", "i8", "u8", "bool",
)  # fmt: skip
"""The order of arrays by dtype, which aligns each in a mapped file."""
_DAMAGED = "The file may be damaged, or was not written by Braces."


# ---- writing ---------------------------------------------------------------------------------


def write_tensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], kind: str, **record: Any
) -> None:
    """Write arrays to a file atomically.

    Args:
        path: The file; an existing one is replaced.
        arrays: The arrays by name, of dtypes that programs have.
        kind: The format name, as `braces.parameters`.
        record: Other metadata: plain JSON.

    Raises:
        OSError: If the folder is missing, full, or not writable.
    """
    with replace_atomically(path) as file:
        for piece in tensor_pieces(arrays, kind, **record):
            file.write(piece)


def tensor_pieces(
    arrays: Mapping[str, Array], kind: str, **record: Any
) -> Iterator[bytes | memoryview]:
    """Yield the contents of a file of these arrays: its header, then each array.

    Only arrays that are not contiguous are copied, one at a time.
    """
    complex_names = sorted(name for name, array in arrays.items() if array.dtype == _COMPLEX)
    metadata = {"format": kind, "version": VERSION, **record}
    if complex_names:
        metadata["complex128"] = complex_names
    stored_dtypes = {
        name: short_name(a.dtype) for name, a in arrays.items() if is_stored(a.dtype)
    }
    if stored_dtypes:
        metadata["stored"] = dict(sorted(stored_dtypes.items()))
    order = sorted(arrays, key=lambda name: (_ORDER.index(_stored_form(arrays[name])[0]), name))
    sorted_arrays = {name: arrays[name] for name in order}
    yield _header(sorted_arrays, json.dumps(metadata, allow_nan=False))
    yield from map(_in_order, sorted_arrays.values())


def _stored_form(array: Array) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape in the file format."""
    if array.dtype == _COMPLEX:
        return "f64", (*array.shape, 2)
    if is_stored(array.dtype):
        return "u8", array.shape
    return short_name(array.dtype), array.shape


def _header(arrays: Mapping[str, Array], record: str) -> bytes:
    """Return the header with its length prefix and the offsets of the arrays."""
    entries: dict[str, Any] = {"__metadata__": {_RECORD: record}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype, shape = _stored_form(array)
        entries[name] = {"dtype": dtype.upper(), "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_ALIGNMENT, "little") + text


def _in_order(array: Array) -> memoryview:
    """Return the bytes of an array, copied only if it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


# ---- reading ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorFile:
    """An open file with a valid header.

    Attributes:
        path: Its path.
        types: The types of its arrays by name, in the order of the data.
        record: The metadata of Braces; empty for files of other libraries.
        handle: The reader of the safetensors library.
    """

    path: str
    types: Mapping[str, TensorType]
    record: Mapping[str, Any]
    handle: Any

    @property
    def variables(self) -> dict[str, TensorType]:
        """The types of the arrays that are variables, without those of the format."""
        return {n: type_ for n, type_ in self.types.items() if not n.startswith(RESERVED)}

    def read(self, name: str, region: Region | None = None) -> Array:
        """Read an array into new memory.

        Args:
            name: Its name.
            region: The slice of each axis to read, and nothing else; by default all.

        Raises:
            UnknownNameError: If the array does not exist.
            FileFormatError: If a bool is neither 0 nor 1.
        """
        if name not in self.types:
            raise UnknownNameError(
                f"unknown array `{name}` of the file.", fix=suggest(name, self.types)
            )
        declared = self.types[name]
        shape: Any = declared.shape
        if region is None or all(map(_is_whole, region, shape)):
            array: Array = self.handle.get_tensor(name)
        else:
            shape = tuple(
                len(range(size)[part]) for size, part in zip(shape, region, strict=True)
            )
            if 0 in shape:
                return np.empty(shape, declared.dtype)
            array = self.handle.get_slice(name)[region]
        if declared.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise FileFormatError(
                f"invalid bools in `{name}`: expected bytes 0 and 1.",
                at=self.path,
                fix=_DAMAGED,
            )
        return array.view(declared.dtype).reshape(shape)

    def expect(self, kind: str, fix: str) -> None:
        """Raise an error for a file of another kind.

        Raises:
            FileFormatError: If the file is of a different kind; `fix` is the advice.
        """
        actual = self.record.get("format", "safetensors of another library")
        if actual != kind:
            raise FileFormatError(
                f"expected a file of format {kind}.", given=f"{visible(actual):.80}", fix=fix
            )


@contextmanager
def open_tensors(
    path: str | os.PathLike[str],
    advice: str = "Read programs without parameters with br.Program.load.",
) -> Generator[TensorFile]:
    """Open a safetensors file, and check its header.

    The file is mapped into memory, so it must not be truncated while it is open; Braces
    replaces files instead of modifying them.

    Args:
        path: The file.
        advice: The fix of the error for a file of another format.

    Raises:
        FileFormatError: If the file is damaged, truncated, or of a newer format; errors of the
            block get its path.
        OSError: If the file does not exist, or it cannot be read.
    """
    try:
        check_regular(path)
        with safe_open(path, "np") as handle:
            yield _parse_header(os.fspath(path), handle)
    except SafetensorError as error:
        raise FileFormatError(
            "invalid or damaged safetensors file.",
            given=str(error).removeprefix("Error while deserializing header: "),
            at=os.fspath(path),
            fix=advice,
        ) from None
    except FileFormatError as error:
        error.located(os.fspath(path))
        raise


def read_tensors(data: bytes, source: str) -> TensorFile:
    """Parse the contents of a file from memory; `source` is its origin, for errors.

    Raises:
        FileFormatError: If the data is damaged, truncated, or of a newer format.
    """
    try:
        return _parse_header(source, _InMemory(data))
    except SafetensorError as error:
        raise FileFormatError(
            "invalid safetensors data.", given=str(error)[:200], at=source
        ) from None


class _InMemory:
    """A reader like that of the library, over bytes in memory."""

    def __init__(self, data: bytes) -> None:
        arrays: Any = deserialize(data)  # which checks them
        self._found: dict[str, Any] = {name: array for name, array in arrays}
        header = json.loads(data[_ALIGNMENT : _ALIGNMENT + int.from_bytes(data[:8], "little")])
        self._metadata: Mapping[str, str] | None = header.get("__metadata__")

    def metadata(self) -> Mapping[str, str] | None:
        """Return the metadata of the header."""
        return self._metadata

    def offset_keys(self) -> Iterable[str]:
        """Return the names of the arrays."""
        return self._found

    def get_slice(self, name: str) -> _Declared:
        """Return the header entry of an array."""
        return _Declared(self._found[name])

    def get_tensor(self, name: str) -> Array:
        """Return the bytes of an array."""
        return np.frombuffer(self._found[name]["data"], np.uint8)


@dataclass(frozen=True)
class _Declared:
    """The header entry of an array."""

    found: Mapping[str, Any]

    def get_shape(self) -> Sequence[int]:
        """Return its shape."""
        return self.found["shape"]

    def get_dtype(self) -> str:
        """Return its dtype, as the format names it."""
        return self.found["dtype"]


def _is_whole(part: slice, size: int) -> bool:
    return len(range(size)[part]) == size


def _parse_header(path: str, handle: Any) -> TensorFile:
    record = _record(handle.metadata())
    types = {readable_name(name): _type(name, handle) for name in handle.offset_keys()}
    types = _with_stored(_with_complex(types, record), record)
    return TensorFile(path, types, record, handle)


def _record(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    text = (metadata or {}).get(_RECORD)
    if text is None:
        return {}
    record = _parse_record(text)
    version = record.get("version")
    if type(version) is not int or not isinstance(record.get("format"), str) or version < 1:
        raise FileFormatError(
            "missing or invalid format or version in the record of Braces.", fix=_DAMAGED
        )
    if version > VERSION:
        raise FileFormatError(
            f"this file was written by a newer Braces: format {version}, "
            f"this one reads {VERSION}.",
            fix="Update Braces, or save the file with an older one.",
        )
    return record


def _parse_record(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not is_object(parsed):
        raise FileFormatError("the record of Braces is not a JSON object.", fix=_DAMAGED)
    return parsed


def _type(name: str, handle: Any) -> TensorType:
    stored = handle.get_slice(name)
    shape: tuple[int, ...] = tuple(stored.get_shape())
    dtype = _DTYPES.get(stored.get_dtype())
    if dtype is None:
        raise FileFormatError(
            f"unsupported dtype {stored.get_dtype()} of `{name}`.",
            fix=f"Convert it to one of {', '.join(_DTYPES)}.",
        )
    if len(shape) > HIGHEST_RANK or prod(max(n, 1) for n in shape) > LARGEST_INT:
        raise FileFormatError(f"invalid shape of `{name}`.", fix=_DAMAGED)
    return TensorType(dtype, shape)


def _with_complex(
    types: dict[str, TensorType], record: Mapping[str, Any]
) -> dict[str, TensorType]:
    names = record.get("complex128", [])
    for name in names if is_list(names) else [names]:
        pairs = types.get(name) if isinstance(name, str) else None
        if pairs is None or pairs.dtype != np.float64 or pairs.shape[-1:] != (2,):
            raise FileFormatError(f"expected a complex array for {name!r:.80}.", fix=_DAMAGED)
        types[name] = TensorType(_COMPLEX, pairs.shape[:-1])
    return types


def _with_stored(
    types: dict[str, TensorType], record: Mapping[str, Any]
) -> dict[str, TensorType]:
    """Restore storage dtypes, which the library lacks, and which are stored as bytes."""
    entries = record.get("stored", {})
    for name, short in entries.items() if is_object(entries) else [(entries, None)]:
        byte_type = types.get(name) if isinstance(name, str) else None
        dtype = STORED.get(short) if isinstance(short, str) else None
        if byte_type is None or byte_type.dtype != np.uint8 or dtype is None:
            raise FileFormatError(f"expected an array of bytes for {name!r:.80}.", fix=_DAMAGED)
        types[name] = byte_type.with_dtype(dtype)
    return types


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is a list."""
    return isinstance(value, list)
