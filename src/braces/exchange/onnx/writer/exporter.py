"""Export a program as an ONNX model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from braces.errors import ProgramError, UninitializedError, UnknownNameError, suggest
from braces.exchange.common.model.metadata_texts import write_texts
from braces.exchange.common.model.weights import UPDATES
from braces.exchange.onnx.types import PRODUCER
from braces.exchange.onnx.writer.constructs.functions import list_all_outputs, opset_imports
from braces.exchange.onnx.writer.graph.files import write_model
from braces.exchange.onnx.writer.graph.graph import (
    IR_VERSIONS,
    OPSET,
    ModelState,
    OnnxGraph,
    rename_values,
    value_info,
)
from braces.exchange.onnx.writer.graph.live_nodes import (
    live_nodes,
    names_read,
    prune_function,
)
from braces.exchange.onnx.writer.writer import BlockExporter
from braces.extend.building import ProgramHolder, Var, program_of, with_user_line
from braces.extend.operators import Plan
from braces.extend.programs import (
    DATA,
    Program,
    ProgramDef,
    Scope,
    check_metadata,
    read_fetch,
    resolve_body,
)
from braces.extend.rewriting import LICM, Pass, to_inference_mode, without_other_counts
from braces.extend.types import Size, TensorType, substitute
from braces.lazy import onnx


@with_user_line
def to_onnx(
    program: Program | ProgramHolder,
    path: str | PathLike[str],
    *,
    scope: Scope | None = None,
    fetches: Mapping[str, Var | str] | Sequence[Var | str] | Var | str | None = None,
    updates: bool = False,
    sizes: Mapping[str, int] | None = None,
    metadata: Mapping[str, Any] | None = None,
    opset: int = OPSET,
    recurrent_nodes: bool = False,
) -> None:
    """Export a program as an ONNX model, which runs without Braces.

    The model is the inference form of the program, as of `Program.for_test`: dropout passes its
    input through, and normalization uses running statistics. With `updates` it is the program
    itself, as a training step.

    Inputs are the data that the fetches need, outputs are the fetches, and persistable
    variables are initializers, all under their own names. Loops become `Loop` or `Scan`,
    residuals of loops become sequences, branches become `If`, and row-wise branches become
    gathers and scatters. Symbolic sizes are computed from the shapes of inputs. Operators that
    ONNX has, such as `Gelu`, `LayerNormalization` and `MaxPool`, are one node; the others are
    decomposed by tracing their kernels. Checks of values, as of indices out of range and of
    `max_trips`, are left out.

    Args:
        program: The program, which is not modified; or a model of `br.load_model`, with its
            scope, fetches and metadata.
        path: The file, which is replaced. Weights beyond 1 GiB go into a data file next to it,
            `path` followed by a digest of them and `.data`. The data file of a replaced model
            is removed last.
        scope: The scope with the values of persistable variables.
        fetches: Variables or names; by default the fetches of the program. The keys of a dict
            are the names of the outputs.
        updates: Whether the model also returns the next values of persistable variables, as
            outputs `NAME.next`. These variables become inputs with their current values as
            defaults: the model is a whole training step.
        sizes: Numbers for symbolic sizes, as `{"batch": 1}`.
        metadata: JSON data by key, as of `br.save_model`: the `metadata_props` of the file.
            `br.onnx_metadata` reads it.
        opset: The operator set version, from 21 to 24. Version 21 is read by the most
            runtimes; 23 has `RMSNormalization` and 24 `Swish`, which are composed of others
            before.
        recurrent_nodes: Whether loops whose step is a standard cell, as those of `br.lstm`,
            become `LSTM`, `GRU` and `RNN` nodes. ONNX Runtime runs them faster than loops,
            most of all for small batches. Its kernels return numbers for inputs that are NaN,
            need at least one step and one batch element, and approximate `tanh` to 1e-6.
            Cells in float32 without `lengths` are recognized by their formulas.

    Raises:
        ProgramError: If ONNX lacks operators that the program needs; the message lists all of
            them. If the metadata is not JSON data, or the operator set version is unsupported.
        UnknownNameError: If a fetch or a size does not exist.
        UninitializedError: If a persistable variable has no value.
        OSError: If the folder is missing, full, or not writable.

    Example:
        >>> import tempfile, braces as br, onnxruntime
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 2])
        ...     y = br.matmul(x, br.parameter("w", [2, 1], init=[[2.0], [3.0]]))
        >>> scope = br.Scope()
        >>> _ = br.Executor().init(prog, scope)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.to_onnx(prog, folder + "/m.onnx", scope=scope, fetches=[y])
        ...     model = onnxruntime.InferenceSession(folder + "/m.onnx")
        >>> model.run([y.name], {"x": [[1.0, 10.0]]})
        [array([[32.]], dtype=float32)]
    """
    if isinstance(program, ProgramHolder):
        scope = program.scope if scope is None else scope
        fetches = program.fetched() if fetches is None else fetches
        metadata = program.metadata if metadata is None else metadata
    notes = check_metadata(metadata)
    _check_opset(opset)
    names, _ = read_fetch(fetches, program_of(program))
    called = tuple(fetches) if isinstance(fetches, Mapping) else names
    plan, spare = _plan_export(
        program_of(program), names, updates, sizes or {}, (LICM,) if recurrent_nodes else ()
    )
    model, states = build_model(plan, spare, called, opset, recurrent_nodes)
    for key, text in write_texts(notes):
        model.metadata_props.add(key=key, value=text)
    write_model(path, model, list(_values(states, scope)))


def _check_opset(opset: Any) -> None:
    """Refuse a version that is not written.

    Raises:
        ProgramError: If the operator set version is unsupported.
    """
    if opset not in IR_VERSIONS:
        raise ProgramError(
            f"unsupported operator set version {opset!r:.40}.",
            fix=f"Use opset={min(IR_VERSIONS)} to {max(IR_VERSIONS)}.",
        )


def _plan_export(
    program: Program,
    names: tuple[str, ...],
    updates: bool,
    sizes: Mapping[str, int],
    passes: tuple[Pass, ...],
) -> tuple[Plan, dict[str, TensorType]]:
    """Return the execution plan, and the data that it does not need."""
    original = program.definition
    definition = (
        without_other_counts(original, names)
        if updates
        else to_inference_mode(original).with_(updates={})
    )
    if not names and not definition.updates:
        raise ProgramError("the model has no outputs.", fix="Pass variables as `fetches`.")
    _check_sizes(definition, sizes)
    main = resolve_body(definition.main, lambda size: _fixed(size, sizes))
    plan = Plan.of(definition.with_(main=main), names, passes=passes)
    unused_data = {
        n: v.type for n, v in main.vars.items() if v.kind == DATA and n not in plan.feeds
    }
    return plan, {n: t for n, t in unused_data.items() if isinstance(t, TensorType)}


def _fixed(size: Size, sizes: Mapping[str, int]) -> Size:
    return substitute(size, sizes)


def _check_sizes(definition: ProgramDef, sizes: Mapping[str, int]) -> None:
    types = (info.type for info in definition.main.vars.values())
    shapes = [getattr(type_, "shape", ()) for type_ in types]
    size_names = {n for shape in shapes for size in shape for n in _names(size)}
    for name in sizes:
        if name not in size_names:
            raise UnknownNameError(f"unknown size `{name}`.", fix=suggest(name, size_names))


def _names(size: Size) -> set[str]:
    return set() if isinstance(size, int) else size.names()


def build_model(
    plan: Plan,
    spare: Mapping[str, TensorType],
    called: Sequence[str],
    opset: int = OPSET,
    recurrent_nodes: bool = False,
) -> tuple[Any, list[str]]:
    """Return the model of a plan without weights, and the names of the weights.

    Args:
        plan: The plan. Its updates are outputs `NAME.next`, and inputs with defaults.
        spare: Data that the plan does not read, which may determine sizes.
        called: The names of the outputs, in the order of the fetches.
        opset: The operator set version.
        recurrent_nodes: Whether loops over standard cells become one node.

    Raises:
        ProgramError: If ONNX lacks operators of the plan; the message lists all of them.
    """
    body, moved = plan.interpreted, plan.updates
    states = {name: body.vars[name] for name in (*plan.states, *moved)}
    reserved_names = frozenset((*body.vars, *spare))
    model_state = ModelState(
        reserved_names,
        spare=dict(spare),
        used=set(reserved_names),
        opset=opset,
        recurrent_nodes=recurrent_nodes,
    )
    g, writer = OnnxGraph(model_state), BlockExporter()
    model_state.main = g
    for name, info in (plan.feeds | states).items():
        g.bind(name, name, info.type)
    writer.body(g, body.with_(params=()), ())
    outputs = [*_outputs(g, body.results, called), *_next_outputs(g, moved)]
    writer.problems.refuse()
    rename_values(g.nodes, model_state.called)
    functions = [shared_function.proto for shared_function in model_state.functions.values()]
    list_all_outputs(g.nodes, functions)
    for function in functions:
        prune_function(function)
    nodes = live_nodes([*g.model.constants, *g.nodes], [called for called, _ in outputs])
    size_inputs = [name for name in spare if name not in model_state.spare]
    input_names = [*plan.feeds, *size_inputs, *moved]
    graph_proto = onnx.helper.make_graph(
        nodes,
        "program",
        [value_info(name, g.type(name)) for name in input_names],
        [value_info(called, g.type(name)) for called, name in outputs],
    )
    model = onnx.helper.make_model(
        graph_proto,
        producer_name=PRODUCER,
        ir_version=IR_VERSIONS[opset],
        functions=functions,
        opset_imports=opset_imports(nodes, opset),
    )
    if moved:
        nexts = {
            name: called
            for (called, _), name in zip(outputs[-len(moved) :], moved, strict=True)
        }
        onnx.helper.set_model_props(model, {UPDATES: json.dumps(nexts)})
    read_names = {*names_read(nodes), *(entry.name for entry in graph_proto.output), *moved}
    return model, [name for name in states if name in read_names]


def _outputs(
    g: OnnxGraph, fetches: Sequence[str], called: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the names and variables of outputs; a repeated fetch is copied."""
    for at, (name, wanted) in enumerate(zip(fetches, called, strict=True)):
        value_name = g.name(name)
        if wanted != name:
            yield _copy_as(g, value_name, wanted), name
        elif name in fetches[:at]:
            yield _copy_as(g, value_name, name), name
        elif g.model.called.get(value_name) == name:
            yield name, name
        elif value_name == name:  # an input, or a weight
            yield _copy_as(g, value_name, f"{name}.value"), name
        else:
            yield _copy_as(g, value_name, name, kept=True), name


def _next_outputs(g: OnnxGraph, updates: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in updates.items():
        yield _copy_as(g, g.name(value), f"{name}.next"), name


def _copy_as(g: OnnxGraph, value_name: str, wanted: str, kept: bool = False) -> str:
    """Return a value under another name."""
    copy_name = g.op("Identity", value_name)
    g.model.called[copy_name] = wanted if kept else g.model.fresh(wanted)
    return g.model.called[copy_name]


def _values(
    states: Iterable[str], scope: Scope | None
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the values of persistable variables."""
    for name in states:
        variable = None if scope is None else scope.find_var(name)
        if variable is None or variable.value is None:
            raise UninitializedError(
                f"`{name}` has no value.",
                fix="Run exe.init(prog, scope), or load it, and pass scope=....",
            )
        yield name, np.asarray(variable.value)
