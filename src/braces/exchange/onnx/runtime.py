"""Run an ONNX model with ONNX Runtime, for comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.errors import FeedError, ProgramError
from braces.extend.programs import Program
from braces.lazy import onnx as lazy_onnx, onnxruntime

onnx: Any = lazy_onnx

ONNX_RUNTIME = "onnxruntime"
_EXACT = "session.x64quantprecision"
"""The option for exact sums of products of 8-bit integers.

Without it, a processor that lacks such instructions adds two products in 16 bits, and larger
sums saturate.
"""
_SPINNING = "session.intra_op.allow_spinning"
_FATAL = 4


def require_packages() -> None:
    """Import ONNX and ONNX Runtime.

    Raises:
        MissingPackageError: If ONNX or ONNX Runtime is not installed.
    """
    runtime: Any = onnxruntime
    _ = onnx.helper, runtime.InferenceSession


def session(
    model: str | bytes,
    *,
    optimized: bool = True,
    threads: int | None = None,
    waits: bool = False,
) -> Any:
    """Create a session of ONNX Runtime with exact integers and without log output.

    Args:
        model: A path, or the bytes of a file.
        optimized: Whether ONNX Runtime may change the model before it runs it.
        threads: The number of threads of an operator; `None` for one per core.
        waits: Whether idle threads wait instead of spinning, which takes time of other threads
            of the process.
    """
    runtime: Any = onnxruntime  # its own types are not all known
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    options.add_session_config_entry(_EXACT, "1")
    if threads is not None:
        options.intra_op_num_threads = threads
    if waits:
        options.add_session_config_entry(_SPINNING, "0")
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_by_onnx_runtime(
    path: str, program: Program, feeds: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the results of ONNX Runtime for the same feeds, under our names.

    Raises:
        FeedError: If the model has more inputs than feeds.
        ProgramError: If the file is not an ONNX model, or ONNX Runtime cannot run it.
    """
    if not path.endswith(".onnx"):
        raise ProgramError("expected a file NAME.onnx for ONNX Runtime.")
    inference = session(path)
    input_names = dict(
        zip(
            program.feeds,
            (graph_input.name for graph_input in inference.get_inputs()),
            strict=True,
        )
    )
    missing = [feed_name for feed_name in input_names if feed_name not in feeds]
    if missing:
        raise FeedError(f"missing feeds: {', '.join(missing)}.", fix="Pass them by --feed.")
    try:
        results = inference.run(
            None, {name: feeds[feed_name] for feed_name, name in input_names.items()}
        )
    except RuntimeError as error:
        raise ProgramError(
            "ONNX Runtime cannot run the model.", given=f"{error!s:.500}"
        ) from None
    return dict(zip(program.fetches, results, strict=True))
