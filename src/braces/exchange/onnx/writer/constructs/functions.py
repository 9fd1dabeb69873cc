"""Export plain blocks as functions of the model.

    y = block() captures [x, w] as encoder     encoder(x, w) => (y) { h = MatMul(x, w)
      body {                                                          y = Tanh(h) }
        encoder/h = matmul(x=x, y=w)
        encoder/y = tanh(x=encoder/h)          encoder/y = braces.encoder(x, w)
      }

A function has no access to outer values: captures of the block become inputs, and so do sizes
that no input determines. Blocks with the same name stem and content share one function; each
call takes the outputs that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from os.path import commonpath
from typing import Any, TypeAlias

from braces.exchange.common.model.names import FUNCTIONS, RECOMPUTE
from braces.exchange.onnx.types import axes_of
from braces.exchange.onnx.writer.graph.graph import (
    ModelFunction,
    ModelState,
    OnnxGraph,
    graphs_in,
    rename_values,
)
from braces.exchange.onnx.writer.graph.node import NodeDesc
from braces.extend.constructs import LOOP, BlockView
from braces.extend.programs import Body
from braces.extend.rewriting import data_dependent_size
from braces.extend.types import Dim, TensorType
from braces.lazy import onnx

Write: TypeAlias = "Callable[[OnnxGraph, Body, Sequence[str]], list[str]]"
"""Exports a block with these names of its parameters; returns the names of its results."""
OutputNames: TypeAlias = "Mapping[str, str]"
"""The name of each output."""


@dataclass
class _Inside(ModelState):
    """The shared state of the graphs of a function.

    Attributes:
        caller: The graph that contains the block.
        given: The outer names of its inputs.
    """

    caller: OnnxGraph = field(kw_only=True)
    given: dict[str, str] = field(default_factory=dict[str, str])

    def teller(self, dimension: str) -> OnnxGraph | None:
        """Add an input for a size to the graph of the function."""
        size_name = self.caller.size(Dim.named(dimension))
        assert self.main is not None, "missing graph"
        self.main.told[dimension] = self.input(dimension, size_name), -1
        return self.main

    def input(self, stem: str, outer_name: str) -> str:
        """Add an input, and return its inner name."""
        name = self.fresh(stem)
        self.given[name] = outer_name
        return name


def function(n: NodeDesc, write: Write) -> OutputNames:
    """Export a plain block as a function of the model and a node that calls it.

    Data-dependent sizes of the block are returned with its results, unless these have such an
    axis.
    """
    view = BlockView.of(n.op)
    body, model = view.body, _model(n, view)
    assert model.main is not None, "missing graph"
    shape_sizes = {
        size for type_ in n.types if isinstance(type_, TensorType) for size in type_.shape
    }
    told = [name for name in data_dependent_sizes(body) if Dim.named(name) not in shape_sizes]
    results = write(model.main, body, ())
    results += [model.main.size(Dim.named(name)) for name in told]
    outputs = _call_function(n, model, results, view.recompute)
    sizes = zip(told, outputs[len(n.types) :], strict=True)
    n.g.told.update((name, (size, -1)) for name, size in sizes)
    return view.bound(outputs[: len(n.types)])


def data_dependent_sizes(body: Body) -> Iterator[str]:
    """Yield the data-dependent sizes of a block, outside of loops."""
    for op in body.ops:
        name = data_dependent_size(op)
        if name is not None:
            yield name
        if op.type != LOOP.type:
            for inner in op.bodies().values():
                yield from data_dependent_sizes(inner)


def opset_imports(nodes: Iterable[Any], opset: int) -> list[Any]:
    """Return the operator set versions that nodes need; `opset` is that of ONNX."""
    ids = [onnx.helper.make_opsetid("", opset)]
    has_calls = any(node.domain == FUNCTIONS for node in _all_nodes(nodes))
    return [*ids, onnx.helper.make_opsetid(FUNCTIONS, 1)] if has_calls else ids


def list_all_outputs(nodes: Iterable[Any], functions: Sequence[Any]) -> None:
    """List all outputs in each call of a function, with empty names for unused ones.

    ONNX's shape inference of calls expects all outputs.
    """
    counts = {function.name: len(function.output) for function in functions}
    for node in _all_nodes(chain(nodes, *(function.node for function in functions))):
        if node.domain == FUNCTIONS:
            node.output.extend([""] * (counts[node.op_type] - len(node.output)))


def _all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield nodes and the nodes of their subgraphs."""
    for node in nodes:
        yield node
        yield from _all_nodes(chain.from_iterable(graph.node for graph in graphs_in([node])))


# ---- the function ----------------------------------------------------------------------------


