"""External data: weights that a model keeps in files next to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from braces.errors import FileFormatError
from braces.exchange.common.model.sibling_files import sibling_path
from braces.lazy import onnx

MOST_BYTES = 1 << 36
"""The largest external tensor that is read."""


def load_external_data(model: Any, folder: Path | None) -> None:
    """Load the external data of a model into it.

    Args:
        model: The model, which is modified.
        folder: Its folder; `None` if it was not read from a file.

    Raises:
        FileFormatError: If a file does not exist, or is outside the folder.
    """
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _load_tensor(tensor, folder)


def _tensors(model: Any) -> Iterator[Any]:
    """Yield all tensors of a model: of its graph, its functions, and their subgraphs."""
    graphs = [model.graph, *model.functions]
    while graphs:
        container = graphs.pop()
        if isinstance(container, onnx.FunctionProto):
            attributes = [*container.attribute_proto]
        else:
            attributes = list[Any]()
            yield from container.initializer
            yield from _sparse_tensors(container.sparse_initializer)
        attributes += [attribute for node in container.node for attribute in node.attribute]
        for attribute in attributes:
            yield from (attribute.t, *attribute.tensors)
            yield from _sparse_tensors((attribute.sparse_tensor, *attribute.sparse_tensors))
            graphs += [attribute.g] if attribute.HasField("g") else []
            graphs += attribute.graphs


def _sparse_tensors(sparse: Iterable[Any]) -> Iterator[Any]:
    """Yield the dense tensors that make up sparse ones."""
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)


def _load_tensor(tensor: Any, folder: Path | None) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _external_path(tensor.name, entries.get("location", ""), folder)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError:
        raise _data_error(tensor.name, "offset or length is not an integer") from None
    size = path.stat().st_size
    length = size - offset if length < 0 else length
    if min(offset, length) < 0 or length > MOST_BYTES or offset + length > size:
        raise _data_error(
            tensor.name,
            f"offset {offset} + length {length} exceeds {path.name} ({size} bytes)",
        )
    with path.open("rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _external_path(name: str, location: str, folder: Path | None) -> Path:
    """Return the file of a tensor, in the folder of the model."""
    if folder is None:
        raise _data_error(
            name, "the model was not loaded from a file", "Pass the path of the model."
        )
    path = sibling_path(folder, location)
    if path is None:
        raise _data_error(name, f"{location!r:.80} is outside of the folder of the model")
    if not path.is_file():
        raise _data_error(name, f"file {location!r:.80} does not exist beside the model")
    return path


def _data_error(name: str, why: str, fix: str | None = None) -> FileFormatError:
    return FileFormatError(f"cannot read external data of tensor `{name:.80}`: {why}.", fix=fix)
