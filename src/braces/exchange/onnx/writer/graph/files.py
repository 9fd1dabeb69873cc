"""Write models, with large weights in a data file next to them.

    m.onnx                            the graph, which names the data file
    m.onnx.0123456789abcdef.data      the weights; the middle is a digest of them

A model is replaced in three steps: the new data file is written, the graph is replaced, and the
data file of the old graph is removed. Whenever the process ends, the existing graph names the
data file that belongs to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import IO, Any, TypeAlias

import numpy as np

from braces.errors import ProgramError
from braces.exchange.onnx.types import PRODUCER
from braces.exchange.onnx.writer.graph.graph import code_of
from braces.extend.programs import refuse_unwritable, replace_atomically, write_atomically
from braces.lazy import onnx

MOST_BYTES = 1 << 30
"""The largest total size of weights in the model itself; the protobuf limit is twice that."""
SMALLEST_EXTERNAL = 1 << 10
"""The smallest external weight; shape inference needs small ones in the model."""
ALIGNMENT = 1 << 12
"""The alignment of weights in the data file, for memory mapping."""

Values: TypeAlias = "Sequence[tuple[str, np.ndarray[Any, Any]]]"


def write_model(path: str | os.PathLike[str], model: Any, values: Values) -> None:
    """Write a model and its weights atomically.

    Raises:
        ProgramError: If ONNX's checker rejects the model, which is a bug in Braces.
        OSError: If the folder is missing, full, or not writable.
    """
    refuse_unwritable(path)
    small = sum(value.nbytes for _, value in values) <= MOST_BYTES
    external = (
        [] if small else [entry for entry in values if entry[1].nbytes >= SMALLEST_EXTERNAL]
    )
    external_names = {name for name, _ in external}
    internal = (entry for entry in values if entry[0] not in external_names)
    model.graph.initializer.extend(_tensor(*entry) for entry in internal)
    old = _data_files(path)
    if not external:
        _check(model)
        write_atomically(path, model.SerializeToString())
    else:
        with _data_file(path, model, external) as data:
            write_atomically(path, model.SerializeToString())
        old.discard(data)
    for data in old:
        with contextlib.suppress(OSError):
            os.unlink(data)


@contextmanager
def _data_file(path: str | os.PathLike[str], model: Any, values: Values) -> Generator[str]:
    """Write the data file of a model; remove it if the model is not replaced."""
    data = f"{os.fspath(path)}.{_digest(values)}.data"
    existed = os.path.lexists(data)
    try:
        with replace_atomically(data) as file:
            for name, value in values:
                tensor = _outside(file, os.path.basename(data), name, value)
                model.graph.initializer.append(tensor)
        yield data
    except BaseException:
        if not existed and data not in _data_files(path):
            with contextlib.suppress(OSError):
                os.unlink(data)
        raise


def _digest(values: Values) -> str:
    """Return 16 hex digits of a hash of all weights' names, shapes, dtypes and values."""
    digest_state = hashlib.blake2b(digest_size=8)
    for name, value in values:
        digest_state.update(repr((name, value.shape, value.dtype.str)).encode())
        digest_state.update(np.ascontiguousarray(value).view(np.uint8).data)
    return digest_state.hexdigest()


def _data_files(path: str | os.PathLike[str]) -> set[str]:
    """Return the data files of an existing model that Braces wrote."""
    target: str = os.fspath(path)
    if not os.path.isfile(target):
        return set()
    library: Any = onnx
    try:
        model = library.load(target, load_external_data=False)
    except Exception:  # the replaced file need not be a model
        return set()
    if model.producer_name != PRODUCER:
        return set()
    folder, name = os.path.split(target)
    own = re.compile(re.escape(name) + r"(\.[0-9a-f]{16})?\.data")
    return {
        os.path.join(folder, location)
        for location in _locations(model)
        if own.fullmatch(location)
    }


def _locations(model: Any) -> set[str]:
    """Return the external files of a model."""
    entries = (entry for tensor in model.graph.initializer for entry in tensor.external_data)
    return {str(entry.value) for entry in entries if entry.key == "location"}


def _check(model: Any) -> None:
    checker: Any = onnx.checker
    try:
        checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ProgramError(
            "the exported model failed the check of ONNX.",
            given=str(error).strip()[:500],
            fix="Report this as a bug of Braces, with the operator that the message names.",
        ) from None


def _tensor(name: str, value: np.ndarray[Any, Any]) -> Any:
    return onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)


def _outside(file: IO[bytes], location: str, name: str, value: np.ndarray[Any, Any]) -> Any:
    """Write a tensor to the data file, and return its record."""
    offset = file.tell() + -file.tell() % ALIGNMENT
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
