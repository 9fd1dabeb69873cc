"""Masking of padding in partitioned branches: operators that mix batch elements ignore padding.

A compiled case runs on its batch elements and padding, so operators that mix elements must mask
the padding; see `braces.ops.control.batch_axis.masking`. An interpreted case has exactly its
elements, unless they stay in place. Programs are therefore written without masks, and the
executor inserts the masks.
"""

from __future__ import annotations

from braces.ir.records import Op, ProgramDef
from braces.ir.views import PartitionView, view_of
from braces.ir.walk import all_bodies
from braces.ops.control.batch_axis.masking import masked_branch
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite


def mask_branches(program: ProgramDef, interpreted: bool = False) -> ProgramDef:
    """Return a program whose partitioned branches tolerate padding.

    Args:
        program: The program.
        interpreted: Whether only branches that keep elements in place have padding.

    Raises:
        ProgramError: If an operator that mixes batch elements does not support a mask.
    """

    def needs_mask(op: Op) -> bool:
        view = view_of(op)
        if not isinstance(view, PartitionView) or view.masked:
            return False
        return not (interpreted and view.compact)

    def rule(op: Op, place: InsertionPoint) -> Replacement:
        if not needs_mask(op):
            return op
        note(place.where(op), "masked: padding reaches no operator that mixes batch elements")
        return masked_branch(place.program, place.table, op)

    ops = (op for body, _ in all_bodies(program.main) for op in body.ops if op.bodies())
    if not any(map(needs_mask, ops)):
        return program  # the common case; the walk is slower
    return rewrite(program, rule)


MASK_PADDING = Pass(
    "mask_padding",
    mask_branches,
    "Mask padding in operators that mix the batch elements of row-wise branches.",
    trusted=True,
)
