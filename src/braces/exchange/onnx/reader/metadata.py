"""Metadata of ONNX models."""

from __future__ import annotations

from os import PathLike
from typing import Any

from braces.exchange.common.model.metadata_texts import read_texts
from braces.exchange.onnx.reader.files import load
from braces.exchange.onnx.types import PRODUCER


def onnx_metadata(model: str | PathLike[str] | Any) -> dict[str, Any]:
    """Return the metadata of an ONNX model, such as names of classes, for `br.save_model`.

    Entries of `metadata_props` become texts, or lists and dicts if they are JSON. Entries that
    exceed a limit of metadata, such as 8 MiB, are left out. Nothing is evaluated.

    Args:
        model: A path, or an `onnx.ModelProto`.

    Raises:
        FileFormatError: If the file is not a model.
        OSError: If the file does not exist.

    Example:
        >>> import braces as br, onnx, onnx.parser
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 18]>
        ...     g (float[N] x) => (float[N] y) { y = Relu(x) }''')
        >>> onnx.helper.set_model_props(model, {"classes": '["cat", "dog"]', "author": "me"})
        >>> br.onnx_metadata(model)
        {'classes': ['cat', 'dog'], 'author': 'me'}
    """
    proto, _, _ = load(model)
    texts = ((entry.key, entry.value) for entry in proto.metadata_props)
    return read_texts(texts, proto.producer_name == PRODUCER)
