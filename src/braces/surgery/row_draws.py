"""Row-wise branches with new operators: row numbers for random draws, and a check of rows.

y = partition(masks=p, rows=x)          numbers: i64[b] = arange() {stop=b}
cases [ (valid, r) {                  y = partition(masks=p, rows=[x, numbers])
h = dropout(…, x=r) … } ]     ->      cases [ (valid, r, number) {
h = dropout(…, x=r, trips=number) … } ]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.ir.records import Body, Op, ProgramDef
from braces.ir.views import PartitionView, view_of
from braces.ir.views.partition import Case, Operand
from braces.ops.control.batch_axis.masking import analyze_row_axes
from braces.ops.control.partition.random import number_draws, row_numbers
from braces.passes.core.rewrite import InsertionPoint, Replacement, Rule, rewrite as walk


def rewrite(program: ProgramDef, rule: Rule) -> ProgramDef:
    """Rewrite a program by a rule, as a pass does.

    Blocks are walked in the order of execution and inside out. A rule meets an operator when
    all operators before it, and all in its sub-blocks, are rewritten. It may build operators,
    which are inserted before this one (`InsertionPoint.building`). It returns the operator
    itself, an operator that replaces it, a mapping from old to new names of its outputs, or
    `None` to remove it. Draws that it builds in row-wise branches depend on the row. A method
    `enter(place)` of a rule is called before the first operator of each block.
    """

    def completed(op: Op, point: InsertionPoint) -> Replacement:
        replacement = rule(op, point)
        if not isinstance(replacement, Op) or not _has_new_content(op, point):
            return replacement
        return complete_rows(replacement, point)

    if hasattr(rule, "enter"):
        completed.enter = rule.enter  # type: ignore[attr-defined]
    return walk(program, completed)


def _has_new_content(op: Op, point: InsertionPoint) -> bool:
    """Return whether the walk has changed a block of an operator."""
    bodies = op.bodies()
    if not bodies:
        return False
    before = next((each.bodies() for each in point.body.ops if each.name == op.name), bodies)
    return any(body is not bodies[label] for label, body in before.items())


def complete_rows(op: Op, point: InsertionPoint) -> Op:
    """Return an operator whose cases have new operators; only row-wise branches change.

    Raises:
        ProgramError: If an operator mixes the rows of a branch and does not support a mask.
    """
    view = view_of(op)
    if not isinstance(view, PartitionView) or view.masked:
        return op
    with point.building():
        return _Completion(view, point).branch()


class _Completion:
    """Completion of one row-wise branch."""

    def __init__(self, view: PartitionView, point: InsertionPoint) -> None:
        self.view = view
        self.point = point
        self.rows: Callable[[], Var] = cache(self._row_numbers)
        self.params: dict[int, str] = {}

    def branch(self) -> Op:
        """Return the branch; the same operator if no draw needs row numbers."""
        tables = [self._table(case) for case in self.view.cases]
        for at, (case, table) in enumerate(zip(self.view.cases, tables, strict=True)):
            places = dict.fromkeys(table.params, (0,))
            numbers = partial(self._numbers, at, case, table)
            number_draws(self.point.program, table, case.count, places, numbers)
            analyze_row_axes(table, case.count, dict.fromkeys(table.params, (0,)))
        return self._with_numbers(tables) if self.params else self.view.origin

    def _table(self, case: Case) -> SymbolTable:
        table, content = self.point.table.within(self.view.origin), case.content
        table.params = list(content.params)
        table.vars, table.ops = dict(content.vars), list(content.ops)
        return table

    def _row_numbers(self) -> Var:
        mask = self.point.var(self.view.cases[0].mask)
        return row_numbers(self.point.program, self.point.table, mask.shape[0])

    def _numbers(self, at: int, case: Case, table: SymbolTable) -> Var:
        """Return the numbers of the rows of a case, a parameter of its block."""
        if at not in self.params:
            type_ = self.rows().info.type.map_sizes(lambda _: case.count)
            self.params[at] = table.add_param(table.names.unique("number"), type_).name
        return var_of(self.point.program, table, self.params[at])

    def _with_numbers(self, tables: list[SymbolTable]) -> Op:
        for at, (case, table) in enumerate(zip(self.view.cases, tables, strict=True)):
            self._numbers(at, case, table)
        operand = Operand(self.rows().name, tuple(self.params[k] for k in range(len(tables))))
        contents: list[Body] = [
            table.freeze(case.content.results)
            for case, table in zip(self.view.cases, tables, strict=True)
        ]
        view = self.view.containing(contents)
        return replace(view, rows=(*view.rows, operand)).to_op()
