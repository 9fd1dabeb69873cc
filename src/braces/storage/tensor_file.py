"""The one file format of this package: safetensors, and what Braces writes into its metadata.

    metadata := {"braces": record}
    record   := JSON {"format": "braces.…", "version": 1, …}        as a text

The library of the format reads the files, and holds whatever a header declares against the
length of the file before anything is allocated. What is written is byte for byte what the
library writes. It is written here because the library would replace the file itself, and what
is synchronised, locked and given a mode must be the very file that stays. The same content
gives the same bytes. The format has no complex128: such an array is an F64 with one more axis
of size 2, and its name is in the record's `complex128`. The files of other libraries are read
too; they have no record.
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
from braces.ir.files.atomic_write import replacing
from braces.ir.files.bounded_read import check_regular
from braces.ir.limits import LARGEST_INT, readable_name

VERSION = 1
RESERVED = "__braces__"
"""No variable in a file has a name that begins so."""

Array = np.ndarray[Any, np.dtype[Any]]
Region: TypeAlias = tuple[slice, ...]
"""Where a part of an array is: from where to where on each axis."""

_RECORD = "braces"
_ALIGNMENT = 8
_COMPLEX = COMPUTED["c128"]
_DTYPES = {short.upper(): dtype for short, dtype in COMPUTED.items() if dtype != _COMPLEX}
_ORDER = (
    "u64", "i64", "f64", "c64", "f32", "u32", "i32",
    "bf16", "f16", "u16", "i16", "i8", "u8", "bool",
)  # fmt: skip
"""Arrays lie in this order of their dtypes, so that each is aligned in a mapped file."""
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
        record: What else the metadata say: plain JSON.

    Raises:
        OSError: The folder is missing, full, or must not be written to.
    """
    with replacing(path) as file:
        for piece in tensor_pieces(arrays, kind, **record):
            file.write(piece)


def tensor_pieces(
    arrays: Mapping[str, Array], kind: str, **record: Any
) -> Iterator[bytes | memoryview]:
    """What a file of these arrays holds, piece by piece: its header, then each array.

    Nothing is copied but an array whose entries do not follow each other, when it comes.
    """
    wide = sorted(name for name, array in arrays.items() if array.dtype == _COMPLEX)
    whole = {"format": kind, "version": VERSION, **record}
    if wide:
        whole["complex128"] = wide
    bytes_ = {name: short_name(a.dtype) for name, a in arrays.items() if is_stored(a.dtype)}
    if bytes_:
        whole["stored"] = dict(sorted(bytes_.items()))
    order = sorted(arrays, key=lambda name: (_ORDER.index(_form(arrays[name])[0]), name))
    sorted_arrays = {name: arrays[name] for name in order}
    yield _header(sorted_arrays, json.dumps(whole, allow_nan=False))
    yield from map(_in_order, sorted_arrays.values())


def _form(array: Array) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape as the format has them."""
    if array.dtype == _COMPLEX:
        return "f64", (*array.shape, 2)
    if is_stored(array.dtype):
        return "u8", array.shape
    return short_name(array.dtype), array.shape


def _header(arrays: Mapping[str, Array], record: str) -> bytes:
    """The length of the header, and where each array lies in what follows it."""
    entries: dict[str, Any] = {"__metadata__": {_RECORD: record}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype, shape = _form(array)
        entries[name] = {"dtype": dtype.upper(), "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_ALIGNMENT, "little") + text


def _in_order(array: Array) -> memoryview:
    """The bytes of an array whose entries follow each other, copied only where they do not."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


# ---- reading ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorFile:
    """An open file whose header was found good.

    Attributes:
        path: Where it is.
        types: The types of its arrays by name, in the order of the data.
        record: What Braces wrote in the metadata; empty where another library wrote the file.
        handle: The library's view of the file.
    """

    path: str
    types: Mapping[str, TensorType]
    record: Mapping[str, Any]
    handle: Any

    @property
    def variables(self) -> dict[str, TensorType]:
        """The types of the arrays that are variables, and not parts of the format."""
        return {n: type_ for n, type_ in self.types.items() if not n.startswith(RESERVED)}

    def read(self, name: str, region: Region | None = None) -> Array:
        """One array, newly allocated.

        Args:
            name: Which one.
            region: The part of each of its axes that is read, and nothing beside; else all.

        Raises:
            UnknownNameError: There is none of this name.
            FileFormatError: A bool is neither 0 nor 1.
        """
        if name not in self.types:
            raise UnknownNameError(
                f"The file has no array `{name}`.", fix=suggest(name, self.types)
            )
        wanted = self.types[name]
        shape: Any = wanted.shape
        if region is None or all(map(_is_whole, region, shape)):
            array: Array = self.handle.get_tensor(name)
        else:
            shape = tuple(
                len(range(size)[part]) for size, part in zip(shape, region, strict=True)
            )
            if 0 in shape:
                return np.empty(shape, wanted.dtype)
            array = self.handle.get_slice(name)[region]
        if wanted.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise FileFormatError(
                f"The bools of `{name}` are not all 0 or 1.", at=self.path, fix=_DAMAGED
            )
        return array.view(wanted.dtype).reshape(shape)

    def expect(self, kind: str, fix: str) -> None:
        """Refuse a file of another kind.

        Raises:
            FileFormatError: It is of another kind; `fix` says how to make one of this.
        """
        found = self.record.get("format", "safetensors of another library")
        if found != kind:
            raise FileFormatError(
                f"This is no {kind} file.", given=f"{visible(found):.80}", fix=fix
            )


