"""The walk that rewrites a block in which rows are known, and the blocks in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from braces.builder.symbol_table import SymbolTable
from braces.define.axes.axis_map import shape_of
from braces.ir.records import Body, Op
from braces.ir.walk import map_bodies, with_captures
from braces.ops.control.batch_axis.analysis import Known, Site, Sites, Tracked, Tracker, Types

Places: TypeAlias = "Mapping[str, Collection[int]]"
"""The axes of the parameters of a block that are rows."""
Change: TypeAlias = "Callable[[SymbolTable, Tracked, Op], list[Op]]"
"""From a block, an operator in it as rows were followed, and the same operator with its blocks
changed, to what takes its place."""


def visible(table: SymbolTable) -> Types:
    """The types of all that is visible in a block."""
    return {name: table.type_of(name) for one in table.chain() for name in one.vars}


def begun(table: SymbolTable, places: Places) -> Known:
    """What is known where a block begins."""
    return {
        name: tuple(
            "rows" if axis in axes else "other"
            for axis in range(len(shape_of(table.type_of(name))))
        )
        for name, axes in places.items()
    }


@dataclass(frozen=True)
class RowWalk:
    """Changes operators, those of sub-blocks first.

    Attributes:
        tracker: Where rows are; it has followed them.
        change: What takes the place of an operator.
    """

    tracker: Tracker
    change: Change

    def put(self, table: SymbolTable, types: Types, known: Known, sites: Sites) -> None:
        """Change a block, of whose parameters `known` tells where rows are."""
        known, done = dict(known), list[Op]()
        pending, table.ops = table.ops, done
        for op in pending:
            found = self.tracker.step(op, types, known, sites)
            inner = self._inside(table, op, known, sites[op.name]) if op.bodies() else op
            done.extend(self.change(table, found, inner))
        table.touch()

    def _inside(self, table: SymbolTable, op: Op, known: Known, site: Site) -> Op:
        """The operator with its sub-blocks changed."""
        labels = iter(op.bodies())

        def change(body: Body) -> Body:
            label = next(labels)
            inner = table.within(op).thaw(body)
            self.put(
                inner, site.scopes[label], {**known, **site.params[label]}, site.sites[label]
            )
            return inner.freeze(body.results)

        return with_captures(map_bodies(op, change))
