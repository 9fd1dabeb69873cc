"""A model of ONNX, run by ONNX Runtime beside us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.errors import FeedError, ProgramError
from braces.lazy import onnxruntime
from braces.program import Program

ONNX_RUNTIME = "onnxruntime"
_EXACT = "session.x64quantprecision"
"""Says that sums of products of 8-bit integers are exact.

Without it a processor that has no instruction for them adds two products in 16 bits, of which
the larger sums are cut off.
"""
_FATAL = 4


def session(model: str | bytes, *, optimized: bool = True) -> Any:
    """A model in ONNX Runtime, with exact integers; what it logs is not shown.

    Args:
        model: A path, or the bytes of a file.
        optimized: Whether ONNX Runtime may change the model before it runs it.
    """
    runtime: Any = onnxruntime  # its own types are not all known
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    options.add_session_config_entry(_EXACT, "1")
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_by_onnx_runtime(
    path: str, program: Program, feeds: Mapping[str, Any]
) -> dict[str, Any]:
    """What ONNX Runtime gives for the same feeds, under our names.

    Raises:
        FeedError: It needs more than what is fed.
        ProgramError: The file is no model of ONNX, or ONNX Runtime does not run it.
    """
    if not path.endswith(".onnx"):
        raise ProgramError("ONNX Runtime runs models of ONNX, files NAME.onnx.")
    made = session(path)
    theirs = dict(zip(program.feeds, (one.name for one in made.get_inputs()), strict=True))
    missing = [ours for ours in theirs if ours not in feeds]
    if missing:
        raise FeedError(f"ONNX Runtime needs {', '.join(missing)} too.", fix="Say --feed.")
    try:
        results = made.run(None, {name: feeds[ours] for ours, name in theirs.items()})
    except RuntimeError as error:
        raise ProgramError("ONNX Runtime does not run this.", given=f"{error!s:.500}") from None
    return dict(zip(program.fetches, results, strict=True))
