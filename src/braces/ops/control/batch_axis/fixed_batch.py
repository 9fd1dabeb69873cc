"""Row axes of captures for a batch of constant size, found by the operators that compute them.

With a constant batch size, another axis may have the same size. So row axes are traced from the
inputs, memories and lengths of a step through the operators around it, in both directions. Axes
to which an operator gives the same name are one axis (union-find).
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
from braces.ops.control.core.value_flow import value_edges

Axis: TypeAlias = "tuple[str, int]"
"""A variable and one of its axes."""
Types: TypeAlias = "dict[str, Type]"


def find_captured_row_axes(
    table: SymbolTable, captures: Mapping[str, Iterable[int]], sources: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return the row axes of a block's captures.

    Args:
        table: The block around it.
        captures: The candidates: captures, with axes of each.
        sources: Variables around the block, each with its row axis.
    """
    tables = list(table.chain())[::-1]
    needed = ancestors([op for scope in tables for op in scope.ops], {*captures, *sources})
    classes = AxisClasses(
        {n for scope in tables for n in scope.vars if scope.vars[n].persistable}
    )
    classes.excluded -= sources.keys()
    types: Types = {}
    for scope in tables:
        types |= {name: scope.type_of(name) for name in scope.vars}
        classes.follow([op for op in scope.ops if not needed.isdisjoint(op.binds())], types)
    for axis in sources.items():
        classes.join(axis, next(iter(sources.items())))
    (rows, *_) = map(classes.find, sources.items())
    row_axes = {
        n: [i for i in axes if classes.find((n, i)) == rows] for n, axes in captures.items()
    }
    return {name: axes for name, axes in row_axes.items() if axes}


@dataclass
class AxisClasses:
    """Equivalence classes of axes, as a union-find structure.

    Attributes:
        excluded: Variables outside of any batch, such as parameters.
        uniform: Axes that are repetitions, which are not joined.
        parents: For each axis another axis of its class.
    """

    excluded: Set[str]
    uniform: set[Axis] = field(default_factory=set[Axis])
    parents: dict[Axis, Axis] = field(default_factory=dict[Axis, Axis])

    def find(self, axis: Axis) -> Axis:
        """Return the representative of an axis."""
        while axis in self.parents:
            axis = self.parents[axis]
        return axis

    def join(self, a: Axis, b: Axis) -> None:
        """Join the classes of two axes, unless one belongs to no batch or is a repetition."""
        if {a[0], b[0]}.isdisjoint(self.excluded) and {a, b}.isdisjoint(self.uniform):
            a, b = self.find(a), self.find(b)
            if a != b:
                self.parents[a] = b

    def follow(self, ops: Iterable[Op], types: Types, block: str = "") -> None:
        """Join axes with equal names in an operator; `block` is a prefix for inner names."""
        for op in ops:
            self._join_named_axes(op, types)
            if op.bodies():
                path = f"{block}{op.name}/"
                op = map_bodies(op, partial(_rename_uniquely, path, itertools.count()))
                for body in op.bodies().values():
                    own = {name: info.type for name, info in body.vars.items()}
                    self.follow(body.ops, types | own, path)
                for axes in _linked_axes(op, types):
                    self.join(*axes)

    def _join_named_axes(self, op: Op, types: Types) -> None:
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
        output_names = set(op.binds())
        for axes_of_index in by_index.values():
            if all(axis[0] in output_names or axis in self.uniform for axis in axes_of_index):
                self.uniform |= set(axes_of_index)
            firm = [axis for axis in axes_of_index if axis not in self.uniform]
            for axis in firm[1:]:
                self.join(firm[0], axis)


def _rename_uniquely(path: str, numbers: Iterator[int], body: Body) -> Body:
    """Return a sub-block with globally unique names."""
    number = next(numbers)
    return rename_body(body, {name: f"{path}{number}/{name}" for name in body.vars})


def _linked_axes(op: Op, types: Types) -> Iterator[tuple[Axis, Axis]]:
    """Yield pairs of an axis of the enclosing block and the same axis inside."""
    types = dict(types)
    for body in op.bodies().values():
        types |= {name: info.type for name, info in body.vars.items()}
    for edge in value_edges(op):
        for axis in range(edge.first, len(shape_of(types[edge.source]))):
            yield (edge.source, axis), (edge.target, axis + edge.shift)
