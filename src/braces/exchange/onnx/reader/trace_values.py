"""Trace of an ONNX model: every value of a run by ONNX Runtime, those of inner graphs too.

All values of the main graph become outputs of the model. Then each `Loop`, `Scan` and `If` is
followed by its own rules: its body is a model of its own, which runs once for each iteration
with the values of the enclosing graphs as inputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from braces.errors import BracesError, FeedError, ProgramError
from braces.exchange.common.model.names import clean_name
from braces.exchange.onnx.reader.importer import from_onnx
from braces.exchange.onnx.runtime import session
from braces.extend.comparing import Event, Key, Trace, trace_program
from braces.extend.programs import Program, Scope
from braces.lazy import onnx as lazy_onnx

onnx: Any = lazy_onnx


def trace_onnx(
    model: Any, program: Program, feed: Mapping[str, Any], _args: Any = None
) -> Trace | None:
    """Return every value of a run of an ONNX model; `None` for other models.

    Values of the bodies of `Loop`, `Scan` and `If` are recorded for each iteration, unless a
    body reads a value that has no tensor type.

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
    return _trace_proto(proto, model, program, feed)


def _trace_proto(proto: Any, model: Any, program: Program, feed: Mapping[str, Any]) -> Trace:
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in proto.graph.initializer}
    inputs = _onnx_inputs(proto.graph, constants, program, feed)
    names = [output.name for output in proto.graph.output]
    extra = [name for name in _bound(proto.graph) if name not in names]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra)
    outputs = _run(
        session(proto.SerializeToString(), optimized=False), [*names, *extra], inputs
    )
    tracer = _Tracer(proto, Trace("ONNX Runtime"))
    frame = _GraphRun("", "", (), {**constants, **inputs, **outputs})
    tracer.graph(proto.graph, frame)
    tracer.trace.results = {name: ("", name) for name in names}
    tracer.trace.finer = lambda: _trace_import(model, inputs)
    return tracer.trace


def _trace_import(model: Any, inputs: Mapping[str, Any]) -> Trace | None:
    """Return the trace of an import of the model; `None` if it cannot be imported or run."""
    try:
        imported, values = from_onnx(model)
        scope = Scope()
        scope.update(values)
        known = {clean_name(name, "input"): value for name, value in inputs.items()}
        feed = {name: known[name] for name in imported.feeds if name in known}
        return trace_program(imported, scope, feed, imported.fetches, None)
    except BracesError:
        return None


def _run(inference: Any, names: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(zip(names, inference.run(list(names), dict(inputs)), strict=True))
    except RuntimeError as error:
        raise ProgramError(
            "ONNX Runtime cannot run the model.", given=f"{error!s:.500}"
        ) from None


def _bound(graph: Any) -> list[str]:
    """Return the names that the nodes of a graph compute."""
    return list(dict.fromkeys(name for node in graph.node for name in node.output if name))


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


# ---- inner graphs ----------------------------------------------------------------------------


@dataclass
class _GraphRun:
    """A run of a graph.

    Attributes:
        path: Its path, without iterations.
        block: Its path with iterations.
        iteration: The iteration of each loop around it.
        values: Its own values by name.
        outer: The run of the enclosing graph.
    """

    path: str
    block: str
    iteration: tuple[int, ...]
    values: dict[str, Any]
    outer: _GraphRun | None = None

    def key(self, name: str) -> Key:
        """Return the key of a visible name."""
        return (self._defining(name) or self).block, name

    def value_of(self, name: str) -> Any:
        """Return the value of a visible name; `None` for a missing one."""
        owner = self._defining(name)
        return None if owner is None else owner.values[name]

    def _defining(self, name: str) -> _GraphRun | None:
        frame: _GraphRun | None = self
        while frame is not None and name not in frame.values:
            frame = frame.outer
        return frame


class _UntypedValueError(Exception):
    """A body reads a value that is no tensor, which no model of its own can declare."""


@dataclass
class _Tracer:
    """Records graphs that have run, and runs the graphs inside.

    Attributes:
        proto: The model, of which bodies take functions and versions of operators.
        trace: The values and nodes so far.
        sessions: Each body with its session, by its identity and the types of its inputs.
    """

    proto: Any
    trace: Trace
    sessions: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def graph(self, graph: Any, frame: _GraphRun) -> None:
        """Record the values and nodes of a graph that has run."""
        for name, value in frame.values.items():
            if hasattr(value, "shape"):
                self.trace.values[frame.block, name] = np.asarray(value)
        for node in graph.node:
            self.node(node, frame)

    def node(self, node: Any, frame: _GraphRun) -> None:
        """Record a node, after the graphs inside."""
        bodies = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}
        name = node.name or node.output[0]
        place, start = f"{frame.path}/{name}".lstrip("/"), len(self.trace.events)
        reads = [frame.key(name) for name in node.input if name]
        inner = list[Key]()
        if bodies:
            step = _STEPS.get(node.op_type)
            reads += [frame.key(name) for g in bodies.values() for name in _free(g)]
            try:
                inner = [] if step is None else list(step(self, node, bodies, frame))
            except _UntypedValueError:
                del self.trace.events[start:]
        writes = tuple(frame.key(name) for name in node.output if name)
        event = Event(
            place, frame.iteration, node.op_type, "", tuple(reads), writes, tuple(inner),
            bool(bodies),
        )  # fmt: skip
        self.trace.events.append(event)

    def body(
        self,
        node: Any,
        label: str,
        graph: Any,
        arguments: Sequence[Any],
        frame: _GraphRun,
        number: int | None = None,
    ) -> list[Key]:
        """Run a body, and record its values; return the keys of its results."""
        name = f"{node.name or node.output[0]}/{label}"
        suffix = "" if number is None else f"[{number}]"
        inner = _GraphRun(
            f"{frame.path}/{name}".lstrip("/"),
            f"{frame.block}/{name}{suffix}".lstrip("/"),
            frame.iteration if number is None else (*frame.iteration, number),
            {c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer},
            frame,
        )
        params = dict(zip((p.name for p in graph.input), arguments, strict=True))
        captured = {name: frame.value_of(name) for name in _free(graph)}
        names = list(dict.fromkeys([*_bound(graph), *(o.name for o in graph.output)]))
        computed = [name for name in names if name in set(_bound(graph))]
        inference = self._session(graph, {**params, **captured}, computed)
        inner.values |= params
        if computed:
            inner.values |= _run(inference, computed, {**params, **captured})
        self.graph(graph, inner)
        return [inner.key(output.name) for output in graph.output]

    def values(self, keys: Sequence[Key], frame: _GraphRun) -> list[Any]:
        """Return the values of keys."""
        return [self.trace.values.get(key) for key in keys]

    def _session(self, graph: Any, inputs: Mapping[str, Any], names: Sequence[str]) -> Any:
        types = tuple((name, str(getattr(v, "dtype", None))) for name, v in inputs.items())
        key = id(graph), types  # the graph is kept too, so that no other one has its identity
        if key not in self.sessions and names:
            inference = session(self._model(graph, inputs, names), optimized=False)
            self.sessions[key] = graph, inference
        return self.sessions[key][1] if names else None

    def _model(self, graph: Any, inputs: Mapping[str, Any], names: Sequence[str]) -> bytes:
        """Return a body as a model, whose inputs are its parameters and captured values."""
        declared = list[Any]()
        for name, value in inputs.items():
            if not hasattr(value, "dtype"):
                raise _UntypedValueError(name)
            elem = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            declared.append(onnx.helper.make_tensor_value_info(name, elem, None))
        outputs = [onnx.ValueInfoProto(name=name) for name in names]
        inner = onnx.helper.make_graph(
            list(graph.node), "body", declared, outputs, list(graph.initializer)
        )
        model = onnx.ModelProto(ir_version=self.proto.ir_version)
        model.graph.CopyFrom(inner)
        model.opset_import.extend(self.proto.opset_import)
        model.functions.extend(self.proto.functions)
        return model.SerializeToString()


