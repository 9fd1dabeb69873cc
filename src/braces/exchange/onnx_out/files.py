"""Models as files, with large weights in a file beside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

import numpy as np

from braces.errors import ProgramError
from braces.exchange.onnx_out.graph import code_of
from braces.ir.atomic import refuse_unwritable, replacing, write_atomically
from braces.lazy import onnx

MOST_BYTES = 1 << 30
"""So many bytes of weights are in the model itself; protobuf reads twice that at most."""
LEAST_BESIDE = 1 << 10
"""Smaller ones stay in the model: what reads shapes wants them there."""
ALIGNED = 1 << 12
"""Where weights begin in the file beside, so that it can be mapped into memory."""

Values: TypeAlias = "Sequence[tuple[str, np.ndarray[Any, Any]]]"


def write_model(path: str | os.PathLike[str], model: Any, values: Values) -> None:
    """Write a model and its weights, at once or not at all.

    Raises:
        ProgramError: The checker of ONNX refuses what was written: a mistake of Braces.
        OSError: The folder is missing, full, or must not be written to.
    """
    refuse_unwritable(path)
    small = sum(value.nbytes for _, value in values) <= MOST_BYTES
    beside = [] if small else [one for one in values if one[1].nbytes >= LEAST_BESIDE]
    outside = {name for name, _ in beside}
    kept = (one for one in values if one[0] not in outside)
    model.graph.initializer.extend(_tensor(*one) for one in kept)
    if not beside:
        _check(model)
        write_atomically(path, model.SerializeToString())
        return
    data = f"{os.fspath(path)}.data"
    with replacing(data) as file:
        for name, value in beside:
            model.graph.initializer.append(_outside(file, os.path.basename(data), name, value))
    write_atomically(path, model.SerializeToString())


def _check(model: Any) -> None:
    checker: Any = onnx.checker
    try:
        checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ProgramError(
            "ONNX refuses what Braces wrote.",
            given=str(error).strip()[:500],
            fix="This is a mistake of Braces; the message says which operator it is about.",
        ) from None


def _tensor(name: str, value: np.ndarray[Any, Any]) -> Any:
    return onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)


def _outside(file: IO[bytes], location: str, name: str, value: np.ndarray[Any, Any]) -> Any:
    """A tensor whose numbers are written to a file beside the model."""
    offset = file.tell() + -file.tell() % ALIGNED
    file.seek(offset)
    file.write(np.ascontiguousarray(value).tobytes())
    tensor = onnx.TensorProto(
        name=name, data_type=code_of(value.dtype), dims=value.shape,
        data_location=onnx.TensorProto.EXTERNAL,
    )  # fmt: skip
    entries = {"location": location, "offset": offset, "length": value.nbytes}
    for key, entry in entries.items():
        tensor.external_data.add(key=key, value=str(entry))
    return tensor
