"""Files of packages, by Braces and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from suites.case import Check, Excluded
from suites.comparison import Imported, import_check, value_checks
from suites.onnx_files import packages
from suites.onnx_files.feeds import feeds_of

BATCH = 2
RELATIVE, OF_LARGEST = 1e-3, 1e-4
NEAR = 1e-6
"""The relative change of inputs that shows how much a quantized file depends on rounding."""
EIGHT_BITS = 0.05
"""The tolerance of files that round to 8 bits within the net, relative to the largest."""
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
    by 1/255 of its range. Such files are compared up to a part of the largest number, or twice
    the change of ONNX Runtime's own outputs for inputs that differ in the last places.
    """
    if b"DynamicQuantize" not in path.read_bytes():
        return 0.0
    rng = np.random.default_rng(5)
    near = {
        name: (x * (1 + NEAR * rng.normal(size=x.shape))).astype(x.dtype)
        if x.dtype.kind == "f"
        else x
        for name, x in feed.items()
    }
    _, others = session_results(path, near)
    pairs = [(a, b) for a, b in zip(wanted, others, strict=True) if a.dtype.kind == "f"]
    changes = [float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs]
    largest = max((float(np.max(np.abs(a), initial=0.0)) for a, _ in pairs), default=0.0)
    return max(2 * max(changes, default=0.0), EIGHT_BITS * largest)


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
    path: Path, feed: dict[str, np.ndarray], threads: int = 1
) -> tuple[list[str], list[Any]]:
    """Return the names of the inputs of a file, and its outputs by ONNX Runtime.

    Dynamic quantization in ONNX Runtime depends on the number of threads: with one, the scale
    is that of the whole array, as in the definition of the operators.

    Raises:
        Excluded: If ONNX Runtime fails.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    try:
        session = onnxruntime.InferenceSession(path, options)
        names = [entry.name for entry in session.get_inputs()]
        return names, _flat(session.run(None, feed))
    except Exception as error:
        raise Excluded(f"ONNX Runtime: {error}") from error


def _flat(outputs: Sequence[Any]) -> list[Any]:
    """The outputs, with the elements of a sequence as outputs of their own."""
    parts = (output if isinstance(output, list) else [output] for output in outputs)
    return [array for part in parts for array in part]
