"""What the gradient of a row-wise branch reads of the branch: kept, or computed again.

What is costly and has a row for each row is kept, as one more output of the forward branch. No
row belongs to two cases, so cases share these outputs. All else runs again: what is not costly,
what has no rows, and loops whose histories the gradient reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braces.dims import Dim, Size
from braces.dtypes import TensorType, Type
from braces.ir.records import ARGUMENT, VALUE, Body, Op, VarInfo
from braces.ir.table import SymbolTable
from braces.ir.walk import producers, rename_slots, with_captures
from braces.ops.control.keeping import plan_keeping
from braces.ops.control.switch_gradient import cases_of
from braces.ops.define import OPS
from braces.ops.rules import zeros_of


@dataclass
class Shelf:
    """An output of the forward branch, and what each case puts there.

    Attributes:
        row: The type of a row.
        names: The value of a case, by its number; the others put zeros there.
        outer: The name of the output.
        read: The cases whose gradient reads it.
    """

    row: TensorType
    names: dict[int, str]
    outer: str
    read: set[int]


def keep_rows(d: Any, backward: Sequence[Body]) -> tuple[list[str], tuple[Body, ...]]:
    """Let the forward branch keep rows for the backward cases.

    Args:
        d: The differentiation that goes on.
        backward: The backward cases, each with what it reads of its forward case in it.

    Returns:
        Names of outputs of the forward branch, and backward cases that take them as rows.
    """
    shelves = _existing(d)
    for k, (body, after) in enumerate(zip(cases_of(d.op), backward, strict=True)):
        for name in _worth_keeping(d, body, after, _count(d.op, k)):
            _put(d, shelves, k, name, _row(body.vars[name].type))
    _augment_forward(
        d, [shelf for shelf in shelves if shelf.outer not in d.op.outputs.get("out", ())]
    )
    read = [shelf for shelf in shelves if shelf.read]
    cases = tuple(_taking(d, k, body, read) for k, body in enumerate(backward))
    return [shelf.outer for shelf in read], cases


def _existing(d: Any) -> list[Shelf]:
    found: list[Shelf] = []
    for i, outer in enumerate(d.op.outputs.get("out", ())):
        names = {k: body.results[i] for k, body in enumerate(cases_of(d.op))}
        found.append(Shelf(_row(d.host.type_of(outer)), names, outer, set()))
    return found


def _put(d: Any, shelves: list[Shelf], k: int, name: str, row: TensorType) -> None:
    """Find a place for a value of a case: where it is already, else where the case has none."""
    there = (s for s in shelves if s.names.get(k) == name)
    free = (s for s in shelves if k not in s.names and s.row == row)
    shelf = next(there, None) or next(free, None)
    if shelf is None:
        total = d.host.type_of(d.op.inputs["masks"][0]).shape[0]
        type_ = TensorType(row.dtype, (total, *row.shape))
        outer = d.host.new_var(d.host.names.unique(f"{name}_kept"), type_).name
        shelf = Shelf(row, {}, outer, set())
        shelves.append(shelf)
    shelf.names[k] = name
    shelf.read.add(k)


def _row(type_: Type) -> TensorType:
    assert isinstance(type_, TensorType)
    return TensorType(type_.dtype, type_.shape[1:])


def _count(op: Op, k: int) -> Size:
    counts = op.attrs["counts"]
    assert isinstance(counts, tuple)
    count = counts[k]
    assert isinstance(count, int | Dim)
    return count


# ---- what to keep ----------------------------------------------------------------------------


def _worth_keeping(d: Any, body: Body, after: Body, count: Size) -> list[str]:
    """The values with rows that the gradient reads and that only costly operators make.

    Rows that stay at their places have the same size as what is no row of theirs, so there
    nothing is kept.
    """
    if not d.op.attrs["compact"] or not isinstance(count, Dim):
        return []
    forward = SymbolTable(parent=d.host).thaw(body)
    made = producers(after.ops)
    own = [op for op in after.ops if not any(n in body.vars for n in op.binds())]
    read = [*(n for op in own for n in op.reads()), *after.results]
    plan = plan_keeping(forward, read, set(body.params), _may_run_again)
    rows = [n for n in plan.values if _has_rows(body.vars[n].type, count)]
    others = {*plan.values, *plan.lists} - set(rows)
    others |= {n for n in read if n in made and made[n] not in own and n not in body.vars}
    again = {id(made[n]) for n in others if n in made}
    return [n for n in rows if id(made[n]) not in again]


def _may_run_again(op: Op) -> bool:
    return not op.bodies() and not OPS.get(op.type).costly


def _has_rows(type_: Type, count: Dim) -> bool:
    """Whether the leading axis, and no other, are the rows of the case."""
    if not isinstance(type_, TensorType) or not type_.shape or type_.shape[0] != count:
        return False
    named = (size.names() for size in type_.shape[1:] if isinstance(size, Dim))
    return not any(count.names() & names for names in named)


# ---- both branches ---------------------------------------------------------------------------


def _augment_forward(d: Any, shelves: Sequence[Shelf]) -> None:
    """The forward branch with more outputs: its values, and zeros from the other cases."""
    if not shelves:
        return
    op, outs = d.op, len(d.op.outputs.get("out", ()))
    cases: list[Body] = []
    for k, body in enumerate(cases_of(op)):
        table = SymbolTable(parent=d.host).thaw(body)
        with d.program.building(table):
            more = [
                s.names.get(k) or zeros_of(_rows_of(s, _count(op, k))).name for s in shelves
            ]
        cases.append(table.freeze((*body.results[:outs], *more, *body.results[outs:])))
    outputs = dict(op.outputs) | {
        "out": (*op.outputs.get("out", ()), *(shelf.outer for shelf in shelves))
    }
    attrs = dict(op.attrs) | {"cases": tuple(cases), "outs": outs + len(shelves)}
    d.replace(with_captures(op.with_(outputs=outputs, attrs=attrs)))


def _rows_of(shelf: Shelf, count: Size) -> TensorType:
    return TensorType(shelf.row.dtype, (count, *shelf.row.shape))


def _taking(d: Any, k: int, body: Body, shelves: Sequence[Shelf]) -> Body:
    """A backward case that takes kept rows instead of computing them."""
    names = SymbolTable(parent=d.program.current).thaw(body).names
    renamed = {s.names[k]: names.unique(f"{s.names[k]}_again") for s in shelves if k in s.read}
    ops = tuple(op.with_(outputs=rename_slots(op.outputs, renamed)) for op in body.ops)
    infos = dict(body.vars) | _again(body.vars, renamed)
    params: list[str] = []
    for shelf in shelves:
        param = shelf.names[k] if k in shelf.read else names.unique(shelf.outer)
        infos[param] = VarInfo(param, _rows_of(shelf, _count(d.op, k)), ARGUMENT)
        params.append(param)
    taking = Body((*body.params, *params), body.results, infos, ops)
    return d.eliminate(taking, body.results)


def _again(infos: Mapping[str, VarInfo], renamed: Mapping[str, str]) -> dict[str, VarInfo]:
    return {new: VarInfo(new, infos[old].type, VALUE) for old, new in renamed.items()}