def _free(graph: Any) -> list[str]:
    """Return the names of enclosing graphs that a graph reads."""
    bound = {value.name for value in (*graph.input, *graph.initializer)} | set(_bound(graph))
    names = list[str]()
    for node in graph.node:
        names += [name for name in node.input if name]
        bodies = (a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)
        names += [name for body in bodies for name in _free(body)]
    names += [output.name for output in graph.output]
    return [name for name in dict.fromkeys(names) if name not in bound]


# ---- rules of control flow -------------------------------------------------------------------


def _attribute(node: Any, name: str, otherwise: Any) -> Any:
    values = [onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name]
    return values[0] if values else otherwise


def _if(tracer: _Tracer, node: Any, bodies: Mapping[str, Any], run: _GraphRun) -> Iterator[Key]:
    taken = bool(np.asarray(run.value_of(node.input[0])).item())
    label = "then_branch" if taken else "else_branch"
    yield from tracer.body(node, label, bodies[label], [], run)


def _loop(
    tracer: _Tracer, node: Any, bodies: Mapping[str, Any], run: _GraphRun
) -> Iterator[Key]:
    limit, more = (_scalar(run, node, at) for at in (0, 1))
    carried, step = [run.value_of(name) for name in node.input[2:]], 0
    while (limit is None or step < limit) and more is not False:
        arguments = [np.array(step, np.int64), np.array(True), *carried]
        keys = tracer.body(node, "body", bodies["body"], arguments, run, step)
        yield from keys
        results = tracer.values(keys, run)
        if any(value is None for value in results):
            raise _UntypedValueError(node.name)
        more, carried = bool(results[0].item()), results[1 : 1 + len(carried)]
        step += 1


def _scalar(frame: _GraphRun, node: Any, at: int) -> Any:
    name = node.input[at] if at < len(node.input) else ""
    return np.asarray(frame.value_of(name)).item() if name else None


def _scan(
    tracer: _Tracer, node: Any, bodies: Mapping[str, Any], run: _GraphRun
) -> Iterator[Key]:
    count = _attribute(node, "num_scan_inputs", 0)
    states = len(node.input) - count
    values = [run.value_of(name) for name in node.input]
    axes = _attribute(node, "scan_input_axes", [0] * count)
    backward = _attribute(node, "scan_input_directions", [0] * count)
    carried, scanned = values[:states], [
        np.flip(np.moveaxis(value, axis, 0), 0) if back else np.moveaxis(value, axis, 0)
        for value, axis, back in zip(values[states:], axes, backward, strict=True)
    ]  # fmt: skip
    for step in range(len(scanned[0])):
        arguments = [*carried, *(np.ascontiguousarray(value[step]) for value in scanned)]
        keys = tracer.body(node, "body", bodies["body"], arguments, run, step)
        yield from keys
        carried = tracer.values(keys[:states], run)


_STEPS: dict[str, Callable[..., Iterator[Key]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
