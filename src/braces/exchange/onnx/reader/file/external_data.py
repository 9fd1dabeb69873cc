"""Weights that a model keeps in files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from braces.errors import FileFormatError
from braces.exchange.common.model.sibling_files import place_beside
from braces.lazy import onnx

MOST_BYTES = 1 << 36
"""The largest tensor that is read from a file beside a model."""


def take_in(model: Any, folder: Path | None) -> None:
    """Put what lies in files beside a model into it.

    Args:
        model: The model, which is changed.
        folder: Its folder; `None` where it was no file.

    Raises:
        FileFormatError: There is no such file, or it would lie outside of the folder.
    """
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _fill(tensor, folder)


def _tensors(model: Any) -> Iterator[Any]:
    """All tensors of a model: of its graph and its functions, and of graphs in these."""
    graphs = [model.graph, *model.functions]
    while graphs:
        found = graphs.pop()
        if isinstance(found, onnx.FunctionProto):
            attributes = [*found.attribute_proto]
        else:
            attributes = list[Any]()
            yield from found.initializer
            yield from _parts(found.sparse_initializer)
        attributes += [attribute for node in found.node for attribute in node.attribute]
        for attribute in attributes:
            yield from (attribute.t, *attribute.tensors)
            yield from _parts((attribute.sparse_tensor, *attribute.sparse_tensors))
            graphs += [attribute.g] if attribute.HasField("g") else []
            graphs += attribute.graphs


def _parts(sparse: Iterable[Any]) -> Iterator[Any]:
    """The tensors that sparse ones are made of."""
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)


def _fill(tensor: Any, folder: Path | None) -> None:
    said = {entry.key: entry.value for entry in tensor.external_data}
    path = _place(tensor.name, said.get("location", ""), folder)
    try:
        offset, length = int(said.get("offset", 0)), int(said.get("length", -1))
    except ValueError:
        raise _wrong(tensor.name, "its offset or length is no number") from None
    size = path.stat().st_size
    length = size - offset if length < 0 else length
    if min(offset, length) < 0 or length > MOST_BYTES or offset + length > size:
        raise _wrong(
            tensor.name, f"{path.name} has {size} bytes, and {offset} + {length} are read"
        )
    with path.open("rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _place(name: str, location: str, folder: Path | None) -> Path:
    """The file of a tensor, which lies in the folder of the model."""
    if folder is None:
        raise _wrong(name, "the model is no file", "Give its path, and not what was loaded.")
    path = place_beside(folder, location)
    if path is None:
        raise _wrong(name, f"{location!r:.80} lies outside of the folder of the model")
    if not path.is_file():
        raise _wrong(name, f"there is no file {location!r:.80} beside the model")
    return path


def _wrong(name: str, why: str, fix: str | None = None) -> FileFormatError:
    return FileFormatError(f"The weights of `{name:.80}` cannot be read: {why}.", fix=fix)
