"""Program files of Paddle, and the files of their arrays.

    __model__         with one file for each array, or all in __params__      fluid 1.x
    NAME.pdmodel      with NAME.pdiparams                                      2.x

A combined file of arrays has neither names nor a length: the arrays are in the sorted order of
the names of the program's variables. Each consists of a version (0), its LoD, a second version,
a `TensorDesc` with a length prefix, and the numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from braces.errors import BracesError, FileFormatError, visible
from braces.exchange.common.model.sibling_files import sibling_path
from braces.exchange.common.values.constants import Array
from braces.exchange.paddle.graph.dtypes import dtype_named
from braces.exchange.paddle.graph.program_desc import (
    PaddleBlock,
    Tensor,
    read_description,
    read_tensor_header,
)
from braces.extend.programs import check_regular, read_bounded
from braces.extend.types import HIGHEST_RANK

PROGRAM, PROGRAM_SUFFIX, ARRAYS_SUFFIX = "__model__", ".pdmodel", ".pdiparams"
COMBINED = ("__params__", "params")
"""The names of a combined file of arrays next to `__model__`."""
LARGEST_PROGRAM = 1 << 31
"""The size limit of a program in bytes, without weights."""
LARGEST_HEADER = 1 << 12
"""The size limit of an array header in bytes."""
LARGEST_SIZE = 1 << 40
"""The size limit of an axis of an array that has no elements."""


@dataclass(frozen=True)
class Files:
    """The files of one program.

    Attributes:
        program: The program file.
        arrays: The combined file of arrays; `None` if each has a separate file.
    """

    program: Path
    arrays: Path | None

    def read_program(self) -> Sequence[PaddleBlock]:
        """Return the blocks of the program.

        Raises:
            FileFormatError: If the file is not a program.
        """
        return read_description(read_bounded(self.program, LARGEST_PROGRAM), self.program.name)

    def size_bytes(self) -> int:
        """Return the size in bytes of the program and of its combined file of arrays."""
        files = [path for path in (self.program, self.arrays) if path is not None]
        return sum(path.stat().st_size for path in files if path.exists())

    def read_arrays(self, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        """Yield the arrays of these names.

        Raises:
            FileFormatError: If the files do not match, or are outside the folder.
        """
        if self.arrays is None:
            yield from ((name, self._alone(name)) for name in names)
        elif names:
            yield from self._together(self.arrays, sorted(names))

    def _alone(self, name: str) -> Array:
        path = sibling_path(self.program.parent, name)
        if path is None:
            raise _array_error(name, "its file is outside of the folder of the program")
        if not path.is_file():
            raise _array_error(name, f"its file does not exist beside {self.program.name}")
        check_regular(path)
        with path.open("rb") as file:
            return _Stream.of(file, path).only(name)

    @staticmethod
    def _together(path: Path, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        if not path.exists():
            raise FileFormatError(
                f"missing file {path.name} with the arrays of the program: `{names[0]:.80}`, …",
                fix="Place the file that was saved with this program beside it.",
            )
        check_regular(path)
        with path.open("rb") as file:
            stream = _Stream.of(file, path)
            for name in names:
                yield name, stream.array(name)
            stream.close(f"{len(names)} arrays")


def holds_program(path: Path) -> bool:
    """Return whether a path is a Paddle program, or a folder that contains one."""
    if path.is_dir():
        names = (entry.name for entry in path.iterdir())
        return any(_is_program(name) for name in names) or _holds_newer(path)
    return _is_program(path.name)


def _is_program(name: str) -> bool:
    return name == PROGRAM or name.endswith(PROGRAM_SUFFIX)


def _holds_newer(folder: Path) -> bool:
    return any(_is_newer(path) for path in folder.glob("*.json"))


def find_files(path: Path) -> Files:
    """Return the files of the program in a folder, or of a program file.

    Raises:
        FileFormatError: If the folder has no program, or more than one.
        OSError: If the folder does not exist.
    """
    if path.is_dir():
        return _in_folder(path)
    if not path.exists():
        with_suffix = path.with_name(
            f"{path.name}{PROGRAM_SUFFIX}"
        )  # as Paddle's own functions do
        newer = path.with_name(f"{path.name}.json")
        path = next((other for other in (with_suffix, newer) if other.exists()), path)
    path.stat()
    return _of_file(path)


def _in_folder(folder: Path) -> Files:
    if (folder / PROGRAM).is_file():
        return _of_file(folder / PROGRAM)
    programs = sorted(folder.glob(f"*{PROGRAM_SUFFIX}"))
    if len(programs) == 1:
        return _of_file(programs[0])
    if programs:
        raise FileFormatError(
            f"ambiguous: {folder.name or folder} has {len(programs)} Paddle programs.",
            given=", ".join(path.name for path in programs[:8]),
            fix="Pass the path of one of them.",
        )
    if _holds_newer(folder):
        raise _newer_format_error(folder)
    raise FileFormatError(
        f"{folder.name or folder} has no Paddle program.",
        fix=f"Pass a folder with {PROGRAM}, or with NAME{PROGRAM_SUFFIX}.",
    )


def _is_newer(path: Path) -> bool:
    """Return whether this is a program in the format of Paddle 3."""
    return path.is_file() and _has_newer_header(path)


def _has_newer_header(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(256)
    return head.lstrip().startswith(b"{") and b"base_code" in head


def _newer_format_error(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{path.name or path} has the unsupported program format of Paddle 3.",
        fix="Save it by Paddle 2.6, or by Paddle 3 with FLAGS_enable_pir_api=0 in the "
        f"environment: that writes NAME{PROGRAM_SUFFIX}.",
    )


def _of_file(path: Path) -> Files:
    check_regular(path)
    if _has_newer_header(path):
        raise _newer_format_error(path)
    if path.suffix == PROGRAM_SUFFIX:
        arrays = path.with_suffix(ARRAYS_SUFFIX)
        return Files(path, arrays)
    combined_paths = (path.with_name(name) for name in COMBINED)
    return Files(path, next((other for other in combined_paths if other.is_file()), None))


# ---- arrays ----------------------------------------------------------------------------------


@dataclass(eq=False)
class _Stream:
    """A file of arrays that is being read.

    Attributes:
        file: The open file.
        path: Its path, for messages.
        left: The number of remaining bytes.
    """

    file: BinaryIO
    path: Path
    left: int

    @staticmethod
    def of(file: BinaryIO, path: Path) -> _Stream:
        return _Stream(file, path, path.stat().st_size)

    def only(self, name: str) -> Array:
        """Return the array of a file with a single one."""
        array_ = self.array(name)
        self.close(f"`{name}`")
        return array_

    def close(self, what: str) -> None:
        """Check that nothing is left.

        Raises:
            FileFormatError: If bytes remain.
        """
        if self.left:
            raise FileFormatError(
                f"{self.path.name} has {self.left} bytes after {what}.",
                fix="Pass the arrays that were saved with this program.",
            )

    def array(self, name: str) -> Array:
        """Return the next array.

        Raises:
            FileFormatError: If no array remains.
        """
        try:
            self._version(name)
            self._skip_sequences(name)
            self._version(name)
            (length,) = self._numbers(name, "<i")
            if not 0 <= length <= LARGEST_HEADER:
                raise _array_error(name, f"its header has {length} bytes")
            return self._filled(name, read_tensor_header(self._take(name, length), name))
        except BracesError as error:
            raise FileFormatError(
                f"{self.path.name} cannot be read: {error.what}",
                fix="Pass the arrays that were saved with this program.",
            ) from None

    def _filled(self, name: str, tensor: Tensor) -> Array:
        dtype = dtype_named(tensor.code)
        sizes = tensor.dims
        if len(sizes) > HIGHEST_RANK or not all(0 <= n <= LARGEST_SIZE for n in sizes):
            raise _array_error(name, f"invalid shape {sizes!s:.80}")
        data = self._take(name, math.prod(sizes) * dtype.itemsize)
        return (
            np.frombuffer(data, dtype.newbyteorder("<"))
            .astype(dtype, copy=False)
            .reshape(sizes)
        )

    def _version(self, name: str) -> None:
        (version,) = self._numbers(name, "<I")
        if version:
            raise _array_error(name, f"unsupported array version {version}")

    def _skip_sequences(self, name: str) -> None:
        (levels,) = self._numbers(name, "<Q")
        for _ in range(levels):
            (length,) = self._numbers(name, "<Q")
            self._take(name, length)

    def _numbers(self, name: str, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self._take(name, struct.calcsize(form)))

    def _take(self, name: str, count: int) -> bytes:
        """Return the next bytes, with a check of the remaining size."""
        if count > self.left:
            raise _array_error(name, f"expected {count} bytes, got {self.left}")
        self.left -= count
        return self.file.read(count)


def _array_error(name: str, why: str) -> FileFormatError:
    return FileFormatError(f"array `{visible(name):.80}` is invalid: {why}.")
