"""Inlining of plain blocks: the same computation without nesting.

    y: f32[4] = block() {recompute=false} captures [x] as encoder
      body () {
        h: f32[4] = tanh(x=x)                  h: f32[4] = tanh(x=x)
        y: f32[4] = exp(x=h)             ->    y: f32[4] = exp(x=h)
        return y
      }
    z: f32[4] = sin(x=y)                       z: f32[4] = sin(x=y)

Outputs of a block keep their outer names.

A block has no run-time cost, but passes over the operators of one block see more of them after
inlining. A block with `recompute` controls its gradient, so it stays until gradients are built.
The executor inlines all blocks when it pads data-dependent sizes.

A step may contain blocks: a cell, an encoder. Loop passes see each block as one operator.
`inline_in_loops` therefore inlines the blocks in loops, and leaves all others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from braces.ir.plain_blocks.inlining import ambiguous_in, inline_block, is_inlinable
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView, view_of
from braces.ir.walk import all_bodies
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite


def inline_blocks(program: ProgramDef, always: bool = False) -> ProgramDef:
    """Return a program without plain blocks.

    Args:
        program: The program.
        always: Whether to inline blocks with `recompute` too: there will be no more gradients.
    """
    return _inline_matching(program, partial(is_inlinable, always=always), lambda place: True)


def inline_in_loops(program: ProgramDef) -> ProgramDef:
    """Return a program without plain blocks in its loops, except those with `recompute`."""
    inner = (op for body, around in all_bodies(program.main) if around for op in body.ops)
    if not any(is_inlinable(op, always=True) for op in inner if op.bodies()):
        return program  # the common case; the walk is slower
    return _inline_matching(program, is_inlinable, _in_a_loop)


def _inline_matching(
    program: ProgramDef,
    wanted: Callable[[Op], bool],
    is_place: Callable[[InsertionPoint], bool],
) -> ProgramDef:
    """Return a program without the matching plain blocks at matching places."""
    ambiguous = dict[str, frozenset[str]]()

    def rule(op: Op, place: InsertionPoint) -> Replacement:
        if not is_inlinable(op, always=True) or not is_place(place):
            return op
        if not wanted(op):
            note(place.where(op), "not inlined: gradients recompute it", "missed")
            return op
        note(place.where(op), "inlined")
        if place.path not in ambiguous:
            ambiguous[place.path] = ambiguous_in(place.body, wanted)
        return inline_block(op, ambiguous[place.path], place.table.names.unique)

    return rewrite(program, rule)


def _in_a_loop(place: InsertionPoint | None) -> bool:
    """Return whether a block is inside a loop, at any depth."""
    while place is not None and place.owner is not None:
        if isinstance(view_of(place.owner), LoopView):
            return True
        place = place.outer
    return False


INLINE = Pass("inline", inline_blocks, "Inline plain blocks.", trusted=True)

INLINE_IN_LOOPS = Pass(
    "inline_in_loops",
    inline_in_loops,
    "Inline plain blocks in loops.",
    trusted=True,
)