def _model(n: NodeDesc, view: BlockView) -> _Inside:
    """Return the model of a function with an input for each capture."""
    prefix = _prefix(n.op.name, view.body.vars)
    reserved_names = frozenset(name.removeprefix(prefix) for name in view.body.vars)
    model = _Inside(
        reserved_names,
        prefix,
        n.g.model.functions,
        used=set(reserved_names),
        caller=n.g,
        opset=n.g.model.opset,
        recurrent_nodes=n.g.model.recurrent_nodes,
    )
    model.main = OnnxGraph(model)
    for name in view.captures:
        inner_name = model.input(name.removeprefix(prefix), n.g.name(name))
        model.main.bind(name, inner_name, n.g.type(name))
    return model


def _prefix(name: str, bound: Iterable[str]) -> str:
    """Return the prefix of names in a block; a gradient block has that of the original."""
    own_prefix, bound = f"{name}/", list(bound)
    if any(bound_name.startswith(own_prefix) for bound_name in bound):
        return own_prefix
    paths = {bound_name.rpartition("/")[0] for bound_name in bound}
    common = commonpath(paths) if paths else ""
    return f"{common}/" if common else ""


def _call_function(
    n: NodeDesc, model: _Inside, results: Sequence[str], recompute: bool
) -> list[str]:
    """Call the function with these results; return their outer names.

    Captures that the block only returns bypass the function.
    """
    assert model.main is not None, "missing graph"
    numbers = _numbers(chain(model.given, _value_names([*model.constants, *model.main.nodes])))
    computed_results = [
        name for name in dict.fromkeys(results) if name in numbers.keys() - model.given
    ]
    if not computed_results:
        return [model.given.get(name, name) for name in results]
    shared_function = _share_function(model, numbers, _stem(n.op.name), recompute)
    inside = {name: shared_function.names[numbers[name]] for name in computed_results}
    needed_outputs = shared_function.proto.output
    needed_outputs.extend([name for name in inside.values() if name not in needed_outputs])
    outside = {inside[name]: n.g.fresh(name) for name in computed_results}
    outputs = [outside.get(name, "") for name in needed_outputs]
    while not outputs[-1]:
        outputs.pop()
    function_name, inputs, name = (
        shared_function.proto.name,
        [*model.given.values()],
        f"{n.g.path}{n.label}",
    )
    n.g.nodes.append(
        onnx.helper.make_node(function_name, inputs, outputs, name=name, domain=FUNCTIONS)
    )
    return [outside[inside[r]] if r in inside else model.given.get(r, r) for r in results]


def _share_function(
    model: _Inside, numbers: Mapping[str, str], stem: str, recompute: bool
) -> ModelFunction:
    """Return the function, or an existing one with this name stem and the same content."""
    assert model.main is not None, "missing graph"
    nodes = [*model.constants, *model.main.nodes]
    _forget_sizes(nodes)
    key = stem, recompute, len(model.given), _content_key(nodes, numbers)
    entry = model.functions.get(key)
    if entry is None:
        rename_values(nodes, model.called)
        names = {number: model.called.get(name, name) for name, number in numbers.items()}
        existing_names = {existing.proto.name for existing in model.functions.values()}
        called = next(name for name in _names_like(stem) if name not in existing_names)
        proto = onnx.helper.make_function(
            FUNCTIONS, called, [*model.given], [], nodes, opset_imports(nodes, model.opset)
        )
        if recompute:
            proto.metadata_props.add(key=RECOMPUTE, value="1")
        entry = model.functions[key] = ModelFunction(proto, names)
    return entry


def _stem(name: str) -> str:
    """Return the name of a block without those around it, and without the counts of calls.

    Example:
        >>> _stem("model/layer_1"), _stem("cell_2_grad_0")
        ('layer', 'cell_grad')
    """
    last_part = name.rpartition("/")[2]
    return re.sub(
        r"\W", "_", re.sub(r"_\d+(?=_|$)", "", last_part) or last_part, flags=re.ASCII
    )


def _names_like(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{number}" for number in count(1))


# ---- content of a function -------------------------------------------------------------------


def _value_names(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield the names of all values of nodes, in order."""
    for node in nodes:
        yield from node.input
        for graph in graphs_in([node]):
            yield from (entry.name for entry in graph.input)
            yield from _value_names(graph.node)
            yield from (entry.name for entry in graph.output)
        yield from node.output


def _numbers(names: Iterable[str]) -> dict[str, str]:
    """Number names in order."""
    return {name: str(at) for at, name in enumerate(dict.fromkeys(filter(None, names)))}


def _content_key(nodes: Iterable[Any], numbers: Mapping[str, str]) -> bytes:
    """Return the content of nodes, independent of the names of values and graphs."""
    proto = onnx.FunctionProto()
    proto.node.extend(nodes)
    rename_values(proto.node, numbers)
    for graph in graphs_in(_all_nodes(proto.node)):
        graph.name = ""
    return proto.SerializeToString(deterministic=True)


def _forget_sizes(nodes: Iterable[Any]) -> None:
    """Remove symbolic sizes from declarations: they differ between calls of a function."""
    for graph in graphs_in(_all_nodes(nodes)):
        for entry in (*graph.input, *graph.output):
            for axis in axes_of(entry.type):
                axis.ClearField("dim_param")
