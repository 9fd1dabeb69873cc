"""Putting a construct into the block that is being built."""

from __future__ import annotations

from braces.ir.program import Program
from braces.ir.records import CAPTURES, Op
from braces.ops.build import append, visible_var
from braces.ops.define import OPS


def append_construct(program: Program, op: Op) -> Op:
    """Append an operator that owns blocks and has no outputs yet; returns it with outputs.

    Its inputs are visible in the block that is being built.

    Raises:
        BracesError: Its blocks and inputs do not fit.
    """
    table = program.current
    operands = {
        slot: tuple(visible_var(program, table, name) for name in names)
        for slot, names in op.inputs.items()
        if slot != CAPTURES
    }
    append(program, OPS.get(op.type), operands, op.attrs, source=op.source)
    return table.ops[-1]
