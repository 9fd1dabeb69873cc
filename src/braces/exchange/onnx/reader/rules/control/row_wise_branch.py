"""Row-wise branches: `If` with gather and scatter by a mask becomes a `partition`.

    If (ReduceSum(Cast(mask)) > 0)           y, t = partition(masks=[mask], rows=[x]) { ... }
      then: rows = Squeeze(NonZero(mask))    z = where(mask, y, before)
            part = Gather(x, rows)           s = add(more, t)
            ...
            z = ScatterND(before, rows, made)
            s = Add(more, sum)
      else: z = before, s = more

In any other form the number of rows would be a data-dependent size, which loops do not allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from braces.exchange.common.values.constants import Value
from braces.exchange.onnx.reader.graph.node import ONNX_DOMAIN, GraphScope, OnnxNode
from braces.extend import functions as ops
from braces.extend.building import Var, current_program, tensor_type
from braces.extend.constructs import analyze_row_axes, build_block, build_partition
from braces.extend.programs import Body
from braces.extend.types import BOOL, TensorType, new_dim
from braces.lazy import onnx


def match_row_wise(node: OnnxNode) -> tuple[Value, ...] | None:
    """Convert a branch to a row-wise one; return `None` if it does not match the pattern."""
    mask_source = _tested_mask(node.names, node.proto.input[0])
    if mask_source is None:
        return None
    mask = mask_source[0].value(mask_source[1])
    if not isinstance(mask, Var) or mask.dtype != BOOL or mask.ndim != 1:
        return None
    case = _CaseGraph.of(node, mask_source[1])
    return (
        None
        if case is None
        else node.names.runner.tried(lambda: case.build_partition(node, mask))
    )


def _tested_mask(names: GraphScope, name: str) -> tuple[GraphScope, str] | None:
    """Return the mask that a condition tests for any true element."""
    definition = _maker_of_kind(names, name, "Greater")
    if definition is None or not _is_zero(definition[0], definition[1].input[1]):
        return None
    for kind in ("ReduceSum", "Cast"):
        definition = _maker_of_kind(definition[0], definition[1].input[0], kind)
        if definition is None:
            return None
    return definition[0], definition[1].input[0]


def _maker_of_kind(names: GraphScope, name: str, kind: str) -> tuple[GraphScope, Any] | None:
    definition = names.maker(name)
    if (
        definition is None
        or definition[1].op_type != kind
        or (definition[1].domain or ONNX_DOMAIN) != ONNX_DOMAIN
    ):
        return None
    return definition[0], definition[1]


def _is_zero(names: GraphScope, name: str) -> bool:
    known = names.runner.known_value(names, name)
    return known is not None and known.plain and not known.numbers().any()


@dataclass
class _CaseGraph:
    """The matched graph of a row-wise branch.

    Attributes:
        rows: The gathered arrays, and the names of their rows.
        nodes: The nodes that compute with the rows.
        made: The parts of each output: the value before, the new rows or sum, and whether it is
            rows.
    """

    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    nodes: list[Any] = field(default_factory=list[Any])
    made: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])

    @staticmethod
    def of(node: OnnxNode, mask: str) -> _CaseGraph | None:
        """Match the graphs of a branch; return `None` if they do not fit the pattern."""
        then_graph, else_graph = node.attrs["then_branch"], node.attrs["else_branch"]
        graph = _Graph(then_graph, mask)
        before = [_Graph(else_graph, "").plain(entry.name) for entry in else_graph.output]
        if else_graph.node and any(n.op_type != "Identity" for n in else_graph.node):
            return None
        case, skipped = _CaseGraph(), set[int]()
        for entry, name in zip(then_graph.output, before, strict=True):
            match = graph.result(entry.name, name, skipped)
            if match is None:
                return None
            case.made.append((name, *match))
        case._sort(graph, skipped)
        return None if graph.places.intersection(_names_read(case.nodes)) else case

    def _sort(self, graph: _Graph, left: set[int]) -> None:
        """Separate gathers from the nodes that compute with the rows."""
        for node in graph.nodes:
            if id(node) in left or graph.says_places(node):
                continue
            if graph.gathers(node):
                self.rows.append((node.input[0], node.output[0]))
            else:
                self.nodes.append(node)

    def build_partition(self, node: OnnxNode, mask: Var) -> tuple[Value, ...]:
        """Build the partition, and merge its results with the values before."""
        lift = node.names.runner.lift
        full_arrays = [lift(node.names.value(source)) for source, _ in self.rows]
        before = [lift(node.names.value(name)) for name, _, _ in self.made]
        order = sorted(range(len(self.made)), key=lambda at: not self.made[at][2])
        sums = sum(not by_row for _, _, by_row in self.made)
        count = new_dim(mask.table, "rows")
        rows = (tensor_type(x) for x in full_arrays)
        types = [
            TensorType(BOOL, (count,)),
            *(type_.with_shape((count, *type_.shape[1:])) for type_ in rows),
        ]

        def build(arguments: list[Var]) -> list[Var]:
            table = current_program().current
            outputs = node.names.runner.graph(node.names, self._graph(order), arguments[1:])
            results = [lift(value) for value in outputs]
            analyze_row_axes(table, count, dict.fromkeys(table.params, (0,)))
            return results

        body: Body = build_block(types, build)
        partition_outputs = build_partition([mask], full_arrays, [body], [count], sums=sums)
        results: list[Var] = [*before]
        for at, value in zip(order, partition_outputs, strict=True):
            results[at] = _merge_result(mask, before[at], value, self.made[at][2])
        return tuple(results)

    def _graph(self, order: Sequence[int]) -> Any:
        """Return the nodes that compute with the rows as a graph."""
        empty = onnx.TypeProto()
        output_names = [self.made[at][1] for at in order]
        return onnx.helper.make_graph(
            self.nodes,
            "rows",
            [onnx.helper.make_value_info(name, empty) for _, name in self.rows],
            [onnx.helper.make_value_info(name, empty) for name in output_names],
        )


def _merge_result(mask: Var, before: Var, value: Var, by_row: bool) -> Var:
    if not by_row:
        return ops.add(before, value)
    axes = tuple(range(1, value.ndim))
    return ops.where(ops.expand_dims(mask, axis=axes) if axes else mask, value, before)


class _Graph:
    """The nodes of a graph by output name.

    Attributes:
        nodes: The nodes in order.
        places: The names that hold the indices of selected rows.
    """

    def __init__(self, graph: Any, mask: str) -> None:
        self.nodes = list(graph.node)
        self._makers: Mapping[str, Any] = {n: node for node in self.nodes for n in node.output}
        self.places = set[str]()
        for node in self.nodes:
            if node.op_type == "NonZero" and node.input[0] == mask:
                self.places.add(node.output[0])
            if node.op_type in ("Squeeze", "Unsqueeze") and node.input[0] in self.places:
                self.places.add(node.output[0])

    def plain(self, name: str) -> str:
        """Resolve a name through `Identity` nodes."""
        while name in self._makers and self._makers[name].op_type == "Identity":
            name = self._makers[name].input[0]
        return name

    def says_places(self, node: Any) -> bool:
        """Return whether a node computes indices of rows."""
        return node.output[0] in self.places

    def gathers(self, node: Any) -> bool:
        """Return whether a node gathers the selected rows of an outer value."""
        axes = [a.i for a in node.attribute if a.name == "axis"]
        return (
            node.op_type == "Gather"
            and not any(axes)
            and node.input[1] in self.places
            and self.plain(node.input[0]) not in self._makers
        )

    def result(self, name: str, before: str, left: set[int]) -> tuple[str, bool] | None:
        """Match an output; return the new value, and whether it is rows rather than a sum.

        The nodes that merge it with the value before are added to `left`.
        """
        while name in self._makers and self._makers[name].op_type == "Identity":
            left.add(id(self._makers[name]))
            name = self._makers[name].input[0]
        producer = self._makers.get(name)
        if producer is None:
            return None
        left.add(id(producer))
        if list(producer.input[:1]) != [before]:
            return None
        if (
            producer.op_type == "ScatterND"
            and not producer.attribute
            and producer.input[1] in self.places
        ):
            return producer.input[2], True
        return (producer.input[1], False) if producer.op_type == "Add" else None


def _names_read(nodes: Sequence[Any]) -> Iterator[str]:
    """Yield the names that nodes and their subgraphs read."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from (entry.name for entry in attribute.g.output)
            yield from _names_read(attribute.g.node)
