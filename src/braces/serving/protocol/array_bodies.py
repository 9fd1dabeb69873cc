"""Bodies without JSON: arrays as .npy, .npz and safetensors, by their content type.

| content type | body |
|---|---|
| `application/x-npy` | one array, for a model with one input |
| `application/x-npz` | arrays by name |
| `application/vnd.safetensors` | arrays by name |

Nothing is unpickled, and no size is trusted before the bytes are there.
"""

from __future__ import annotations

import io
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.lib import format as npy_format

from braces.dtypes import DType
from braces.errors import FileFormatError, visible
from braces.serving.protocol.refusal import RefusalError, invalid
from braces.serving.protocol.requests import LONGEST_NAME, MOST_TENSORS, from_bytes
from braces.serving.protocol.tensor_spec import DATATYPES, Array
from braces.storage.tensor_file import read_tensors

NPY, NPZ, SAFETENSORS = "application/x-npy", "application/x-npz", "application/vnd.safetensors"
FORMATS = (NPY, NPZ, SAFETENSORS)
ONLY = ""
"""The name of the array of a .npy body."""
_BAD_ARCHIVE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError,
    ValueError, EOFError, OSError, RuntimeError, KeyError, IndexError, struct.error,
)  # fmt: skip


def parse_arrays(body: bytes, content_type: str, most_bytes: int) -> dict[str, Array]:
    """Parse a body of arrays.

    Args:
        body: The body.
        content_type: One of `FORMATS`.
        most_bytes: The largest number of bytes of the arrays together, once decompressed.

    Raises:
        RefusalError: If the body does not have this format.
    """
    if content_type == NPY:
        return {ONLY: parse_npy(body)}
    return _parse_npz(body, most_bytes) if content_type == NPZ else _parse_safetensors(body)


def parse_npy(body: bytes) -> Array:
    """Parse an array in the format of `numpy.save`.

    Raises:
        RefusalError: If the bytes are not an array, or have Python objects.
    """
    file = io.BytesIO(body)
    try:
        shape, fortran, dtype = _read_header(file)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError) as error:
        raise invalid(f"invalid .npy array: {visible(str(error)[:200])}") from None
    little: DType = dtype.newbyteorder("<") if not dtype.hasobject else dtype
    if little not in DATATYPES:
        raise invalid(f"unsupported dtype {visible(str(dtype)[:80])} of a .npy array.")
    data = memoryview(body)[file.tell() :]
    if len(data) != dtype.itemsize * math.prod(shape):
        raise invalid(f"invalid .npy array: shape {list(shape)} with {len(data)} bytes.")
    if dtype != little:
        data = memoryview(np.frombuffer(data, dtype).astype(little).tobytes())
    array = from_bytes(data, little, shape[::-1] if fortran else shape, "array")
    return array.T if fortran else array


def _read_header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, DType]:
    major, _ = npy_format.read_magic(file)
    reads: Mapping[int, Any] = {
        1: npy_format.read_array_header_1_0,
        2: npy_format.read_array_header_2_0,
    }
    if major not in reads:
        raise ValueError(f"unsupported version {major}")
    shape, fortran, dtype = reads[major](file)
    if len(shape) > 64 or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("shape out of range")
    return shape, fortran, dtype


def _parse_npz(body: bytes, most_bytes: int) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _parse_members(archive, most_bytes)
    except RefusalError:
        raise
    except _BAD_ARCHIVE as error:
        raise invalid(f"invalid .npz archive: {visible(str(error)[:200])}") from None


def _parse_members(archive: zipfile.ZipFile, most_bytes: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    members = archive.infolist()
    if len(members) > MOST_TENSORS:
        raise invalid(f"the .npz archive has more than {MOST_TENSORS} arrays.")
    for member in members:
        name = member.filename.removesuffix(".npy")[:LONGEST_NAME]
        if name in arrays:
            raise invalid(f"duplicate array `{visible(name)}` in the .npz archive.")
        with archive.open(member) as file:
            data = file.read(most_bytes + 1)
        most_bytes -= len(data)
        if most_bytes < 0:
            raise RefusalError(413, "the arrays of the .npz archive are too large.")
        arrays[name] = parse_npy(data)
    return arrays


def _parse_safetensors(body: bytes) -> dict[str, Array]:
    try:
        file = read_tensors(body, "body")
        arrays = {name: file.read(name) for name in file.variables}
    except (FileFormatError, safetensors.SafetensorError) as error:
        detail = error.given or error.what if isinstance(error, FileFormatError) else str(error)
        raise invalid(f"invalid safetensors body: {visible(detail[:200])}") from None
    if len(arrays) > MOST_TENSORS:
        raise invalid(f"the body has more than {MOST_TENSORS} arrays.")
    return arrays


def pack_arrays(arrays: Mapping[str, Array], content_type: str) -> bytes:
    """Return arrays in one of `FORMATS`.

    Raises:
        RefusalError: If the format is .npy, and there are several arrays; status 406.
    """
    if content_type == SAFETENSORS:
        return safetensors.numpy.save(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        )
    if content_type == NPY and len(arrays) != 1:
        raise RefusalError(406, f"the model has {len(arrays)} outputs; accept {NPZ}.")
    file = io.BytesIO()
    if content_type == NPY:
        np.save(file, *map(_portable, arrays.values()), allow_pickle=False)
    else:
        np.savez(file, **{name: _portable(array) for name, array in arrays.items()})  # pyright: ignore
    return file.getvalue()


def _portable(array: Array) -> Array:
    """Return an array that NumPy can save; bfloat16 becomes float32."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array
