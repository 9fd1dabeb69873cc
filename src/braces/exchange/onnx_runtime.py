"""A model of ONNX, run by ONNX Runtime beside us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.errors import FeedError, ProgramError
from braces.lazy import onnxruntime
from braces.program import Program

ONNX_RUNTIME = "onnxruntime"


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
    session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    theirs = dict(zip(program.feeds, (one.name for one in session.get_inputs()), strict=True))
    missing = [ours for ours in theirs if ours not in feeds]
    if missing:
        raise FeedError(f"ONNX Runtime needs {', '.join(missing)} too.", fix="Say --feed.")
    try:
        made = session.run(None, {name: feeds[ours] for ours, name in theirs.items()})
    except RuntimeError as error:
        raise ProgramError("ONNX Runtime does not run this.", given=f"{error!s:.500}") from None
    return dict(zip(program.fetches, made, strict=True))
