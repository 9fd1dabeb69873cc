"""What operators do with an axis of selected rows.

A compiled row-wise branch works on its rows and some padding. Most operators treat each row on
its own, and padding stays padding. What mixes rows must leave the padding out: its inputs are
masked with what changes nothing. What cannot be masked so is refused when the branch is built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from braces.dims import Dim
from braces.dtypes import is_float
from braces.ir.program import Program
from braces.ir.records import Body, Op
from braces.ir.table import SymbolTable
from braces.ir.walk import map_bodies, with_captures
from braces.ops.build import Var, one, var_of
from braces.ops.define import OPS
from braces.ops.row_rules import (
    FIRST,
    HIGHEST,
    LOWEST,
    Fills,
    Reduction,
    RowView,
    refused,
    undeclared,
)


def mask_rows(
    program: Program, table: SymbolTable, rows: Dim, valid: str, count: str = ""
) -> None:
    """Leave padding out of everything in a block that mixes rows.

    Args:
        program: The program that is built.
        table: The block; operators are put into it.
        rows: The size that rows have, and nothing else.
        valid: The variable that tells rows from padding.
        count: Where there is room for more rows than there are, which come first and are one
            at least: the variable that tells how many there are.

    Raises:
        ProgramError: An operator mixes rows in a way that has no mask.
    """
    done = list[Op]()
    pending, table.ops = table.ops, done
    for op in pending:
        done.extend(_masked(program, table, op, rows, (valid, count)))
    table.touch()


def _masked(
    program: Program, table: SymbolTable, op: Op, rows: Dim, told: tuple[str, str]
) -> list[Op]:
    """The operators that take the place of one operator."""
    valid, count = told
    op = _inside(program, table, op, rows, told)
    types = {n: table.type_of(n) for n in (*op.reads(), *op.binds())}
    view = RowView(op, types, rows, OPS.get(op.type).cotangents)
    if not view.touches():
        return [op]
    rounded = OPS.get(op.type).rounded_rule
    if count and rounded is not None:
        return [rounded(view, count)]
    fills = rounded_fills(view) if count else fills_of(view)
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


def fills_of(view: RowView) -> Fills:
    """What to mask with, by input slot; nothing where rows are kept apart.

    Raises:
        ProgramError: The operator mixes rows without a mask for it, or may do so.
    """
    rule = OPS.get(view.base).rows_rule
    if rule is None:
        raise undeclared(view)
    return rule(view)


def rounded_fills(view: RowView) -> Fills:
    """What to mask with where the program is differentiated already.

    Derivatives read what is not masked; what they sum over rows is linear in cotangents, or in
    tangents.

    Raises:
        ProgramError: The operator mixes rows without a mask for it, or may do so, or reads how
            many there are.
    """
    if any(map(view.tangled, (*view.op.reads(), *view.op.binds()))) or _reads_size(view):
        raise refused(view)
    fills, rule = fills_of(view), OPS.get(view.base).rows_rule
    if not view.derived:
        return fills
    every = dict.fromkeys(view.op.inputs, 0)
    if isinstance(rule, Reduction) and rule.mixes(view):
        if {LOWEST, HIGHEST} & set(rule.fills.values()):
            raise refused(view)  # padding may be as extreme as a row
        return every | dict(rule.fills)
    if not fills:
        return {}
    suffix = OPS.get(view.op.type).suffix
    linear = {slot: 0 for slot in every if suffix and slot.endswith(suffix)}
    return dict.fromkeys(every, FIRST) | linear | dict(fills)


def _reads_size(view: RowView) -> bool:
    """Whether an attribute has the number of rows in it other than as part of a shape."""
    specs = {spec.name: spec for spec in OPS.get(view.op.type).attrs}
    return any(
        str(view.rows) in re.findall(r"[\w.$]+", str(value))
        for name, value in view.op.attrs.items()
        if specs[name].kind != "Shape" and not specs[name].holds_blocks
    )


def _owner(table: SymbolTable, name: str) -> SymbolTable:
    owner = table.table_of(name)
    assert owner is not None, name
    return owner


def _inside(
    program: Program, table: SymbolTable, op: Op, rows: Dim, told: tuple[str, str]
) -> Op:
    """The operator with its sub-blocks masked."""

    def change(body: Body) -> Body:
        inner = SymbolTable(parent=table).thaw(body)
        mask_rows(program, inner, rows, *told)
        return inner.freeze(body.results)

    return with_captures(map_bodies(op, change)) if op.bodies() else op


# ---- masks -----------------------------------------------------------------------------------


def _fill(
    program: Program, table: SymbolTable, view: RowView, name: str, fill: Any, mask: Var
) -> str:
    axes = view.axes(name)
    if fill is None or not axes:
        return name
    return _filled(var_of(program, _owner(table, name), name), axes, fill, mask).name


def _filled(var: Var, axes: Sequence[int], fill: Any, mask: Var) -> Var:
    for axis in axes:
        condition = _along(mask, axis, var.ndim)
        if fill == FIRST:
            var = one("where", condition, var, _first(var, axis))
        elif var.dtype == bool:
            var = var & condition if fill in (False, LOWEST) else var | ~condition
        else:
            var = one("where", condition, var, _number(fill, var))
    return var


def blank_columns(
    program: Program, table: SymbolTable, name: str, rows: Dim, valid: str
) -> str:
    """A result whose further axes that are rows too are zero where those rows are padding."""
    var = var_of(program, _owner(table, name), name)
    axes = [axis for axis, size in enumerate(var.shape) if axis and size == rows]
    if not axes:
        return name
    with program.building(table):
        return _filled(var, axes, 0, var_of(program, _owner(table, valid), valid)).name


def _first(var: Var, axis: int) -> Var:
    return var[(*[slice(None)] * axis, 0, None)]


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
