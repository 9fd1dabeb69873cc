"""Load ONNX files, with limits on their size and version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from braces.errors import FileFormatError, ProgramError
from braces.exchange.onnx.reader.file.schema_check import check_texts
from braces.exchange.onnx.reader.graph.function_bodies import versions_of
from braces.exchange.onnx.reader.graph.node import ONNX_DOMAIN
from braces.lazy import onnx

LARGEST_FILE = 1 << 31
"""The protobuf limit; larger models keep their weights in external files."""
OLDEST = 7
"""The oldest opset version that is supported."""


def load(source: Any) -> tuple[Any, str, Path | None]:
    """Return a model, its name for messages, and the folder of its external files.

    Args:
        source: A path, or a `ModelProto`.

    Raises:
        FileFormatError: If the file is not a model.
        OSError: If the file does not exist, or it cannot be read.
        ProgramError: If `source` is neither a model nor a path.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(cast("str | os.PathLike[str]", source))
        return _parse_file(path), path.name, path.parent
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return copy, copy.graph.name or "model", None
    raise ProgramError(f"expected a path or an onnx.ModelProto, got {source!r:.80}.")


def _parse_file(path: Path) -> Any:
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise FileFormatError(
            f"{path.name} has {size} bytes; protobuf reads at most {LARGEST_FILE}."
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf has two exception types, depending on its version
        raise FileFormatError(
            f"{path.name} is not an ONNX model.", given=str(error), fix="Pass an .onnx file."
        ) from None
    return model


def admit(model: Any, file: str) -> dict[str, int]:
    """Return the opset versions of a model.

    Raises:
        FileFormatError: If the model has no graph, has names that are not UTF-8, or is older
            than the oldest supported version.
    """
    check_texts(model, file)
    if not model.HasField("graph"):
        raise FileFormatError(f"{file} is not a valid ONNX model: missing graph.")
    versions = versions_of(model.opset_import)
    newest = onnx.defs.onnx_opset_version()
    own = versions.setdefault(ONNX_DOMAIN, newest)  # the other domains may be its only ones
    if not OLDEST <= own <= newest:
        raise FileFormatError(
            f"{file} has unsupported opset version {own}; expected {OLDEST} to {newest}.",
            fix="Convert it by onnx.version_converter.convert_version(model, 21).",
        )
    return versions
