"""Input files of commands: models, programs as bytes or as text, and files of arrays."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from braces.dtypes import TensorType
from braces.errors import FileFormatError, UnknownNameError
from braces.exchange.onnx.reader.importer import from_onnx
from braces.exchange.onnx.reader.metadata import onnx_metadata
from braces.exchange.paddle.graph.files import find_files, holds_program
from braces.exchange.paddle.importer import from_paddle
from braces.ir.files.bounded_read import check_regular, read_bounded
from braces.ir.limits import LARGEST_FILE
from braces.program import Program, parse
from braces.storage.model_files import FORMAT, load_model
from braces.storage.tensor_file import open_tensors

STDIN = "-"
ONNX = ".onnx"
"""Suffix of ONNX models."""
_HEAD = 9


@dataclass(frozen=True)
class Content:
    """Contents of a file.

    Attributes:
        kind: `model`, `program`, `text`, `arrays`, `onnx` or `paddle`.
        size_bytes: The size of the whole file.
        programs: Programs by name.
        arrays: The types of stored arrays by name.
        gives: Default fetches of each program: names and their variables.
        values: Values of the variables of a model of another framework.
        metadata: The metadata of a model.
    """

    kind: str
    size_bytes: int
    programs: Mapping[str, Program]
    arrays: Mapping[str, TensorType] = field(default_factory=dict[str, TensorType])
    gives: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


def read_file(path: str, sizes: Mapping[str, int] | None = None) -> Content:
    """Read a file of any kind that Braces writes, or a model of another framework.

    Args:
        path: The file, `-` for standard input; for a program of Paddle its folder, too.
        sizes: Numbers for symbolic sizes of a model of ONNX.

    Raises:
        FileFormatError: If the format is unknown, or the file is damaged.
        OSError: If the file does not exist or cannot be read.
    """
    if path == STDIN:
        return _read_program(sys.stdin.buffer.read(LARGEST_FILE + 1))
    if holds_program(Path(path)):
        return _read_paddle(Path(path), sizes)
    check_regular(path)
    if path.endswith(ONNX):
        return _read_onnx(path, sizes)
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if is_tensor_file(head):
        return _read_tensors(Path(path))
    return _read_program(read_bounded(path))


def _read_onnx(path: str, sizes: Mapping[str, int] | None) -> Content:
    model = from_onnx(path, sizes=sizes)
    content = _foreign_content(ONNX[1:], os.stat(path).st_size, *model)
    return replace(content, metadata=onnx_metadata(path))


def _read_paddle(path: Path, sizes: Mapping[str, int] | None) -> Content:
    if sizes:
        raise UnknownNameError(
            f"unknown size `{next(iter(sizes))}` of {path.name}: Paddle sizes have no names.",
            fix="Pass shapes in Python: br.from_paddle(path, shapes={'x': [1, 3, 224, 224]}).",
        )
    return _foreign_content("paddle", find_files(path).size_bytes(), *from_paddle(path))


def _foreign_content(
    kind: str, size_bytes: int, program: Program, values: Mapping[str, np.ndarray[Any, Any]]
) -> Content:
    """Return the contents for a program of another framework and its variables."""
    arrays = {name: TensorType(array.dtype, array.shape) for name, array in values.items()}
    return replace(_single_program(kind, size_bytes, program), arrays=arrays, values=values)


def is_foreign(path: str) -> bool:
    """Return whether a path names a program of another framework."""
    return path.endswith(ONNX) or holds_program(Path(path))


def is_tensor_file(head: bytes) -> bool:
    """Return whether a file header is that of safetensors: a length, then JSON."""
    return len(head) == _HEAD and head[8:9] == b"{" and head[7] == 0


def _read_tensors(path: Path) -> Content:
    size = os.stat(path).st_size
    with open_tensors(path) as file:
        is_model = file.record.get("format") == FORMAT
        arrays = file.variables
    if not is_model:
        return Content("arrays", size, {}, arrays)
    model = load_model(path)
    gives = {name: model.entry(name).fetches for name in model.programs}
    return Content("model", size, model.programs, arrays, gives, metadata=model.metadata)


def _read_program(data: bytes) -> Content:
    if len(data) > LARGEST_FILE:
        raise FileFormatError(f"the standard input is longer than {LARGEST_FILE} bytes.")
    text = as_text(data)
    if text is None:
        return _single_program("program", len(data), Program.from_bytes(data))
    return _single_program("text", len(data), parse(text))


def _single_program(kind: str, size_bytes: int, program: Program) -> Content:
    gives = {"program": {name: name for name in program.results}}
    return Content(kind, size_bytes, {"program": program}, gives=gives)


def as_text(data: bytes) -> str | None:
    """Return the text form, if the bytes begin like it."""
    if not data.lstrip().startswith((b"program", b"#")):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
