"""Run an ONNX model with ONNX Runtime, for comparison."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from braces.errors import FeedError, ProgramError
from braces.extend.comparing import Event, Trace
from braces.extend.programs import Program
from braces.lazy import onnx as lazy_onnx, onnxruntime

onnx: Any = lazy_onnx

ONNX_RUNTIME = "onnxruntime"
_EXACT = "session.x64quantprecision"
"""The option for exact sums of products of 8-bit integers.

Without it, a processor that lacks such instructions adds two products in 16 bits, and larger
sums saturate.
"""
_FATAL = 4


def session(model: str | bytes, *, optimized: bool = True) -> Any:
    """Create a session of ONNX Runtime with exact integers and without log output.

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


# ---- all values ------------------------------------------------------------------------------


def trace_onnx(
    model: Any, program: Program, feed: Mapping[str, Any], _args: Any = None
) -> Trace | None:
    """Return every value of a run of an ONNX model; `None` for other models.

    All values of the main graph become outputs of the model. Values of the bodies of `Loop`,
    `Scan` and `If` are not available.

    Args:
        model: A path of an ONNX file, or a `ModelProto`.
        program: The program that gives the order of inputs.
        feed: Its feed.

    Raises:
        FeedError: If an input has no feed.
        ProgramError: If ONNX Runtime cannot run the model.
    """
    if isinstance(model, str | os.PathLike):
        path = os.fspath(cast("str | os.PathLike[str]", model))
        if not path.endswith(".onnx"):
            return None
        proto: Any = onnx.load(path)
    elif type(model).__name__ == "ModelProto":
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    else:
        return None
    return _trace_proto(proto, program, feed)


def _trace_proto(proto: Any, program: Program, feed: Mapping[str, Any]) -> Trace:
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in proto.graph.initializer}
    results = [output.name for output in proto.graph.output]
    names = [name for node in proto.graph.node for name in node.output if name]
    extra = [name for name in names if name not in results]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra)
    inputs = _onnx_inputs(proto.graph, constants, program, feed)
    try:
        inference = session(proto.SerializeToString(), optimized=False)
        outputs = inference.run([*results, *extra], inputs)
    except RuntimeError as error:
        raise ProgramError(
            "ONNX Runtime cannot run the model.", given=f"{error!s:.500}"
        ) from None
    arrays = {**constants, **inputs, **dict(zip([*results, *extra], outputs, strict=True))}
    trace = Trace("ONNX Runtime")
    trace.values = {("", name): v for name, v in arrays.items() if hasattr(v, "shape")}
    trace.events = [_node_event(node) for node in proto.graph.node]
    trace.results = {name: ("", name) for name in results}
    return trace


def _node_event(node: Any) -> Event:
    reads = tuple(("", name) for name in node.input if name)
    writes = tuple(("", name) for name in node.output if name)
    return Event(node.name or node.output[0], (), node.op_type, "", reads, writes)


def _onnx_inputs(
    graph: Any, constants: Mapping[str, Any], program: Program, feed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the inputs of a graph, by name or else in the order of the program's feeds."""
    inputs = [value for value in graph.input if value.name not in constants]
    arrays = dict[str, Any]()
    for at, value in enumerate(inputs):
        own_name = program.feeds[at] if at < len(program.feeds) else ""
        key = value.name if value.name in feed else own_name
        if key not in feed:
            raise FeedError(
                f"missing feed of the ONNX input `{value.name}`.",
                given=f"feeds: {', '.join(feed) or 'none'}",
            )
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        arrays[value.name] = np.asarray(feed[key]).astype(dtype)
    return arrays
