"""Row-wise branches: what is computed of the rows that a mask selects, and put back.

    If (ReduceSum(Cast(mask)) > 0)           y, t = partition(masks=[mask], rows=[x]) { ... }
      then: rows = Squeeze(NonZero(mask))    z = where(mask, y, before)
            part = Gather(x, rows)           s = add(more, t)
            ...
            z = ScatterND(before, rows, made)
            s = Add(more, sum)
      else: z = before, s = more

Anywhere else the number of rows would be a size that a run tells, which loops do not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from braces.builder.builder import current_program
from braces.builder.var import Var, tensor_type
from braces.dtypes import BOOL, TensorType
from braces.exchange.common.values.constants import Value
from braces.exchange.onnx.reader.graph.node import STANDARD, Names, Node
from braces.frontend.control.construct import new_dim
from braces.frontend.core import functions as ops
from braces.ir.records import Body
from braces.lazy import onnx
from braces.ops.control.batch_axis.masking import follow_rows
from braces.ops.control.construct.build import build_block, build_partition


def row_wise(node: Node) -> tuple[Value, ...] | None:
    """What a branch gives that is row-wise; `None` where it is another one, or cannot be so."""
    found = _asked(node.names, node.proto.input[0])
    if found is None:
        return None
    mask = found[0].value(found[1])
    if not isinstance(mask, Var) or mask.dtype != BOOL or mask.ndim != 1:
        return None
    case = _Case.of(node, found[1])
    return None if case is None else node.names.runner.tried(lambda: case.built(node, mask))


def _asked(names: Names, name: str) -> tuple[Names, str] | None:
    """The mask that a condition asks whether it has any rows."""
    found = _maker(names, name, "Greater")
    if found is None or not _is_zero(found[0], found[1].input[1]):
        return None
    for kind in ("ReduceSum", "Cast"):
        found = _maker(found[0], found[1].input[0], kind)
        if found is None:
            return None
    return found[0], found[1].input[0]


def _maker(names: Names, name: str, kind: str) -> tuple[Names, Any] | None:
    made = names.maker(name)
    if made is None or made[1].op_type != kind or (made[1].domain or STANDARD) != STANDARD:
        return None
    return made[0], made[1]


def _is_zero(names: Names, name: str) -> bool:
    known = names.runner.known(names, name)
    return known is not None and known.plain and not known.numbers().any()


@dataclass
class _Case:
    """The graph of a row-wise branch, taken apart.

    Attributes:
        rows: What is gathered, and what the rows are called.
        nodes: What is computed of them.
        made: What each output is made of: what was there before, rows or a sum, and which.
    """

    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    nodes: list[Any] = field(default_factory=list[Any])
    made: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])

    @staticmethod
    def of(node: Node, mask: str) -> _Case | None:
        """The case of a branch, or `None` where its graphs are others."""
        yes, no = node.attrs["then_branch"], node.attrs["else_branch"]
        graph = _Graph(yes, mask)
        before = [_Graph(no, "").plain(entry.name) for entry in no.output]
        if no.node and any(n.op_type != "Identity" for n in no.node):
            return None
        case, left = _Case(), set[int]()
        for entry, name in zip(yes.output, before, strict=True):
            made = graph.result(entry.name, name, left)
            if made is None:
                return None
            case.made.append((name, *made))
        case._sort(graph, left)
        return None if graph.places.intersection(_read(case.nodes)) else case

    def _sort(self, graph: _Graph, left: set[int]) -> None:
        """Rows, and what is computed of them."""
        for made in graph.nodes:
            if id(made) in left or graph.says_places(made):
                continue
            if graph.gathers(made):
                self.rows.append((made.input[0], made.output[0]))
            else:
                self.nodes.append(made)

    def built(self, node: Node, mask: Var) -> tuple[Value, ...]:
        """The branch as an operator on rows, beside what was there before."""
        lift = node.names.runner.lift
        whole = [lift(node.names.value(source)) for source, _ in self.rows]
        before = [lift(node.names.value(name)) for name, _, _ in self.made]
        order = sorted(range(len(self.made)), key=lambda at: not self.made[at][2])
        sums = sum(not by_row for _, _, by_row in self.made)
        count = new_dim(mask.table, "rows")
        rows = (tensor_type(x) for x in whole)
        types = [
            TensorType(BOOL, (count,)),
            *(type_.with_shape((count, *type_.shape[1:])) for type_ in rows),
        ]

        def build(given: list[Var]) -> list[Var]:
            table = current_program().current
            made = node.names.runner.graph(node.names, self._graph(order), given[1:])
            results = [lift(value) for value in made]
            follow_rows(table, count, dict.fromkeys(table.params, (0,)))
            return results

        body: Body = build_block(types, build)
        found = build_partition([mask], whole, [body], [count], sums=sums)
        results: list[Var] = [*before]
        for at, value in zip(order, found, strict=True):
            results[at] = _put(mask, before[at], value, self.made[at][2])
        return tuple(results)

    def _graph(self, order: Sequence[int]) -> Any:
        """What is computed of rows as a graph of its own."""
        empty = onnx.TypeProto()
        made = [self.made[at][1] for at in order]
        return onnx.helper.make_graph(
            self.nodes,
            "rows",
            [onnx.helper.make_value_info(name, empty) for _, name in self.rows],
            [onnx.helper.make_value_info(name, empty) for name in made],
        )


def _put(mask: Var, before: Var, value: Var, by_row: bool) -> Var:
    if not by_row:
        return ops.add(before, value)
    axes = tuple(range(1, value.ndim))
    return ops.where(ops.expand_dims(mask, axis=axes) if axes else mask, value, before)


class _Graph:
    """The nodes of a graph by what they make.

    Attributes:
        nodes: In order.
        places: What tells the places of the selected rows, in one form or another.
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
        """What a name is called where it was made."""
        while name in self._makers and self._makers[name].op_type == "Identity":
            name = self._makers[name].input[0]
        return name

    def says_places(self, node: Any) -> bool:
        """Whether a node gives the places of rows."""
        return node.output[0] in self.places

    def gathers(self, node: Any) -> bool:
        """Whether a node takes the selected rows of what is made outside."""
        along = [a.i for a in node.attribute if a.name == "axis"]
        return (
            node.op_type == "Gather"
            and not any(along)
            and node.input[1] in self.places
            and self.plain(node.input[0]) not in self._makers
        )

    def result(self, name: str, before: str, left: set[int]) -> tuple[str, bool] | None:
        """What is put to what was there before, and whether it is rows; else it is a sum.

        The nodes that put it there are left out of the case.
        """
        while name in self._makers and self._makers[name].op_type == "Identity":
            left.add(id(self._makers[name]))
            name = self._makers[name].input[0]
        made = self._makers.get(name)
        if made is None:
            return None
        left.add(id(made))
        if list(made.input[:1]) != [before]:
            return None
        if made.op_type == "ScatterND" and not made.attribute and made.input[1] in self.places:
            return made.input[2], True
        return (made.input[1], False) if made.op_type == "Add" else None


def _read(nodes: Sequence[Any]) -> Iterator[str]:
    """What nodes and those in their graphs read."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from (entry.name for entry in attribute.g.output)
            yield from _read(attribute.g.node)
