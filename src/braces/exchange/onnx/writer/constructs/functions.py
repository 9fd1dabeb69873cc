"""Plain blocks as functions of the model.

    y = block() captures [x, w] as encoder     encoder(x, w) => (y) { h = MatMul(x, w)
      body {                                                          y = Tanh(h) }
        encoder/h = matmul(x=x, y=w)
        encoder/y = tanh(x=encoder/h)          encoder/y = braces.encoder(x, w)
      }

A function sees nothing around it: what the block captures is given to it, and so is a size that
none of that tells. Blocks of one name that compute the same, as one that is called again does,
are one function; each call takes the outputs that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from os.path import commonpath
from typing import Any, TypeAlias

from braces.dims import Dim
from braces.dtypes import TensorType
from braces.exchange.common.model.names import FUNCTIONS, RECOMPUTE
from braces.exchange.onnx.types import axes_of
from braces.exchange.onnx.writer.graph.graph import (
    OPSET,
    Function,
    Graph,
    Model,
    graphs_in,
    rename,
)
from braces.exchange.onnx.writer.graph.node import Node
from braces.ir.records import Body
from braces.ir.views import BlockView
from braces.lazy import onnx
from braces.ops.control.loop.op import LOOP
from braces.passes.cleanup.dead_code import learned_size

Write: TypeAlias = "Callable[[Graph, Body, Sequence[str]], list[str]]"
"""Writes a block whose parameters are called so; what its results are called."""
Found: TypeAlias = "Mapping[str, str]"
"""What each output is called, by its name."""


@dataclass
class _Inside(Model):
    """What the graphs of a function share.

    Attributes:
        caller: The graph of the block.
        given: What stands for its inputs there, by their names.
    """

    caller: Graph = field(kw_only=True)
    given: dict[str, str] = field(default_factory=dict[str, str])

    def teller(self, dimension: str) -> Graph | None:
        """The graph of the function, with one more input that tells a size."""
        found = self.caller.size(Dim.named(dimension))
        assert self.main is not None, "a function is a graph"
        self.main.told[dimension] = self.input(dimension, found), -1
        return self.main

    def input(self, stem: str, found: str) -> str:
        """One more input; what it is called inside."""
        name = self.fresh(stem)
        self.given[name] = found
        return name


def function(n: Node, write: Write) -> Found:
    """A function of the model with what a plain block computes, and a node that calls it.

    Sizes that the block tells leave it with its results, but where these have such an axis.
    """
    view = BlockView.of(n.op)
    body, model = view.body, _model(n, view)
    assert model.main is not None, "a function is a graph"
    shown = {size for type_ in n.types if isinstance(type_, TensorType) for size in type_.shape}
    told = [name for name in learned(body) if Dim.named(name) not in shown]
    results = write(model.main, body, ())
    results += [model.main.size(Dim.named(name)) for name in told]
    found = _called(n, model, results, view.recompute)
    sizes = zip(told, found[len(n.types) :], strict=True)
    n.g.told.update((name, (size, -1)) for name, size in sizes)
    return view.bound(found[: len(n.types)])


def learned(body: Body) -> Iterator[str]:
    """The sizes that a block tells, outside of loops."""
    for op in body.ops:
        name = learned_size(op)
        if name is not None:
            yield name
        if op.type != LOOP.type:
            for inner in op.bodies().values():
                yield from learned(inner)


def imports(nodes: Iterable[Any]) -> list[Any]:
    """The versions of the operators that nodes are."""
    ids = [onnx.helper.make_opsetid("", OPSET)]
    called = any(node.domain == FUNCTIONS for node in _every(nodes))
    return [*ids, onnx.helper.make_opsetid(FUNCTIONS, 1)] if called else ids


def complete(nodes: Iterable[Any], functions: Sequence[Any]) -> None:
    """Let calls say of all outputs of a function whether they take them.

    What ONNX infers of a call it infers of all of them.
    """
    counts = {function.name: len(function.output) for function in functions}
    for node in _every(chain(nodes, *(function.node for function in functions))):
        if node.domain == FUNCTIONS:
            node.output.extend([""] * (counts[node.op_type] - len(node.output)))


def _every(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes, and those of graphs in them."""
    for node in nodes:
        yield node
        yield from _every(chain.from_iterable(graph.node for graph in graphs_in([node])))


# ---- the function ----------------------------------------------------------------------------


