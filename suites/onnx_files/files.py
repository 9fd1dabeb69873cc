"""Files of packages, by Braces and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from braces.exchange.onnx.runtime import session
from suites.case import Check, Excluded
from suites.comparison import Imported, import_check, value_checks
from suites.onnx_files import packages
from suites.onnx_files.feeds import feeds_of

BATCH = 2
RELATIVE, OF_LARGEST = 1e-3, 1e-4
NEAR, DRAWS = 1e-7, 4
"""The relative change of inputs and weights that shows how much rounding to 8 bits changes."""
LEAST = 1e-2
"""The least scale of outputs, such as probabilities."""
HALF = 2e-3
"""The tolerance of outputs in float16, relative to the largest."""


def names() -> list[str]:
    """The files."""
    return list(packages.PACKAGE_OF)


def run(name: str) -> Iterator[Check]:
    """Compare one file with ONNX Runtime on random inputs."""
    path = packages.get(name)
    feed = feeds_of(name).make(BATCH)
    names, wanted = session_results(path, feed)
    yield from compare(path, names, feed, wanted, _own_change(path, feed, wanted))


def _own_change(path: Path, feed: dict[str, np.ndarray], wanted: Sequence[Any]) -> float:
    """Return the tolerance of a file that rounds to 8 bits within the net.

    A number next to the middle between two integers may be rounded either way, and differs then
    by 1/255 of its range. The tolerance is twice the largest change of ONNX Runtime's own
    outputs for inputs and weights that differ in the last place.
    """
    if b"DynamicQuantize" not in path.read_bytes():
        return 0.0
    found = [0.0]
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        near = {name: _nearby(rng, x) for name, x in feed.items()}
        _, others = session_results(_nearby_model(rng, path), near)
        pairs = [(a, b) for a, b in zip(wanted, others, strict=True) if a.dtype.kind == "f"]
        found += [float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs]
    return 2 * max(found)


def _nearby(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return an array whose floats differ in the last place."""
    change = 1 + NEAR * rng.normal(size=x.shape)
    return (x * change).astype(x.dtype) if x.dtype == np.float32 else x


def _nearby_model(rng: np.random.Generator, path: Path) -> bytes:
    """Return a file whose weights differ in the last place."""
    import onnx

    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            weights = _nearby(rng, onnx.numpy_helper.to_array(tensor))
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights, tensor.name))
    return model.SerializeToString()


def compare(
    path: Path,
    names: Sequence[str],
    feed: dict[str, np.ndarray],
    wanted: Sequence[Any],
    change: float = 0.0,
) -> Iterator[Check]:
    """Compare the values of an imported file with the wanted ones.

    Args:
        path: The file.
        names: The inputs of the model, in its order.
        feed: The inputs by name.
        wanted: The outputs.
        change: The least absolute tolerance.
    """

    def read() -> Imported:
        program, values = br.from_onnx(path)
        inputs = dict(zip(names, program.feeds, strict=True))
        return Imported(program, values, {inputs[name]: x for name, x in feed.items()})

    check, made = import_check(read)
    if made is None:
        yield check
        return
    atol = max(tolerance(wanted), change)
    yield from value_checks(made, wanted, rtol=RELATIVE, atol=atol)


def tolerance(wanted: Sequence[Any]) -> float:
    """The absolute tolerance for outputs, relative to the largest number."""
    floats = [array for array in map(np.asarray, wanted) if array.dtype.kind == "f"]
    largest = max((np.nanmax(np.abs(x), initial=0.0) for x in floats), default=0.0)
    largest = max(float(largest), LEAST)
    half = any(array.dtype == np.float16 for array in floats)
    return largest * (HALF if half else OF_LARGEST)


def session_results(
    model: Path | bytes, feed: dict[str, np.ndarray], threads: int = 1
) -> tuple[list[str], list[Any]]:
    """Return the names of the inputs of a file, and its outputs by ONNX Runtime.

    Dynamic quantization in ONNX Runtime depends on the number of threads: with one, the scale
    is that of the whole array, as in the definition of the operators.

    Raises:
        Excluded: If ONNX Runtime fails.
    """
    try:
        opened = session(model if isinstance(model, bytes) else str(model), threads=threads)
        names = [entry.name for entry in opened.get_inputs()]
        return names, _flat(opened.run(None, feed))
    except Exception as error:
        raise Excluded(f"ONNX Runtime: {error}") from error


def _flat(outputs: Sequence[Any]) -> list[Any]:
    """The outputs, with the elements of a sequence as outputs of their own.

    A sequence of maps is an array with one column per label, as the import has it.
    """
    parts = (output if isinstance(output, list) else [output] for output in outputs)
    return [array for part in parts for array in (_table(part) if _has_maps(part) else part)]


def _has_maps(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], dict)


def _table(maps: Sequence[dict[Any, float]]) -> list[np.ndarray]:
    return [np.asarray([[row[label] for label in sorted(row)] for row in maps], np.float32)]
