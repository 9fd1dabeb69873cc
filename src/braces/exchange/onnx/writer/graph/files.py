"""Models as files, with large weights in a data file beside.

    m.onnx                            the graph, which names the data file
    m.onnx.0123456789abcdef.data      the weights; the middle is a digest of them

A model is replaced in three steps: the new data file is written, the graph is replaced, and the
data file of the old graph is removed. Whenever the process ends, the graph that is there names
the data file that belongs to it.
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
from braces.exchange.onnx.writer.graph.graph import code_of
from braces.ir.files.atomic_write import refuse_unwritable, replacing, write_atomically
from braces.lazy import onnx

MOST_BYTES = 1 << 30
"""So many bytes of weights are in the model itself; protobuf reads twice that at most."""
LEAST_BESIDE = 1 << 10
"""Smaller ones stay in the model: what reads shapes wants them there."""
ALIGNED = 1 << 12
"""Where weights begin in the file beside, so that it can be mapped into memory."""

PRODUCER = "braces"
"""The name of Braces in the models that it writes."""

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
    old = _data_files(path)
    if not beside:
        _check(model)
        write_atomically(path, model.SerializeToString())
    else:
        with _data_file(path, model, beside) as data:
            write_atomically(path, model.SerializeToString())
        old.discard(data)
    for data in old:
        with contextlib.suppress(OSError):
            os.unlink(data)


@contextmanager
def _data_file(path: str | os.PathLike[str], model: Any, values: Values) -> Generator[str]:
    """Write a data file for a model, which is removed where the model is not replaced."""
    data = f"{os.fspath(path)}.{_digest(values)}.data"
    existed = os.path.lexists(data)
    try:
        with replacing(data) as file:
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
    """16 digits that depend on the names, shapes, dtypes and numbers of all weights."""
    found = hashlib.blake2b(digest_size=8)
    for name, value in values:
        found.update(repr((name, value.shape, value.dtype.str)).encode())
        found.update(np.ascontiguousarray(value).view(np.uint8).data)
    return found.hexdigest()


def _data_files(path: str | os.PathLike[str]) -> set[str]:
    """The data files that an existing model of Braces reads and that were written for it."""
    target: str = os.fspath(path)
    if not os.path.isfile(target):
        return set()
    library: Any = onnx
    try:
        model = library.load(target, load_external_data=False)
    except Exception:  # whatever is replaced need not be a model
        return set()
    if model.producer_name != PRODUCER:
        return set()
    folder, name = os.path.split(target)
    own = re.compile(re.escape(name) + r"(\.[0-9a-f]{16})?\.data")
    return {os.path.join(folder, one) for one in _locations(model) if own.fullmatch(one)}


def _locations(model: Any) -> set[str]:
    """The files that hold weights of a model."""
    entries = (entry for tensor in model.graph.initializer for entry in tensor.external_data)
    return {str(entry.value) for entry in entries if entry.key == "location"}


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
