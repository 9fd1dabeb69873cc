"""Masking: operators of a partitioned branch that reduce over rows exclude padding.

The row axes come from `braces.ops.control.batch_axis.analysis`.

    cases [ (valid: bool[n], r: f32[n,3]) { s: f32[3] = sum(x=r) {axis=[0]}  … } ]

    cases [
      (valid: bool[n], r: f32[n,3]) {
        real: bool[n,1] = reshape(x=valid) {shape=[size(n), 1]}
        kept: f32[n,3] = where(condition=real, x=r, y=zero)
        s: f32[3] = sum(x=kept) {axis=[0]}
        …
      },
    ] {masked=true}

A branch is built, saved and interpreted in the first form. It is compiled and differentiated in
the second. A branch with rows in place (`compact=False`) has padding when interpreted, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.define.axes.axis_map import HIGHEST, LOWEST, IdentityElements, Indices
from braces.define.core.kernel_call import call_rule
from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import is_float
from braces.ir.records import Body, Op
from braces.ir.views import LoopView, PartitionView, view_of
from braces.ops.common.row_semantics import FIRST_ROW, mixed_rows_error
from braces.ops.control.batch_axis.analysis import BatchAxisAnalysis
from braces.ops.control.batch_axis.axis_kinds import AxisKinds, OpAxes
from braces.ops.control.batch_axis.per_row_loops import guard_padding_iterations
from braces.ops.control.batch_axis.rewrite import (
    RowAxes,
    build_detached,
    initial_state,
    rewrite_block,
)


def masked_branch(program: Builder, outer: SymbolTable, op: Op) -> Op:
    """Return a partitioned branch whose cases exclude padding from operators that mix rows.

    Args:
        program: The program.
        outer: The block that contains the branch.
        op: The branch; returned as it is if it is masked already.

    Raises:
        ProgramError: If an operator that mixes batch elements does not support a mask.
    """
    view = PartitionView.of(op)
    if view.masked:
        return op
    contents = list[Body]()
    for case, body in zip(view.cases, view.bodies, strict=True):
        table = outer.within(op).thaw(body)
        places = dict.fromkeys(body.params, (0,))
        rows = table.unifier.resolve(case.count)
        mask_rows(program, table, rows, places, case.valid)
        contents.append(table.freeze())
    return replace(view.containing(contents), masked=True).to_op()


def analyze_row_axes(table: SymbolTable, rows: Size, places: RowAxes) -> AxisKinds:
    """Return the axis kinds of a block that is not masked yet.

    Args:
        table: The block.
        rows: The number of rows: a number, or a name.
        places: The row axes of its parameters.

    Raises:
        ProgramError: If an operator that mixes batch elements does not support a mask.
    """
    block = initial_state(table, places)
    BatchAxisAnalysis(rows, resolve=table.unifier.resolve).run(table.ops, block)
    return block.kinds


def mask_rows(
    program: Builder,
    table: SymbolTable,
    rows: Size,
    places: RowAxes,
    valid: str,
    count: str = "",
) -> None:
    """Exclude padding from all operators of a block that mix rows.

    Args:
        program: The program under construction.
        table: The block, complete; operators are inserted.
        rows: The number of rows: a number, or a name.
        places: The row axes of the block's parameters.
        valid: The mask variable: true for rows, false for padding.
        count: If the batch is padded to a capacity: the variable of the number of valid rows.
            Valid rows come first, and there is at least one.

    Raises:
        ProgramError: If an operator that mixes batch elements does not support a mask.
    """
    analysis = BatchAxisAnalysis(rows, bool(count), resolve=table.unifier.resolve)
    rule = _MaskInserter(program, rows, valid, count).mask
    rewrite_block(table, places, analysis, rule)


@dataclass
class _MaskInserter:
    """Inserts masks into blocks.

    Attributes:
        rows: The number of rows: a number, or a name.
        valid: The mask variable: true for rows, false for padding.
        count: The variable of the number of valid rows, if the batch is padded to a capacity.
    """

    program: Builder
    rows: Size
    valid: str
    count: str

    def mask(self, table: SymbolTable, op_axes: OpAxes, op: Op) -> list[Op]:
        """Return the replacement of one operator, whose blocks are masked already."""
        definition = OPS.get(op.type)
        view = view_of(op)
        if self.count and isinstance(view, LoopView) and view.length == self.rows:
            return guard_padding_iterations(self.program, table, view, self.count)
        if self.count and definition.rounded_rule is not None:
            build = partial(self._by_rounded_rule, table, op_axes, op, definition.rounded_rule)
            return build_detached(self.program, table, op, build)
        reduced = {
            str(axis.index): self._fills(op_axes, str(axis.index)) for axis in op_axes.reduced()
        }
        if self.count:
            reduced |= {i: _tail_fills(op, fills) for i, fills in op_axes.tail_fills().items()}
        if not any(reduced.values()):
            return [op]
        build = partial(self._masked_op, table, op_axes, op, reduced)
        return build_detached(self.program, table, op, build)

    def _masked_op(
        self,
        table: SymbolTable,
        op_axes: OpAxes,
        op: Op,
        reduced: Mapping[str, IdentityElements],
    ) -> Op:
        """Return an operator on filled inputs, or the replacement by its rule for masks."""
        mask, rule = self._var(table, self.valid), OPS.get(op.type).masked_rule
        inputs = {
            slot: tuple(
                self._filled(
                    table, name, op_axes.axes.of(slot, at), _slot_fills(reduced, slot), mask
                )
                for at, name in enumerate(names)
            )
            for slot, names in op.inputs.items()
        }
        op = op.with_(inputs=inputs)
        if rule is None:
            return op
        values = [self._var(table, name) for name in op.reads()]
        view = op_axes.view(self.rows, partial(self._var, table))
        args = [view, *values, mask]
        return call_rule(op.type, "masked", rule, args, {}, _require_op, op.describe())

    def _by_rounded_rule(
        self, table: SymbolTable, op_axes: OpAxes, op: Op, rule: Callable[..., Any]
    ) -> Op:
        """Return the replacement of an operator by its definition's rule for padded batches."""
        args = [op_axes.view(self.rows, partial(self._var, table)), self.count]
        return call_rule(op.type, "rounded", rule, args, {}, _require_op, op.describe())

    def _fills(self, op_axes: OpAxes, index: str) -> IdentityElements:
        """Return the fill values along one axis, by input slot.

        A program with a padded batch is differentiated already. Derivatives read unmasked
        values, and padding may be arbitrary.
        """
        fills, op = op_axes.axes.fills[index], op_axes.op
        if not self.count or not fills:
            return fills
        if "." in op.type and {LOWEST, HIGHEST} & set(fills.values()):
            raise mixed_rows_error(
                op, "its derivative cannot tell padding from an extreme element."
            )
        return dict.fromkeys(op.inputs, FIRST_ROW) | dict(fills)

    def _filled(
        self,
        table: SymbolTable,
        name: str,
        indices: Indices,
        fills: Mapping[str, Any],
        mask: Var,
    ) -> str:
        """Return the name of an input, with padding filled along axes with a fill value."""
        var = self._var(table, name)
        for axis, index in enumerate(indices):
            fill = fills.get(str(index))
            if fill is not None:
                var = _filled(var, [axis], fill, mask)
        return var.name

    def _var(self, table: SymbolTable, name: str) -> Var:
        return var_of(self.program, _owner(table, name), name)


