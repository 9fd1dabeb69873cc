"""Example values of a model's inputs, as arrays of the declared dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from braces.errors import (
    DTypeError,
    FeedError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.exchange.common.model.names import dimension_name
from braces.exchange.onnx.reader.file.dtypes import dtype_named
from braces.extend.programs import VarInfo, convert_feed
from braces.extend.types import Dim, Size, TensorType

Examples: TypeAlias = "Mapping[str, Any] | Sequence[Any]"


def read_examples(graph: Any, samples: Examples | None) -> dict[str, Any]:
    """Return the example of each input by name: an array, or a list of arrays for a sequence.

    Args:
        graph: The graph of the model.
        samples: Values by name, or in the order of the inputs; `None` in a list leaves one out.

    Raises:
        UnknownNameError: If the model has no input of a given name.
        ProgramError: If `samples` is neither a mapping nor a list, or has more values than the
            model has inputs.
        FeedError: If a value cannot be converted to the declared dtype.
        ShapeError: If the rank of a value differs from that of the input.
    """
    types = {entry.name: entry.type for entry in graph.input}
    examples = _by_name(graph, samples)
    for name in examples:
        if name not in types:
            raise UnknownNameError(f"unknown input `{name}`.", fix=suggest(name, types))
    return {name: _example(name, types[name], value) for name, value in examples.items()}


def _by_name(graph: Any, inputs: Any) -> Mapping[str, Any]:
    if inputs is None or isinstance(inputs, Mapping):
        return cast("Mapping[str, Any]", inputs or {})
    weights = {tensor.name for tensor in graph.initializer}
    names = [entry.name for entry in graph.input if entry.name not in weights]
    shown = ", ".join(f"`{name:.40}`" for name in names) or "none"
    if not isinstance(inputs, list | tuple):
        raise ProgramError(
            "expected a list or a mapping as `inputs`.",
            given=f"inputs={type(inputs).__name__}; the inputs of the model: {shown}",
            fix="Pass inputs=[array, …], or inputs={'name': array}.",
        )
    values = cast("Sequence[Any]", inputs)
    if len(values) > len(names):
        raise ProgramError(
            f"`inputs` has {len(values)} examples; the model has {len(names)} inputs.",
            given=f"the inputs of the model: {shown}",
            fix="Pass one example per input (None for no example), or a mapping by name.",
        )
    pairs = zip(names, values, strict=False)
    return {name: value for name, value in pairs if value is not None}


def _example(name: str, type_: Any, value: Any) -> Any:
    kind = type_.WhichOneof("value")
    if kind == "optional_type":
        return _example(name, type_.optional_type.elem_type, value)
    if kind == "sequence_type":
        return _sequence(name, type_.sequence_type.elem_type, value)
    return _array(name, type_.tensor_type, value)


def _sequence(name: str, element: Any, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise FeedError(
            f"expected a list as the example of sequence input `{name}`.",
            given=f"{type(value).__name__}",
            fix="Pass a list of arrays.",
        )
    values = cast("Sequence[Any]", value)
    return [
        _example(f"{name}.{at}", element, element_value)
        for at, element_value in enumerate(values)
    ]


def _array(name: str, tensor: Any, value: Any) -> Any:
    axes = list(tensor.shape.dim)
    try:
        dtype = dtype_named(tensor.elem_type)
    except DTypeError:
        return np.asarray(value)  # refused where the input is declared
    declared = TensorType(dtype, tuple(map(_size, axes)))
    array = np.asarray(convert_feed(VarInfo(name, declared), value))
    if tensor.HasField("shape") and array.ndim != len(axes):
        raise ShapeError(
            f"the example of `{name}` has rank {array.ndim}; expected {len(axes)}.",
            given=f"an array of shape {list(array.shape)}",
            fix="Pass an example with the shape of a feed.",
        )
    return array


def _size(axis: Any) -> Size:
    if axis.HasField("dim_value"):
        return axis.dim_value
    return Dim.named(dimension_name(axis.dim_param) or "_")
