"""Operators that a rewriting walk hoists into an enclosing block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from braces.builder.symbol_table import SymbolTable
from braces.ir.records import Op, VarInfo
from braces.ir.walk import rename_slots


@dataclass(frozen=True, slots=True)
class HoistedOp:
    """Operator hoisted into an enclosing block.

    Attributes:
        op: The operator.
        binds: The variables that it binds there.
        names: Their new names, by their old names.
    """

    op: Op
    binds: tuple[VarInfo, ...]
    names: Mapping[str, str]

    @classmethod
    def out_of(cls, table: SymbolTable, op: Op, taken: Callable[[str], bool]) -> Self:
        """Hoist an operator out of a block; outputs whose names clash outside are renamed.

        Args:
            table: The block.
            op: The operator.
            taken: Whether an operator name is taken in the destination block.
        """
        assert table.parent is not None
        visible, unique = table.parent.find_var, table.names.unique
        names = {name: name if visible(name) is None else unique(name) for name in op.binds()}
        binds = (table.vars[name].with_(name=new) for name, new in names.items())
        hoisted = op.with_(outputs=rename_slots(op.outputs, names))
        if not table.names.made_up(op.name) and taken(op.name):
            hoisted = hoisted.with_(name=unique(op.type.replace(".", "_")))
        return cls(hoisted, tuple(binds), names)
