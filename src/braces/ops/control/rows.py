"""Masks: what mixes rows in a row-wise branch leaves padding out.

Where rows are, the axes of operators tell; see `braces.ops.control.tracking`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.builder.program import Builder
from braces.builder.table import SymbolTable
from braces.builder.var import Var, one, var_of
from braces.define.axes import HIGHEST, LOWEST, Fills, shape_of
from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import Type, is_float
from braces.ir.records import Body, Op
from braces.ir.walk import map_bodies, with_captures
from braces.ops.control.tracking import Known, Site, Sites, Tracked, Tracker, Types
from braces.ops.row_rules import FIRST, refused


def mask_rows(
    program: Builder,
    table: SymbolTable,
    rows: Size,
    places: Mapping[str, Collection[int]],
    valid: str,
    count: str = "",
) -> Known:
    """Leave padding out of everything in a block that mixes rows.

    Args:
        program: The program that is built.
        table: The block; operators are put into it.
        rows: How many rows there are: a number, or a name.
        places: The axes of the parameters of the block that are rows.
        valid: The variable that tells rows from padding.
        count: Where there is room for more rows than there are, which come first and are one
            at least: the variable that tells how many there are.

    Returns:
        Where rows are.

    Raises:
        ProgramError: An operator mixes rows in a way that has no mask.
    """
    tracker = Tracker(rows, table.unifier.resolve, bool(count))
    masks = Masks(program, tracker, valid, count)
    types = {name: table.type_of(name) for name in _visible(table)}
    begun: Known = {
        name: tuple("rows" if i in axes else "other" for i in range(_rank(types[name])))
        for name, axes in places.items()
    }
    known, sites = dict(begun), dict[str, Site]()
    tracker.follow(table.ops, types, known, sites)
    masks.put(table, types, begun, sites)
    return known


def _visible(table: SymbolTable) -> Iterable[str]:
    return [name for one in table.chain() for name in one.vars]


def _rank(type_: Type) -> int:
    return len(shape_of(type_))


@dataclass
class Masks:
    """Puts masks into blocks.

    Attributes:
        tracker: Where rows are; it has followed them.
        valid: The variable that tells rows from padding.
        count: The variable that tells how many rows there are, where there is room for more.
    """

    program: Builder
    tracker: Tracker
    valid: str
    count: str

    def put(self, table: SymbolTable, types: Types, known: Known, sites: Sites) -> None:
        """Leave padding out of a block, of whose parameters `known` tells where rows are."""
        known, done = dict(known), list[Op]()
        pending, table.ops = table.ops, done
        for op in pending:
            found = self.tracker.step(op, types, known, sites)
            inner = self._inside(table, op, known, sites[op.name]) if op.bodies() else op
            done.extend(self._masked(table, found, inner))
        table.touch()

    def _masked(self, table: SymbolTable, found: Tracked, op: Op) -> list[Op]:
        """The operators that take the place of one operator, whose blocks are masked."""
        definition = OPS.get(op.type)
        if self.count and definition.rounded_rule is not None:
            return [definition.rounded_rule(found.view(self.tracker.rows), self.count)]
        reduced = {
            str(one.index): self._fills(found, str(one.index)) for one in found.reduced()
        }
        if not any(reduced.values()):
            return [op]
        before = len(table.ops)
        with self.program.building(table), self.program.at(op.source):
            mask = self._var(table, self.valid)
            inputs = {
                slot: tuple(
                    self._filled(table, found, (slot, i), reduced, mask)
                    for i in range(len(names))
                )
                for slot, names in op.inputs.items()
            }
            made = op.with_(inputs=inputs)
            if definition.masked_rule is not None:
                values = [self._var(table, name) for name in made.reads()]
                made = definition.masked_rule(found.view(self.tracker.rows), *values, mask)
        extra = table.ops[before:]
        del table.ops[before:]
        return [*extra, made]

    def _fills(self, found: Tracked, index: str) -> Fills:
        """What to mask with along one axis, by input slot.

        Where there is room for more rows than there are, the program is differentiated already:
        derivatives read what is not masked, and padding may be anything.
        """
        fills, op = found.axes.fills[index], found.op
        base = OPS.get(op.type.partition(".")[0])
        derived = base.type != op.type
        if derived and base.masked_rule is not None:
            raise refused(op, f"its derivative is not that of {base.type} without padding.")
        if not self.count or not fills:
            return fills
        if derived and {LOWEST, HIGHEST} & set(fills.values()):
            raise refused(op, "padding may be as extreme as a row.")
        return dict.fromkeys(op.inputs, FIRST) | dict(fills)

    def _filled(
        self,
        table: SymbolTable,
        found: Tracked,
        place: tuple[str, int],
        reduced: Mapping[str, Fills],
        mask: Var,
    ) -> str:
        """The name of an input in which padding is filled."""
        slot, position = place
        var = self._var(table, found.op.inputs[slot][position])
        for axis, index in enumerate(found.axes.of(slot, position)):
            fill = reduced.get(str(index), {}).get(slot)
            if fill is not None:
                var = _filled(var, [axis], fill, mask)
        return var.name

    def _var(self, table: SymbolTable, name: str) -> Var:
        return var_of(self.program, _owner(table, name), name)

    def _inside(self, table: SymbolTable, op: Op, known: Known, site: Site) -> Op:
        """The operator with its sub-blocks masked."""
        labels = iter(op.bodies())

        def change(body: Body) -> Body:
            label = next(labels)
            inner = table.within(op).thaw(body)
            begun = {**known, **site.params[label]}
            self.put(inner, site.scopes[label], begun, site.sites[label])
            return inner.freeze(body.results)

        return with_captures(map_bodies(op, change))


def _owner(table: SymbolTable, name: str) -> SymbolTable:
    owner = table.table_of(name)
    assert owner is not None, name
    return owner


# ---- masks -----------------------------------------------------------------------------------


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
    program: Builder, table: SymbolTable, name: str, axes: Iterable[int], valid: str
) -> str:
    """A result that is zero where rows along these axes are padding."""
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
    return one("reshape", mask, shape=shape)


def _number(fill: Any, var: Var) -> Any:
    if fill not in (LOWEST, HIGHEST):
        return fill
    if is_float(var.dtype):
        return float("-inf") if fill == LOWEST else float("inf")
    info = np.iinfo(var.dtype)
    return int(info.min if fill == LOWEST else info.max)
