"""Lattice of axis kinds: the abstract values of the batch axis analysis.

Rows are batch elements. The abstract value of a variable is one kind for each of its axes. The
join of two kinds is their least upper bound:

    conflict                  the operator mixes rows, or may do so
     ^      ^
    BATCH  OTHER              the batch axis; any other axis
     ^      ^
    UNIFORM                   a repetition: constant along the axis, as in a broadcast

| join | UNIFORM | BATCH | OTHER |
|---|---|---|---|
| UNIFORM | UNIFORM | BATCH | OTHER |
| BATCH | BATCH | BATCH | conflict |
| OTHER | OTHER | conflict | OTHER |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from braces.builder.var import Var
from braces.define.axes.axis_map import AxisMap, IdentityElements, Index, shape_of
from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import Type
from braces.ir.records import Op
from braces.ops.common.row_semantics import RowView


class AxisKind(Enum):
    """Kind of an axis: a lattice without its top element."""

    UNIFORM = "uniform"
    BATCH = "batch"
    OTHER = "other"


AxisKinds: TypeAlias = "dict[str, tuple[AxisKind, ...]]"
"""Axis kinds of variables; all axes of a variable without an entry are `OTHER`."""
Types: TypeAlias = "Mapping[str, Type]"
TypeOf: TypeAlias = "Callable[[str], Type]"


def join(kinds: Iterable[AxisKind]) -> AxisKind | None:
    """Return the least upper bound of axis kinds; `None` is the top element, a conflict."""
    above = {*kinds} - {AxisKind.UNIFORM}
    return None if len(above) > 1 else next(iter(above), AxisKind.UNIFORM)


def leading_row_kinds(type_: Type) -> tuple[AxisKind, ...]:
    """Return axis kinds with rows on the leading axis only."""
    return (AxisKind.BATCH, *[AxisKind.OTHER] * (len(shape_of(type_)) - 1))


def batch_axes(
    kinds: Iterable[AxisKind], sizes: Iterable[Size], rows: Size | None
) -> tuple[int, ...]:
    """Return the batch axes of a value; a repetition of size `rows` counts as one."""
    return tuple(
        axis
        for axis, (kind, size) in enumerate(zip(kinds, sizes, strict=False))
        if kind is AxisKind.BATCH or (kind is AxisKind.UNIFORM and size == rows)
    )


@dataclass(frozen=True)
class AxisUse:
    """An axis of an input of an operator.

    Attributes:
        position: The position of the variable in the slot.
        index: The operator's name of the axis.
    """

    slot: str
    position: int
    axis: int
    index: Index
    size: Size
    kind: AxisKind

    def __str__(self) -> str:
        return f"axis {self.axis} of its `{self.slot}`"


@dataclass(frozen=True)
class OpAxes:
    """An operator with its axis kinds.

    Attributes:
        axes: Its axis map.
        inputs: All axes of its inputs.
        rows: The operator's names of the batch axes.
    """

    op: Op
    axes: AxisMap
    inputs: tuple[AxisUse, ...] = ()
    rows: frozenset[str] = frozenset()

    def reduced(self) -> list[AxisUse]:
        """Return the batch axes over which the operator reduces."""
        indices = {index for index in self.rows if self.axes.fills.get(index)}
        return [axis for axis in self.inputs if axis.index in indices]

    def tail_fills(self) -> dict[str, IdentityElements]:
        """Return non-pointwise batch axes, with fill values that exclude trailing entries."""
        return {i: fills for i, fills in self.axes.tails.items() if i in self.rows}

    def view(self, rows: Size, var: Callable[[str], Var]) -> RowView:
        """Return the operator as a `RowView`, for rules that replace it."""
        row_axes = (item for item in self.inputs if item.index in self.rows)
        places = frozenset((item.slot, item.position, item.axis) for item in row_axes)
        return RowView(self.op, places, rows, var)


def axis_map_of(op: Op, type_of: TypeOf) -> AxisMap:
    """Return the axis map of an operator from its definition."""
    rule, slots = OPS.get(op.type).axes_rule, (op.outputs, op.inputs)
    assert rule is not None
    types = {
        s: tuple(map(type_of, names)) for slot_names in slots for s, names in slot_names.items()
    }
    return rule(types, op.attrs)
