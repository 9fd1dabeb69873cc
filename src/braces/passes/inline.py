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
"""

from __future__ import annotations

from functools import partial

from braces.ir.inlining import ambiguous_in, opened, opens
from braces.ir.records import Op, ProgramDef
from braces.passes.pipeline import Pass, note
from braces.passes.rewrite import Change, Place, rewrite


def inline_blocks(program: ProgramDef, always: bool = False) -> ProgramDef:
    """A program without plain blocks.

    Args:
        program: The program.
        always: Whether those go, too, that gradients run again: there will be no more.
    """
    wanted = partial(opens, always=always)
    ambiguous = dict[str, frozenset[str]]()

    def rule(op: Op, place: Place) -> Change:
        if not wanted(op):
            if opens(op, always=True):
                note(place.where(op), "stays: gradients run it again")
            return op
        note(place.where(op), "is inlined")
        if place.path not in ambiguous:
            ambiguous[place.path] = ambiguous_in(place.body, wanted)
        return opened(op, ambiguous[place.path], place.table.names.unique)

    return rewrite(program, rule)


INLINE = Pass(
    "inline", inline_blocks, "Put what plain blocks do where they stand.", trusted=True
)
