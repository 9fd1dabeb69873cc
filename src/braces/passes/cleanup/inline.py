"""Plain blocks inlined: programs without boxes, which compute the same.

    y: f32[4] = block() {recompute=false} captures [x] as encoder
      body () {
        h: f32[4] = tanh(x=x)                  h: f32[4] = tanh(x=x)
        y: f32[4] = exp(x=h)             ->    y: f32[4] = exp(x=h)
        return y
      }
    z: f32[4] = sin(x=y)                       z: f32[4] = sin(x=y)

What a block gives out keeps the name that it has outside.

A block costs nothing when it runs; what looks at the operators of one block sees more of them
without. One with `recompute` says how it is differentiated, so it stays, unless that is done:
the executor inlines all where it rounds rows.

A step may be written with blocks: a cell, an encoder. What looks at steps, as `batch`, sees
each as one; so `open_steps` inlines those in loops for it, and leaves all others as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from braces.ir.plain_blocks.inlining import ambiguous_in, opened, opens
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView, view_of
from braces.ir.walk import all_bodies
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite


def inline_blocks(program: ProgramDef, always: bool = False) -> ProgramDef:
    """A program without plain blocks.

    Args:
        program: The program.
        always: Whether those go, too, that gradients run again: there will be no more.
    """
    return _inlined(program, partial(opens, always=always), lambda place: True)


def steps_opened(program: ProgramDef) -> ProgramDef:
    """A program without plain blocks in its loops, but for those that gradients run again."""
    inner = (op for body, around in all_bodies(program.main) if around for op in body.ops)
    if not any(opens(op, always=True) for op in inner if op.bodies()):
        return program  # as most are, and the walk would take longer
    return _inlined(program, opens, _in_a_loop)


def _inlined(
    program: ProgramDef, wanted: Callable[[Op], bool], there: Callable[[Place], bool]
) -> ProgramDef:
    """A program without plain blocks that are wanted so, where they stand in such blocks."""
    ambiguous = dict[str, frozenset[str]]()

    def rule(op: Op, place: Place) -> Change:
        if not opens(op, always=True) or not there(place):
            return op
        if not wanted(op):
            note(place.where(op), "stays: gradients run it again")
            return op
        note(place.where(op), "is inlined")
        if place.path not in ambiguous:
            ambiguous[place.path] = ambiguous_in(place.body, wanted)
        return opened(op, ambiguous[place.path], place.table.names.unique)

    return rewrite(program, rule)


def _in_a_loop(place: Place | None) -> bool:
    """Whether a block runs again and again, or one around it does."""
    while place is not None and place.owner is not None:
        if isinstance(view_of(place.owner), LoopView):
            return True
        place = place.outer
    return False


INLINE = Pass("inline", inline_blocks, "Inline plain blocks.", trusted=True)

INLINE_IN_LOOPS = Pass(
    "inline_in_loops",
    steps_opened,
    "Inline plain blocks that stand in loops.",
    trusted=True,
)
