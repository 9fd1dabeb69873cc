"""Inference requests of the protocol: JSON, and JSON with binary tensors behind it.

    request := {"id": text, "parameters": {…}, "inputs": [input, …], "outputs": [output, …]}
    input   := {"name": text, "shape": [size, …], "datatype": text, "data": […]}

With binary tensors, the header `Inference-Header-Content-Length` is the length of the JSON. An
input then has `parameters.binary_data_size` instead of `data`, and its bytes follow the JSON in
the order of the inputs: little-endian, row-major.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from braces.dtypes import DType
from braces.errors import visible
from braces.serving.protocol.json_values import (
    is_object,
    parse_object,
    parse_shape,
    to_array,
)
from braces.serving.protocol.refusal import invalid
from braces.serving.protocol.tensor_spec import DTYPES, Array

LONGEST_NAME = 1024
MOST_TENSORS = 1024
LONGEST_ID = 1024
EXAMPLE = '{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [0, 1]}]}'


@dataclass(frozen=True)
class InferRequest:
    """A parsed request.

    Attributes:
        arrays: The inputs by name.
        id: The identifier, which the response repeats; empty if there is none.
        outputs: The wanted outputs, and whether each is wanted as binary; empty for all.
        binary: Whether outputs without a form of their own are binary.
    """

    arrays: Mapping[str, Array]
    id: str = ""
    outputs: Mapping[str, bool] = field(default_factory=dict[str, bool])
    binary: bool = False


def parse_request(body: bytes, json_length: int | None = None) -> InferRequest:
    """Parse the body of a request.

    Args:
        body: The body.
        json_length: The value of `Inference-Header-Content-Length`, if there is one.

    Raises:
        RefusalError: If the body is not a request of the protocol.

    Example:
        >>> entry = b'{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}'
        >>> parse_request(b'{"inputs": [%s]}' % entry).arrays["x"]
        array([1., 2.], dtype=float32)
    """
    head_length = len(body) if json_length is None else json_length
    if not 0 <= head_length <= len(body):
        raise invalid(
            f"Inference-Header-Content-Length is {json_length}; the body has {len(body)} bytes."
        )
    head = parse_object(body[:head_length])
    arrays = _parse_inputs(head.get("inputs"), memoryview(body)[head_length:])
    parameters = _object(head, "parameters")
    binary = _flag(parameters, "binary_data_output", False)
    return InferRequest(arrays, _text(head, "id"), _parse_outputs(head, binary), binary)


def _parse_inputs(value: Any, tail: memoryview) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    at = 0
    if value is None:
        raise invalid(f"the request has no `inputs`; expected {EXAMPLE}.")
    for entry in _objects(value, "inputs"):
        name = _name(entry, "an input")
        if name in arrays:
            raise invalid(f"duplicate input `{name}`.")
        shape = parse_shape(entry.get("shape"), name)
        dtype = _dtype(entry.get("datatype"), name)
        size = _object(entry, "parameters").get("binary_data_size")
        if size is None:
            arrays[name] = to_array(entry.get("data"), dtype, shape, name)
            continue
        _check_binary(entry, size, dtype, shape, name)
        if size > len(tail) - at:
            raise invalid(f"`{name}` has {size} bytes; {len(tail) - at} are left in the body.")
        arrays[name] = from_bytes(tail[at : at + size], dtype, shape, name)
        at += size
    if at != len(tail):
        raise invalid(f"{len(tail) - at} bytes follow the last binary tensor.")
    return arrays


def _check_binary(
    entry: Mapping[str, Any], size: Any, dtype: DType, shape: tuple[int, ...], name: str
) -> None:
    expected = dtype.itemsize * math.prod(shape)
    if type(size) is not int or size != expected:
        raise invalid(
            f"expected {expected} bytes for `{name}`, got binary_data_size={size!r:.40}."
        )
    if "data" in entry:
        raise invalid(f"`{name}` has both `data` and `binary_data_size`.")


def from_bytes(data: memoryview, dtype: DType, shape: tuple[int, ...], name: str) -> Array:
    """Return an array of little-endian bytes, aligned; `data` has the right length.

    Raises:
        RefusalError: If a Boolean is neither 0 nor 1.
    """
    raw: Array = np.frombuffer(data, np.uint8)
    if dtype.kind == "b" and raw.size and raw.max() > 1:
        raise invalid(f"`{name}` has Boolean values other than 0 and 1.")
    if raw.ctypes.data % dtype.alignment:
        raw = raw.copy()
    return raw.view(dtype).reshape(shape)


def _parse_outputs(head: Mapping[str, Any], binary: bool) -> dict[str, bool]:
    outputs: dict[str, bool] = {}
    if head.get("outputs") is None:
        return outputs
    for entry in _objects(head["outputs"], "outputs"):
        name = _name(entry, "an output")
        if name in outputs:
            raise invalid(f"duplicate output `{name}`.")
        parameters = _object(entry, "parameters")
        if "classification" in parameters:
            raise invalid("the extension `classification` is not supported.")
        outputs[name] = _flag(parameters, "binary_data", binary)
    return outputs


# ---- fields ----------------------------------------------------------------------------------


def _objects(value: Any, field_name: str) -> list[dict[str, Any]]:
    entries = cast("list[Any]", value) if isinstance(value, list) else None
    if entries is None or len(entries) > MOST_TENSORS or not all(map(is_object, entries)):
        example = f"; expected {EXAMPLE}" if field_name == "inputs" else ""
        raise invalid(f"`{field_name}` is not a list of objects{example}.")
    return entries


def _object(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = entry.get(key)
    if value is not None and not is_object(value):
        raise invalid(f"`{key}` is not an object.")
    return value or {}


def _name(entry: Mapping[str, Any], what: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise invalid(f"{what} has no valid `name`.")
    return name


def _text(entry: Mapping[str, Any], key: str) -> str:
    text = entry.get(key, "")
    if not isinstance(text, str) or len(text) > LONGEST_ID:
        raise invalid(f"`{key}` is not a text of at most {LONGEST_ID} characters.")
    return text


def _flag(parameters: Mapping[str, Any], key: str, default: bool) -> bool:
    flag = parameters.get(key, default)
    if not isinstance(flag, bool):
        raise invalid(f"`{key}` is neither true nor false.")
    return flag


def _dtype(value: Any, name: str) -> DType:
    dtype = DTYPES.get(value) if isinstance(value, str) else None
    if dtype is None:
        if value is None:
            raise invalid(f"missing `datatype` of `{name}`; expected {', '.join(DTYPES)}.")
        shown = visible(f"{value!r:.40}")
        raise invalid(f"unknown datatype {shown} of `{name}`; expected {', '.join(DTYPES)}.")
    return dtype
