"""Row-wise branches masked: what mixes rows leaves padding out.

Compiled, a case runs on its rows and some padding, so whatever mixes rows must leave padding
out; see `braces.ops.control.batch_axis.masking`. Interpreted, a case has exactly its rows,
unless they stay at their places. So a program says what its user wrote, and the executor masks
what it runs.
"""

from __future__ import annotations

from braces.ir.records import Op, ProgramDef
from braces.ir.views import PartitionView, view_of
from braces.ir.walk import all_bodies
from braces.ops.control.batch_axis.masking import masked_branch
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite


def mask_branches(program: ProgramDef, interpreted: bool = False) -> ProgramDef:
    """A program whose row-wise branches may be given padding.

    Args:
        program: The program.
        interpreted: Whether only rows that stay at their places have padding.

    Raises:
        ProgramError: An operator mixes rows in a way that has no mask.
    """

    def padded(op: Op) -> bool:
        view = view_of(op)
        if not isinstance(view, PartitionView) or view.masked:
            return False
        return not (interpreted and view.compact)

    def rule(op: Op, place: Place) -> Change:
        if not padded(op):
            return op
        note(place.where(op), "leaves padding out of what mixes rows")
        return masked_branch(place.program, place.table, op)

    ops = (op for body, _ in all_bodies(program.main) for op in body.ops if op.bodies())
    if not any(map(padded, ops)):
        return program  # as most are, and the walk would take longer
    return rewrite(program, rule)


MASK_PADDING = Pass(
    "mask_padding",
    mask_branches,
    "Mask padding in operators that mix the rows of row-wise branches.",
    trusted=True,
)
