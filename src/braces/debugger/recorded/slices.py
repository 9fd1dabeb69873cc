"""Slices: the values that a value depends on, and those that depend on it, in all blocks.

An edge leads from a variable to one that is computed from it. Variables are those of the
program, so a slice holds for all iterations. The kind of an edge determines the run of a block
in which the source is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, final

from braces.debugger.recorded.sites import Sites, VariableKey
from braces.ir.places import Place
from braces.ir.records import CAPTURES, Op
from braces.ops.control.core.value_flow import ValueEdge, control_operands, value_edges

SAME, OPERAND, INITIAL, CARRY, RESULT, CONTROL = range(6)
"""Kinds of edges: within a block or from a block around; into a block; into its first
iteration; from the preceding iteration; out of a block; the control of a block."""


class Edge(NamedTuple):
    """An edge of the data flow.

    Attributes:
        source: The variable that is read.
        target: The variable that is computed from it.
        kind: `SAME`, `OPERAND`, `INITIAL`, `CARRY`, `RESULT` or `CONTROL`.
    """

    source: VariableKey
    target: VariableKey
    kind: int


@final
class Flow:
    """The data flow of a program through all of its blocks.

    Attributes:
        edges: The edges, each once, in program order.
    """

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self.edges = tuple(dict.fromkeys(self._all()))

    @cached_property
    def _sources(self) -> dict[VariableKey, list[VariableKey]]:
        sources = dict[VariableKey, list[VariableKey]]()
        for edge in self.edges:
            sources.setdefault(edge.target, []).append(edge.source)
        return sources

    @cached_property
    def _targets(self) -> dict[VariableKey, list[VariableKey]]:
        targets = dict[VariableKey, list[VariableKey]]()
        for edge in self.edges:
            targets.setdefault(edge.source, []).append(edge.target)
        return targets

    def backward(self, variable: VariableKey) -> set[VariableKey]:
        """Return the variables that a variable depends on, itself included."""
        return _reach(self._sources, variable)

    def forward(self, variable: VariableKey) -> set[VariableKey]:
        """Return the variables that depend on a variable, itself included."""
        return _reach(self._targets, variable)

    def _all(self) -> Iterator[Edge]:
        for number, place in enumerate(self._sites.places):
            for op in place.body.ops:
                yield from self._of(number, place, op)

    def _of(self, number: int, place: Place, op: Op) -> Iterator[Edge]:
        inner = {label: self._sites.number_of(p) for label, p in place.inner(op).items()}
        edges = value_edges(op) if inner else ()
        reached = {(edge.block, edge.target) for edge in edges}
        free = [VariableKey(number, name) for name in op.binds() if ("", name) not in reached]
        yield from _pairs(self._visible(number, op.reads()), free, SAME)
        for edge in edges:
            yield from self._edge(number, inner, edges, edge)
        if inner:
            yield from self._controls(number, inner, op, reached)

    def _visible(self, number: int, names: Iterable[str]) -> list[VariableKey]:
        binders = (self._sites.binder(number, name) for name in dict.fromkeys(names))
        return [variable for variable in binders if variable is not None]

    def _edge(
        self, number: int, inner: dict[str, int], edges: tuple[ValueEdge, ...], edge: ValueEdge
    ) -> Iterator[Edge]:
        origin = inner[edge.origin] if edge.origin else number
        source = self._sites.binder(origin, edge.source)
        target = VariableKey(inner[edge.block] if edge.block else number, edge.target)
        if source is not None and target.name in self._sites.places[target.block].body.vars:
            yield Edge(source, target, _kind(edge, edges))

    def _controls(
        self, number: int, inner: dict[str, int], op: Op, reached: set[tuple[str, str]]
    ) -> Iterator[Edge]:
        """Yield edges from masks, indices and conditions to the outputs and other arguments."""
        own = (name for slot, ns in op.inputs.items() if slot != CAPTURES for name in ns)
        flowing = {edge.source for edge in value_edges(op) if not edge.origin}
        control = self._visible(number, (name for name in own if name not in flowing))
        for label, name in control_operands(op):
            control += self._visible(inner[label] if label else number, (name,))
        outputs = [VariableKey(number, name) for name in op.binds()]
        arguments = [
            VariableKey(block, name)
            for label, block in inner.items()
            for name in self._sites.places[block].body.params
            if (label, name) not in reached
        ]
        yield from _pairs(dict.fromkeys(control), outputs + arguments, CONTROL)


def _pairs(
    sources: Iterable[VariableKey], targets: Iterable[VariableKey], kind: int
) -> Iterator[Edge]:
    targets = tuple(targets)
    return (Edge(source, target, kind) for source in sources for target in targets)


def _kind(edge: ValueEdge, edges: tuple[ValueEdge, ...]) -> int:
    if edge.origin:
        return CARRY if edge.block else RESULT
    carried = any(
        other.origin and (other.block, other.target) == (edge.block, edge.target)
        for other in edges
    )
    return INITIAL if carried or not edge.block else OPERAND


def _reach(
    neighbours: dict[VariableKey, list[VariableKey]], start: VariableKey
) -> set[VariableKey]:
    reached, pending = {start}, [start]
    while pending:
        for variable in neighbours.get(pending.pop(), ()):
            if variable not in reached:
                reached.add(variable)
                pending.append(variable)
    return reached
