"""What operators do with an axis of selected rows.

A compiled row-wise branch works on its rows and some padding. Most operators treat each row on
its own, and padding stays padding. What mixes rows must leave the padding out: its inputs are
masked with what changes nothing. What cannot be masked so is refused when the branch is built.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from braces.dims import Dim, Size, Unifier
from braces.dtypes import TensorType, Type, is_float
from braces.errors import BracesError
from braces.ir.program import Program
from braces.ir.records import Body, Op
from braces.ir.table import SymbolTable
from braces.ir.walk import map_bodies, with_captures
from braces.ops.build import Var, one, var_of
from braces.ops.define import OPS
from braces.ops.inference import infer_op
from braces.ops.row_rules import HIGHEST, LOWEST, Fills, RowView, refused, undeclared


def mask_rows(program: Program, table: SymbolTable, rows: Size, valid: str) -> None:
    """Leave padding out of everything in a block that mixes rows.

    Args:
        program: The program that is built.
        table: The block; operators are put into it.
        rows: The size that rows have, and nothing else where it is symbolic.
        valid: The variable that tells rows from padding.

    Raises:
        ProgramError: An operator mixes rows in a way that has no mask, or may do so where the
            number of rows is fixed, so that they cannot be told from other axes.
    """
    done, follows = list[Op](), set(table.params)
    pending, table.ops = table.ops, done
    for op in pending:
        if not follows.isdisjoint(op.reads()):
            follows.update(op.binds())
        done.extend(_masked(program, table, op, rows, valid, follows))
    table.touch()


def _masked(
    program: Program,
    table: SymbolTable,
    op: Op,
    rows: Size,
    valid: str,
    follows: Container[str],
) -> list[Op]:
    """The operators that take the place of one operator."""
    op = _inside(program, table, op, rows, valid)
    types = {n: table.type_of(n) for n in (*op.reads(), *op.binds())}
    view = RowView(op, types, rows, follows, OPS.get(op.type).cotangents)
    if not view.touches():
        return [op]
    fills = fills_of(view)
    if not isinstance(rows, Dim) and (fills or not _leading(view)):
        raise refused(view, f"It may mix the {rows} rows; give the batch dimension a name.")
    if not fills:
        return [op]
    before = len(table.ops)
    with program.building(table), program.at(op.source):
        mask = var_of(program, _owner(table, valid), valid)
        inputs = {
            slot: tuple(_fill(program, table, view, n, fills.get(slot), mask) for n in names)
            for slot, names in op.inputs.items()
        }
        made, rule = op.with_(inputs=inputs), OPS.get(view.base).masked_rule
        if rule is not None:
            values = [var_of(program, _owner(table, n), n) for n in made.reads()]
            made = rule(view, *values, mask)
    extra = table.ops[before:]
    del table.ops[before:]
    return [*extra, made]


def _leading(view: RowView) -> bool:
    """Whether rows that are a fixed number lead the outputs as they lead the inputs.

    Another axis may be as long; a name in place of the number tells them apart. Where inference
    then fails, something else is matched with the rows, and stays where it is.
    """
    op, name = view.op, Dim.named("rows")
    if op.bodies():
        return True
    try:
        found = infer_op(op, {n: _renamed(view, n, name) for n in op.reads()}, Unifier())
    except BracesError:
        return True
    return all(
        [i for i, size in enumerate(type_.shape) if size == name] == view.axes(n)
        for n, type_ in found.items()
        if isinstance(type_, TensorType)
    )


def _renamed(view: RowView, variable: str, name: Dim) -> Type:
    type_ = view.types[variable]
    if isinstance(type_, TensorType) and view.axes(variable):
        return type_.with_shape((name, *type_.shape[1:]))
    return type_


def fills_of(view: RowView) -> Fills:
    """What to mask with, by input slot; nothing where rows are kept apart.

    Raises:
        ProgramError: The operator mixes rows without a mask for it, or may do so.
    """
    rule = OPS.get(view.base).rows_rule
    if rule is None:
        raise undeclared(view)
    return rule(view)


def _owner(table: SymbolTable, name: str) -> SymbolTable:
    owner = table.table_of(name)
    assert owner is not None, name
    return owner


def _inside(program: Program, table: SymbolTable, op: Op, rows: Size, valid: str) -> Op:
    """The operator with its sub-blocks masked."""

    def change(body: Body) -> Body:
        inner = SymbolTable(parent=table).thaw(body)
        mask_rows(program, inner, rows, valid)
        return inner.freeze(body.results)

    return with_captures(map_bodies(op, change)) if op.bodies() else op


# ---- masks -----------------------------------------------------------------------------------


def _fill(
    program: Program, table: SymbolTable, view: RowView, name: str, fill: Any, mask: Var
) -> str:
    axes = view.axes(name)
    if fill is None or not axes:
        return name
    var = var_of(program, _owner(table, name), name)
    if var.dtype == bool:
        for axis in axes:
            condition = _along(mask, axis, var.ndim)
            var = var & condition if fill in (False, LOWEST) else var | ~condition
        return var.name
    for axis in axes:
        var = one("where", _along(mask, axis, var.ndim), var, _number(fill, var))
    return var.name


def _along(mask: Var, axis: int, rank: int) -> Var:
    if rank == 1:
        return mask
    shape = tuple(mask.shape[0] if i == axis else 1 for i in range(rank))
    return one("reshape", mask, shape=shape)


def _number(fill: Any, var: Var) -> Any:
    if fill not in (LOWEST, HIGHEST):
        return fill
    if is_float(var.dtype):
        return float("-inf") if fill == LOWEST else float("inf")
    info = np.iinfo(var.dtype)
    return int(info.min if fill == LOWEST else info.max)
