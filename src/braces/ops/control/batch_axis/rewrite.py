"""Rewriting of blocks with known row axes, sub-blocks included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from braces.builder.symbol_table import SymbolTable
from braces.define.axes.axis_map import shape_of
from braces.ir.records import Body, Op
from braces.ir.walk import map_bodies, with_captures
from braces.ops.control.batch_axis.analysis import (
    AxisKinds,
    BatchAxisAnalysis,
    ConstructState,
    ConstructStates,
    OpAxes,
    Types,
)

RowAxes: TypeAlias = "Mapping[str, Collection[int]]"
"""The row axes of a block's parameters."""
RewriteRule: TypeAlias = "Callable[[SymbolTable, OpAxes, Op], list[Op]]"
"""A rewrite rule: replaces an operator with operators.

Arguments are the block, the operator as analyzed, and the same operator after its sub-blocks
were rewritten.
"""


def visible_types(table: SymbolTable) -> Types:
    """Return the types of all variables visible in a block."""
    return {name: table.type_of(name) for scope in table.chain() for name in scope.vars}


def initial_axis_kinds(table: SymbolTable, places: RowAxes) -> AxisKinds:
    """Return the axis kinds at entry to a block."""
    return {
        name: tuple(
            "rows" if axis in axes else "other"
            for axis in range(len(shape_of(table.type_of(name))))
        )
        for name, axes in places.items()
    }


@dataclass(frozen=True)
class RowRewriter:
    """Rewrites the operators of a block, after those of their sub-blocks.

    Attributes:
        tracker: The batch axis analysis, already run.
        change: The rewrite rule.
    """

    tracker: BatchAxisAnalysis
    change: RewriteRule

    def put(
        self, table: SymbolTable, types: Types, known: AxisKinds, sites: ConstructStates
    ) -> None:
        """Rewrite a block, given the axis kinds of its parameters."""
        known, new_ops = dict(known), list[Op]()
        pending, table.ops = table.ops, new_ops
        for op in pending:
            tracked = self.tracker.step(op, types, known, sites)
            inner = (
                self._rewrite_blocks(table, op, known, sites[op.name]) if op.bodies() else op
            )
            new_ops.extend(self.change(table, tracked, inner))
        table.touch()

    def _rewrite_blocks(
        self, table: SymbolTable, op: Op, known: AxisKinds, site: ConstructState
    ) -> Op:
        """Return the operator with its sub-blocks rewritten."""
        labels = iter(op.bodies())

        def change(body: Body) -> Body:
            label = next(labels)
            inner = table.within(op).thaw(body)
            self.put(
                inner, site.scopes[label], {**known, **site.params[label]}, site.sites[label]
            )
            return inner.freeze(body.results)

        return with_captures(map_bodies(op, change))