@contextmanager
def open_tensors(path: str | os.PathLike[str]) -> Generator[TensorFile]:
    """Open a safetensors file and check its header.

    The file is mapped into memory, so nothing may cut it short while it is open; what Braces
    writes takes the place of a file and leaves the old one whole.

    Raises:
        FileFormatError: It is damaged, cut short, or of a newer format; or what is done inside
            the block finds that.
        OSError: There is no such file, or it must not be read.
    """
    try:
        check_regular(path)
        with safe_open(path, "np") as handle:
            yield _opened(os.fspath(path), handle)
    except SafetensorError as error:
        raise FileFormatError(
            "This is no safetensors file, or it is damaged.",
            given=str(error).removeprefix("Error while deserializing header: "),
            at=os.fspath(path),
            fix="Programs without parameters are read by br.Program.load.",
        ) from None
    except FileFormatError as error:
        error.located(os.fspath(path))
        raise


def read_tensors(data: bytes, source: str) -> TensorFile:
    """What a file would hold, from memory; `source` says in errors where it came from.

    Raises:
        FileFormatError: It is damaged, cut short, or of a newer format.
    """
    try:
        return _opened(source, _InMemory(data))
    except SafetensorError as error:
        raise FileFormatError(
            "This is not in the format of safetensors.", given=str(error)[:200], at=source
        ) from None


class _InMemory:
    """The library's view of a file, of bytes that are in memory."""

    def __init__(self, data: bytes) -> None:
        found: Any = deserialize(data)  # which checks them
        self._found: dict[str, Any] = {name: array for name, array in found}
        header = json.loads(data[_ALIGNMENT : _ALIGNMENT + int.from_bytes(data[:8], "little")])
        self._metadata: Mapping[str, str] | None = header.get("__metadata__")

    def metadata(self) -> Mapping[str, str] | None:
        """The texts in the header."""
        return self._metadata

    def offset_keys(self) -> Iterable[str]:
        """The names of the arrays."""
        return self._found

    def get_slice(self, name: str) -> _Declared:
        """What the header says of an array."""
        return _Declared(self._found[name])

    def get_tensor(self, name: str) -> Array:
        """The bytes of an array."""
        return np.frombuffer(self._found[name]["data"], np.uint8)


@dataclass(frozen=True)
class _Declared:
    """What a header says of an array."""

    found: Mapping[str, Any]

    def get_shape(self) -> Sequence[int]:
        """Its sizes."""
        return self.found["shape"]

    def get_dtype(self) -> str:
        """Its dtype, as the format calls it."""
        return self.found["dtype"]


def _is_whole(part: slice, size: int) -> bool:
    return len(range(size)[part]) == size


def _opened(path: str, handle: Any) -> TensorFile:
    record = _record(handle.metadata())
    types = {readable_name(name): _type(name, handle) for name in handle.offset_keys()}
    types = _with_stored(_with_complex(types, record), record)
    return TensorFile(path, types, record, handle)


def _record(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    text = (metadata or {}).get(_RECORD)
    if text is None:
        return {}
    record = _parsed(text)
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


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not is_object(found):
        raise FileFormatError("The record of Braces is not a JSON object.", fix=_DAMAGED)
    return found


def _type(name: str, handle: Any) -> TensorType:
    stored = handle.get_slice(name)
    shape: tuple[int, ...] = tuple(stored.get_shape())
    dtype = _DTYPES.get(stored.get_dtype())
    if dtype is None:
        raise FileFormatError(
            f"`{name}` has a dtype that programs do not have: {stored.get_dtype()}.",
            fix=f"Convert it to one of {', '.join(_DTYPES)}.",
        )
    if len(shape) > HIGHEST_RANK or prod(max(n, 1) for n in shape) > LARGEST_INT:
        raise FileFormatError(f"`{name}` has a shape that no array has.", fix=_DAMAGED)
    return TensorType(dtype, shape)


def _with_complex(
    types: dict[str, TensorType], record: Mapping[str, Any]
) -> dict[str, TensorType]:
    names = record.get("complex128", [])
    for name in names if is_list(names) else [names]:
        pairs = types.get(name) if isinstance(name, str) else None
        if pairs is None or pairs.dtype != np.float64 or pairs.shape[-1:] != (2,):
            raise FileFormatError(f"`{name!r:.80}` is no complex array.", fix=_DAMAGED)
        types[name] = TensorType(_COMPLEX, pairs.shape[:-1])
    return types


def _with_stored(
    types: dict[str, TensorType], record: Mapping[str, Any]
) -> dict[str, TensorType]:
    """What is only stored, which the library has no arrays for, is written as bytes."""
    found = record.get("stored", {})
    for name, short in found.items() if is_object(found) else [(found, None)]:
        bytes_ = types.get(name) if isinstance(name, str) else None
        dtype = STORED.get(short) if isinstance(short, str) else None
        if bytes_ is None or bytes_.dtype != np.uint8 or dtype is None:
            raise FileFormatError(f"`{name!r:.80}` is no array of bytes.", fix=_DAMAGED)
        types[name] = bytes_.with_dtype(dtype)
    return types


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value that was read from JSON is a list."""
    return isinstance(value, list)