def _tail_fills(op: Op, fills: IdentityElements) -> IdentityElements:
    """Return fills that exclude trailing entries; derivatives read unmasked values."""
    others: IdentityElements = (
        dict.fromkeys(op.inputs, FIRST_ROW) if fills or "." in op.type else {}
    )
    return {**others, **fills}


def _slot_fills(reduced: Mapping[str, IdentityElements], slot: str) -> dict[str, Any]:
    """Return the fills of one input slot, by axis name."""
    return {index: fills[slot] for index, fills in reduced.items() if slot in fills}


def _owner(table: SymbolTable, name: str) -> SymbolTable:
    owner = table.table_of(name)
    assert owner is not None, name
    return owner


# ---- masks -----------------------------------------------------------------------------------


def _filled(var: Var, axes: Sequence[int], fill: Any, mask: Var) -> Var:
    for axis in axes:
        condition = _along(mask, axis, var.ndim)
        if fill == FIRST_ROW:
            var = emit("where", condition, var, _first(var, axis))
        elif var.dtype == bool:
            var = var & condition if fill in (False, LOWEST) else var | ~condition
        else:
            var = emit("where", condition, var, _number(fill, var))
    return var


def zero_padding(
    program: Builder, table: SymbolTable, name: str, axes: Iterable[int], valid: str
) -> str:
    """Return a result that is zero in padding along these axes."""
    axes = list(axes)
    if not axes:
        return name
    with program.building(table):
        var = var_of(program, _owner(table, name), name)
        return _filled(var, axes, 0, var_of(program, _owner(table, valid), valid)).name


def _first(var: Var, axis: int) -> Var:
    return var[(*[slice(None)] * axis, 0, None)]


def _along(mask: Var, axis: int, rank: int) -> Var:
    if rank == 1:
        return mask
    shape = tuple(mask.shape[0] if i == axis else 1 for i in range(rank))
    return emit("reshape", mask, shape=shape)


def _number(fill: Any, var: Var) -> Any:
    if fill not in (LOWEST, HIGHEST):
        return fill
    if is_float(var.dtype):
        return float("-inf") if fill == LOWEST else float("inf")
    info = np.iinfo(var.dtype)
    return int(info.min if fill == LOWEST else info.max)


def _require_op(result: object) -> Op:
    if not isinstance(result, Op):
        raise TypeError
    return result
