"""Requests of Triton's generate extension, and events of their streams.

    request := {input: value, …, "parameters": {"max_tokens": n, "stop": [id, …], "chunk": n}}
    event   := "data: " {"model_name": …, "model_version": …, "index": i, output: value, …}

A value is a number, a Boolean, or nested lists. Where a batch axis is declared, it may be
omitted: it is then 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.serving.protocol.json_values import is_object, parse_object, to_array, to_json
from braces.serving.protocol.refusal import invalid
from braces.serving.protocol.responses import dump
from braces.serving.protocol.tensor_spec import Array, TensorSpec, check_names

PARAMETERS = "parameters"
DEFAULT_TOKENS, DEFAULT_CHUNK, LARGEST_CHUNK = 64, 8, 256
MOST_STOPS = 256


@dataclass(frozen=True)
class GenerateRequest:
    """A parsed request.

    Attributes:
        arrays: The inputs by name.
        max_tokens: The largest number of iterations.
        stop: The ids that end a sequence.
        chunk: The number of iterations of one run.
    """

    arrays: Mapping[str, Array]
    max_tokens: int = DEFAULT_TOKENS
    stop: frozenset[int] = frozenset()
    chunk: int = DEFAULT_CHUNK


def parse_generate(
    body: bytes, specs: Mapping[str, TensorSpec], most_tokens: int
) -> GenerateRequest:
    """Parse a request.

    Args:
        body: The body.
        specs: The inputs of the model.
        most_tokens: The largest `max_tokens` that is accepted.

    Raises:
        RefusalError: If the body is not a request for these inputs.
    """
    head = parse_object(body)
    parameters = head.pop(PARAMETERS, None) if PARAMETERS not in specs else None
    if parameters is not None and not is_object(parameters):
        raise invalid("`parameters` is not an object.")
    options = dict(parameters or {})
    tokens = _count(options, "max_tokens", min(DEFAULT_TOKENS, most_tokens), most_tokens)
    chunk = _count(options, "chunk", DEFAULT_CHUNK, LARGEST_CHUNK)
    stop = _stop_ids(options.pop("stop", None))
    if options:
        raise invalid(f"unknown parameter `{min(options)[:80]}`.")
    check_names(specs, head)
    arrays = {name: _array(head[name], spec) for name, spec in specs.items()}
    return GenerateRequest(arrays, tokens, stop, chunk)


def _count(options: dict[str, Any], name: str, default: int, most: int) -> int:
    count = options.pop(name, default)
    if type(count) is not int or not 1 <= count <= most:
        raise invalid(f"invalid `{name}`; expected an integer from 1 to {most}.")
    return count


def _stop_ids(value: Any) -> frozenset[int]:
    if value is None:
        return frozenset()
    ids = cast("list[Any]", value) if isinstance(value, list) else None
    if ids is None or len(ids) > MOST_STOPS or not all(type(each) is int for each in ids):
        raise invalid(f"`stop` is not a list of at most {MOST_STOPS} integers.")
    return frozenset(ids)


def _array(value: Any, spec: TensorSpec) -> Array:
    rank, level = 0, value
    while isinstance(level, list) and level:
        rank, level = rank + 1, cast("list[Any]", level)[0]
        if rank > len(spec.shape):
            raise invalid(f"expected {spec} for input `{spec.name}`, got deeper lists.")
    if rank == len(spec.shape) - 1 and isinstance(spec.shape[0], str):
        value = [value]
    if not spec.shape:
        return to_array([value], spec.dtype, (1,), spec.name).reshape(())
    try:
        shape = np.array(value).shape
    except ValueError:
        raise invalid(f"`{spec.name}` has lists of different lengths.") from None
    return to_array(value, spec.dtype, shape, spec.name)


def nested(array: Array) -> Any:
    """Return an array as nested lists of JSON."""
    flat: Array = np.empty(array.size, dtype=object)
    flat[:] = to_json(array)
    return flat.reshape(array.shape).tolist()


def write_event(fields: Mapping[str, Any]) -> bytes:
    """Return a server-sent event."""
    return b"data: " + dump(fields) + b"\n\n"
