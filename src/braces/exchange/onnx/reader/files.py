"""Models as files: read with bounds, and nothing outside their folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from braces.errors import FileFormatError, ProgramError
from braces.exchange.onnx.reader.file.schema_check import check_texts
from braces.exchange.onnx.reader.graph.function_bodies import versions_of
from braces.exchange.onnx.reader.graph.node import STANDARD
from braces.lazy import onnx

LARGEST_FILE = 1 << 31
"""What protobuf reads; larger models keep their weights in files beside them."""
OLDEST = 7
"""The oldest version of ONNX's operators that is read."""


def load(given: Any) -> tuple[Any, str, Path | None]:
    """A model, what messages call it, and the folder of the files beside it.

    Args:
        given: A path, or a `ModelProto`.

    Raises:
        FileFormatError: The file is no model.
        OSError: There is no such file, or it must not be read.
        ProgramError: `given` is neither.
    """
    if isinstance(given, str | os.PathLike):
        path = Path(cast("str | os.PathLike[str]", given))
        return _read(path), path.name, path.parent
    if isinstance(given, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(given)
        return copy, copy.graph.name or "model", None
    raise ProgramError(
        f"{given!r:.80} is no model of ONNX.", fix="Give a path, or an onnx.ModelProto."
    )


def _read(path: Path) -> Any:
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise FileFormatError(f"{path.name} has {size} bytes, more than protobuf reads.")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's own, of which there are two by its version
        raise FileFormatError(
            f"{path.name} is no model of ONNX.", given=str(error), fix="Give an .onnx file."
        ) from None
    return model


def admit(model: Any, file: str) -> dict[str, int]:
    """The versions of a model's operators.

    Raises:
        FileFormatError: It has no graph, names that are no text, or is older than what is
            read.
    """
    check_texts(model, file)
    if not model.HasField("graph"):
        raise FileFormatError(f"{file} is no model of ONNX: it has no graph.")
    versions = versions_of(model.opset_import)
    newest = onnx.defs.onnx_opset_version()
    own = versions.setdefault(STANDARD, newest)  # those of its other domains are all it has
    if not OLDEST <= own <= newest:
        raise FileFormatError(
            f"{file} is written in version {own} of ONNX's operators; {OLDEST} to {newest} are "
            "read.",
            fix="onnx.version_converter.convert_version(model, 21) writes it in another one.",
        )
    return versions
