"""Rewriting of blocks with known batch axes, sub-blocks included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.define.axes.axis_map import shape_of
from braces.ir.records import Body, Op
from braces.ir.walk import map_bodies, with_captures
from braces.ops.control.batch_axis.analysis import BatchAxisAnalysis, BlockState
from braces.ops.control.batch_axis.axis_kinds import AxisKind, OpAxes

RowAxes: TypeAlias = "Mapping[str, Collection[int]]"
"""The batch axes of a block's parameters."""
RewriteRule: TypeAlias = "Callable[[SymbolTable, OpAxes, Op], list[Op]]"
"""A rewrite rule: replaces an operator with operators.

Arguments are the block, the operator as analyzed, and the same operator after its sub-blocks
were rewritten.
"""


def initial_state(table: SymbolTable, places: RowAxes) -> BlockState:
    """Return the abstract state of a block before its first operator."""
    types = {name: table.type_of(name) for scope in table.chain() for name in scope.vars}
    kinds = {
        name: tuple(
            AxisKind.BATCH if axis in axes else AxisKind.OTHER
            for axis in range(len(shape_of(types[name])))
        )
        for name, axes in places.items()
    }
    return BlockState(types, kinds).at_entry()


def rewrite_block(
    table: SymbolTable, places: RowAxes, analysis: BatchAxisAnalysis, rule: RewriteRule
) -> None:
    """Rewrite the operators of a block, after those of their sub-blocks.

    Args:
        table: The block, complete.
        places: The batch axes of its parameters.
        analysis: The batch axis analysis.
        rule: The rewrite rule.

    Raises:
        ProgramError: If an operator mixes batch elements, or may do so.
    """
    block = initial_state(table, places)
    analysis.run(table.ops, block)
    _Rewriter(analysis, rule).rewrite(table, block.at_entry())


def build_detached(
    program: Builder, table: SymbolTable, op: Op, build: Callable[[], Op | list[Op]]
) -> list[Op]:
    """Return the operators that `build` appends in place of `op`, detached, and its result."""
    start = len(table.ops)
    with program.building(table), program.at(op.source):
        result = build()
    new_ops = table.ops[start:]
    del table.ops[start:]
    return new_ops + (result if isinstance(result, list) else [result])


@dataclass(frozen=True)
class _Rewriter:
    """Rewrites blocks that the analysis has interpreted."""

    analysis: BatchAxisAnalysis
    rule: RewriteRule

    def rewrite(self, table: SymbolTable, block: BlockState) -> None:
        """Rewrite a block, given its state at entry."""
        new_ops = list[Op]()
        pending, table.ops = table.ops, new_ops
        for op in pending:
            op_axes = self.analysis.step(op, block)
            inner = self._rewrite_blocks(table, op, block) if op.bodies() else op
            new_ops.extend(self.rule(table, op_axes, inner))
        table.touch()

    def _rewrite_blocks(self, table: SymbolTable, op: Op, block: BlockState) -> Op:
        """Return the operator with its sub-blocks rewritten."""
        labels, blocks = iter(op.bodies()), block.constructs[op.name].blocks

        def change(body: Body) -> Body:
            inner = table.within(op).thaw(body)
            self.rewrite(inner, blocks[next(labels)].at_entry(block.kinds))
            return inner.freeze(body.results)

        return with_captures(map_bodies(op, change))
