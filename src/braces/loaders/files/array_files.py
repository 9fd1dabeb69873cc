"""Data sets in files: NumPy, safetensors, Arrow and Parquet."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from braces.errors import FeedError, FileFormatError
from braces.ir.files.bounded_read import check_regular
from braces.loaders.core.columns import Array, Column
from braces.storage.tensor_file import open_tensors

Loaded = dict[str, Column]


def open_arrays(path: str) -> Loaded:
    """Return the arrays of a NumPy or safetensors file, as memory maps where possible.

    Raises:
        FileFormatError: If the file is damaged, or contains Python objects.
        FileNotFoundError: If the file does not exist.
    """
    check_regular(path)
    read_file = _READERS[Path(path).suffix.lower()]
    try:
        return read_file(path)
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"cannot read {path}: {error}.") from None


def open_array(path: str) -> Array:
    """Return the array of a `.npy` file as a memory map."""
    (column,) = open_arrays(path).values()
    return np.asarray(column)


def _read_npy(path: str) -> Loaded:
    return {Path(path).stem: np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))}


def _read_npz(path: str) -> Loaded:
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
        return {
            member.filename.removesuffix(".npy"): _member(path, archive, member, file)
            for member in members
        }


def _member(
    path: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: BinaryIO
) -> Array:
    """Return an array of an archive: a memory map if it is not compressed."""
    if member.compress_type != zipfile.ZIP_STORED:
        with archive.open(member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    file.seek(member.header_offset + 26)
    name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
    file.seek(member.header_offset + 30 + name + extra)
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read_header = np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} contains Python objects")
    order = "F" if fortran else "C"
    return _mapped(path, dtype, file.tell(), shape, order)


def _mapped(
    path: str, dtype: Any, offset: int, shape: Sequence[int], order: Any = "C"
) -> Array:
    if 0 in shape:
        return np.zeros(tuple(shape), dtype)
    return np.asarray(np.memmap(path, dtype, "r", offset, tuple(shape), order))


def _read_safetensors(path: str) -> Loaded:
    with open_tensors(path) as tensors:
        types = tensors.variables
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    begin = {name: 8 + size + header[name]["data_offsets"][0] for name in types}
    return {
        name: _mapped(path, type_.dtype, begin[name], cast("Any", type_.shape))
        for name, type_ in types.items()
    }


_READERS: Mapping[str, Callable[[str], Loaded]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
}
ARROW = (".arrow", ".feather", ".ipc")
PARQUET = (".parquet", ".pq")


def file_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of a file by its suffix: `arrays`, `arrow` or `parquet`.

    Raises:
        FeedError: If the suffix is unknown.
    """
    suffix = Path(path).suffix.lower()
    if suffix in _READERS:
        return "arrays"
    if suffix in ARROW or suffix in PARQUET:
        return "arrow" if suffix in ARROW else "parquet"
    known = ", ".join([*_READERS, *ARROW, *PARQUET])
    raise FeedError(
        f"unknown suffix {suffix!r} of a data file.",
        given=str(path),
        fix=f"Supported: {known}.",
    )
