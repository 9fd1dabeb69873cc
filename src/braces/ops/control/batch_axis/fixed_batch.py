"""Captures that come of a batch that is a number: what computes them tells, not their size.

Where a batch is a number, another axis may be as long. So from the inputs, memories and lengths
of a step, rows are followed through the operators around it, forwards and backwards: the axes
that an operator calls alike are one axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from braces.builder.symbol_table import SymbolTable
from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS
from braces.dtypes import Type
from braces.ir.records import Body, Op
from braces.ir.walk import ancestors, map_bodies, rename_body
from braces.ops.control.core.value_flow import links_of

Axis: TypeAlias = "tuple[str, int]"
"""A variable and one of its axes."""
Types: TypeAlias = "dict[str, Type]"


def captured_rows(
    table: SymbolTable, captures: Mapping[str, Iterable[int]], sources: Mapping[str, int]
) -> dict[str, list[int]]:
    """Which axes of captures of a block are the rows, as what they are computed from tells.

    Args:
        table: The block around it.
        captures: The captures in question, and axes of each.
        sources: Variables around the block, each with its axis that is rows.
    """
    tables = list(table.chain())[::-1]
    needed = ancestors([op for one in tables for op in one.ops], {*captures, *sources})
    joined = Joined({n for one in tables for n in one.vars if one.vars[n].persistable})
    joined.apart -= sources.keys()
    types: Types = {}
    for one in tables:
        types |= {name: one.type_of(name) for name in one.vars}
        joined.follow([op for op in one.ops if not needed.isdisjoint(op.binds())], types)
    for axis in sources.items():
        joined.join(axis, next(iter(sources.items())))
    (rows, *_) = map(joined.find, sources.items())
    found = {
        n: [i for i in axes if joined.find((n, i)) == rows] for n, axes in captures.items()
    }
    return {name: axes for name, axes in found.items() if axes}


@dataclass
class Joined:
    """Axes that are one.

    Attributes:
        apart: Variables that belong to no batch, as parameters.
        same: Axes that are repetitions, which belong to whatever they meet.
        parents: For each axis another one that it is one with.
    """

    apart: Set[str]
    same: set[Axis] = field(default_factory=set[Axis])
    parents: dict[Axis, Axis] = field(default_factory=dict[Axis, Axis])

    def find(self, axis: Axis) -> Axis:
        """What stands for all axes that are one with this."""
        while axis in self.parents:
            axis = self.parents[axis]
        return axis

    def join(self, left: Axis, right: Axis) -> None:
        """Make one of two axes, unless one belongs to no batch."""
        if {left[0], right[0]}.isdisjoint(self.apart) and {left, right}.isdisjoint(self.same):
            left, right = self.find(left), self.find(right)
            if left != right:
                self.parents[left] = right

    def follow(self, ops: Iterable[Op], types: Types, block: str = "") -> None:
        """Join the axes that operators call alike; `block` tells apart what is called alike."""
        for op in ops:
            self._join_alike(op, types)
            if op.bodies():
                path = f"{block}{op.name}/"
                op = map_bodies(op, partial(_told_apart, path, itertools.count()))
                for body in op.bodies().values():
                    own = {name: info.type for name, info in body.vars.items()}
                    self.follow(body.ops, types | own, path)
                for axes in _linked(op, types):
                    self.join(*axes)

    def _join_alike(self, op: Op, types: Types) -> None:
        rule = OPS.get(op.type).axes_rule
        if rule is None:
            return
        slots = (*op.inputs.items(), *op.outputs.items())
        axes = rule({slot: tuple(types[n] for n in names) for slot, names in slots}, op.attrs)
        by_index: dict[str, list[Axis]] = {}
        for slot, names in slots:
            for position, name in enumerate(names):
                for axis, index in enumerate(axes.of(slot, position)):
                    if index is not None and index not in axes.mixed:
                        by_index.setdefault(index, []).append((name, axis))
        made = set(op.binds())
        for found in by_index.values():
            if all(axis[0] in made or axis in self.same for axis in found):
                self.same |= set(found)
            firm = [axis for axis in found if axis not in self.same]
            for axis in firm[1:]:
                self.join(firm[0], axis)


def _told_apart(path: str, numbers: Iterator[int], body: Body) -> Body:
    """A sub-block whose names are no others'."""
    number = next(numbers)
    return rename_body(body, {name: f"{path}{number}/{name}" for name in body.vars})


def _linked(op: Op, types: Types) -> Iterator[tuple[Axis, Axis]]:
    """The axes outside of sub-blocks that are one with axes inside."""
    known = dict(types)
    for body in op.bodies().values():
        known |= {name: info.type for name, info in body.vars.items()}
    for link in links_of(op):
        for axis in range(link.first, len(shape_of(known[link.source]))):
            yield (link.source, axis), (link.target, axis + link.shift)
