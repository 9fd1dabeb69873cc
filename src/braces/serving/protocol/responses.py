"""Inference responses of the protocol, as JSON with or without binary tensors behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.errors import visible
from braces.serving.protocol.json_values import to_json
from braces.serving.protocol.refusal import invalid
from braces.serving.protocol.requests import InferRequest
from braces.serving.protocol.tensor_spec import DATATYPES, Array

JSON = "application/json"
BINARY = "application/octet-stream"
JSON_LENGTH = "Inference-Header-Content-Length"
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def check_outputs(request: InferRequest, outputs: Mapping[str, Any]) -> None:
    """Check the wanted outputs against those of the model.

    Raises:
        RefusalError: If an output is unknown.
    """
    for name in request.outputs:
        if name not in outputs:
            known = ", ".join(f"`{each}`" for each in outputs)
            raise invalid(f"unknown output `{visible(name[:80])}`; the model has {known}.")


def write_response(
    request: InferRequest, model: str, version: str, outputs: Mapping[str, Array]
) -> tuple[bytes, int | None]:
    """Return the body of a response, and the length of its JSON if binary tensors follow.

    Args:
        request: The request.
        model: The name of the model.
        version: Its version.
        outputs: All outputs of the run.

    Example:
        >>> outputs = {"y": np.arange(2, dtype="int32")}
        >>> write_response(InferRequest({}, "7"), "m", "1", outputs)[0]
        b'{"id":"7","model_name":"m","model_version":"1","outputs":[...]}'
    """
    wanted = request.outputs or dict.fromkeys(outputs, request.binary)
    entries: list[dict[str, Any]] = []
    tail: list[bytes] = []
    for name, binary in wanted.items():
        array = outputs[name]
        entry: dict[str, Any] = {
            "name": name,
            "datatype": DATATYPES[array.dtype],
            "shape": list(array.shape),
        }
        if binary:
            tail.append(np.ascontiguousarray(array).tobytes())
            entry["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            entry["data"] = to_json(array)
        entries.append(entry)
    head: dict[str, Any] = {"id": request.id} if request.id else {}
    head |= {"model_name": model, "model_version": version, "outputs": entries}
    text = dump(head)
    return b"".join([text, *tail]), len(text) if tail else None


def dump(value: Any) -> bytes:
    """Return a value as compact JSON."""
    return _ENCODER.encode(value).encode("utf-8", "replace")