def _model(n: Node, view: BlockView) -> _Inside:
    """What the function has before its nodes: inputs for what the block captures."""
    prefix = _prefix(n.op.name, view.body.vars)
    kept = frozenset(name.removeprefix(prefix) for name in view.body.vars)
    model = _Inside(kept, prefix, n.g.model.functions, used=set(kept), caller=n.g)
    model.main = Graph(model)
    for name in view.captures:
        called = model.input(name.removeprefix(prefix), n.g.name(name))
        model.main.bind(name, called, n.g.type(name))
    return model


def _prefix(name: str, bound: Iterable[str]) -> str:
    """What names in a block begin with; in the gradient of one that is the other's name."""
    own, bound = f"{name}/", list(bound)
    if any(one.startswith(own) for one in bound):
        return own
    paths = {one.rpartition("/")[0] for one in bound}
    common = commonpath(paths) if paths else ""
    return f"{common}/" if common else ""


def _called(n: Node, model: _Inside, results: Sequence[str], recompute: bool) -> list[str]:
    """Call the function that gives these results; what they are called outside.

    What the block only hands on never enters the function.
    """
    assert model.main is not None, "a function is a graph"
    numbers = _numbers(chain(model.given, _named([*model.constants, *model.main.nodes])))
    made = [name for name in dict.fromkeys(results) if name in numbers.keys() - model.given]
    if not made:
        return [model.given.get(name, name) for name in results]
    called = _written(model, numbers, _stem(n.op.name), recompute)
    inside = {name: called.names[numbers[name]] for name in made}
    asked = called.proto.output
    asked.extend([name for name in inside.values() if name not in asked])
    outside = {inside[name]: n.g.fresh(name) for name in made}
    outputs = [outside.get(name, "") for name in asked]
    while not outputs[-1]:
        outputs.pop()
    kind, given, name = called.proto.name, [*model.given.values()], f"{n.g.path}{n.label}"
    n.g.nodes.append(onnx.helper.make_node(kind, given, outputs, name=name, domain=FUNCTIONS))
    return [outside[inside[r]] if r in inside else model.given.get(r, r) for r in results]


def _written(
    model: _Inside, numbers: Mapping[str, str], stem: str, recompute: bool
) -> Function:
    """The function, or one of this name that computes the same."""
    assert model.main is not None, "a function is a graph"
    nodes = [*model.constants, *model.main.nodes]
    _forget_sizes(nodes)
    key = stem, recompute, len(model.given), _content(nodes, numbers)
    found = model.functions.get(key)
    if found is None:
        rename(nodes, model.called)
        names = {number: model.called.get(name, name) for name, number in numbers.items()}
        taken = {one.proto.name for one in model.functions.values()}
        called = next(name for name in _names_like(stem) if name not in taken)
        proto = onnx.helper.make_function(
            FUNCTIONS, called, [*model.given], [], nodes, imports(nodes)
        )
        if recompute:
            proto.metadata_props.add(key=RECOMPUTE, value="1")
        found = model.functions[key] = Function(proto, names)
    return found


def _stem(name: str) -> str:
    """The name of a block without those around it, and without the counts of calls.

    Example:
        >>> _stem("model/layer_1"), _stem("cell_2_grad_0")
        ('layer', 'cell_grad')
    """
    own = name.rpartition("/")[2]
    return re.sub(r"\W", "_", re.sub(r"_\d+(?=_|$)", "", own) or own, flags=re.ASCII)


def _names_like(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{number}" for number in count(1))


# ---- what it computes ------------------------------------------------------------------------


def _named(nodes: Iterable[Any]) -> Iterator[str]:
    """The names of all values of nodes, in order."""
    for node in nodes:
        yield from node.input
        for graph in graphs_in([node]):
            yield from (entry.name for entry in graph.input)
            yield from _named(graph.node)
            yield from (entry.name for entry in graph.output)
        yield from node.output


def _numbers(names: Iterable[str]) -> dict[str, str]:
    """A number for each name, in order."""
    return {name: str(at) for at, name in enumerate(dict.fromkeys(filter(None, names)))}


def _content(nodes: Iterable[Any], numbers: Mapping[str, str]) -> bytes:
    """What nodes compute, whatever values and graphs are called."""
    proto = onnx.FunctionProto()
    proto.node.extend(nodes)
    rename(proto.node, numbers)
    for graph in graphs_in(_every(proto.node)):
        graph.name = ""
    return proto.SerializeToString(deterministic=True)


def _forget_sizes(nodes: Iterable[Any]) -> None:
    """Declare no symbolic sizes: each call of a function has its own."""
    for graph in graphs_in(_every(nodes)):
        for entry in (*graph.input, *graph.output):
            for axis in axes_of(entry.type):
                axis.ClearField("dim_param")
