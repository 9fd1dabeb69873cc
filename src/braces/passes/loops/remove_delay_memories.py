"""Cut from rows what a memory only holds for a trip.

A memory that becomes a slice is that slice, one trip later.

    data x: f32[n,3]                              data x: f32[n,3]
    data x0: f32[3]                               data x0: f32[3]
    final=[x1: f32[3]], stacked=[ys: f32[n,3]] =  whole: f32[n + 1,3] = x0, then rows of x
      loop(init=x0, sliced=x)                     held: f32[n,3] = all of them but the last
      body (t: i64[], before: f32[3],             x1: f32[3] = the last
            r: f32[3]) {                    ->    …, stacked=[ys: f32[n,3]] =
        y: f32[3] = multiply(x=r, y=before)         loop(sliced=[x, held])
        return r, y                                 body (t: i64[], r: f32[3],
      }                                                   before: f32[3]) {
                                                      y: f32[3] = multiply(x=r, y=before)
                                                      return y
                                                    }

What is computed of such a slice alone can be computed for all trips then (`batch`). The
gradient of a loop has such memories for what memories were after a trip: what the next trip
kept. Where the loop stacks that itself, its rows are cut in place of them. A row that is a
slice is what the slice was cut from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from braces.builder.append import one
from braces.builder.var import Var
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView, Memory, Slice, view_of
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite_loops


def undelayed(program: ProgramDef) -> ProgramDef:
    """A program whose loops hold no slice for the trip after it."""
    return rewrite_loops(program, None, _cut)


def _cut(view: LoopView, op: Op, place: Place) -> Change:
    if not view.counted or view.max_trips is not None:
        return op
    finals = dict[str, str]()
    while (delay := _Delay.first(view, place)) is not None:
        memory = delay.memory
        with place.building():
            held, final = delay.build()
        note(place.where(op), f"cuts `{memory.param}` from rows: it held them for a trip")
        finals[memory.final] = final.name
        view = replace(
            view,
            memories=tuple(one for one in view.memories if one is not memory),
            slices=(*view.slices, Slice(held.name, memory.param)),
        )
    sources = {one.param: one.source for one in view.slices}
    same = {row.stacked: sources[row.result] for row in view.rows if row.result in sources}
    if not finals and not same:
        return op
    place.stand_for(finals | same)
    rows = tuple(row for row in view.rows if row.stacked not in same)
    return replace(view, rows=rows, origin=op).to_op()


@dataclass(frozen=True)
class _Delay:
    """A memory that becomes a slice.

    Attributes:
        memory: The memory.
        source: The rows that the slice is cut from.
        kept: The rows that it holds, where they are there.
        reverse: Whether the loop counts down.
        place: Where the loop stands.
    """

    memory: Memory
    source: str
    kept: str | None
    reverse: bool
    place: Place

    @classmethod
    def first(cls, view: LoopView, place: Place) -> Self | None:
        """The first of a loop that has one."""
        sources = {one.param: one.source for one in view.slices}
        for memory in view.memories:
            if memory.next not in sources:
                continue
            source = sources[memory.next]
            mirrored = _mirrored(memory, source, view.reverse, place)
            if mirrored is None:
                return cls(memory, source, None, view.reverse, place)
            loop, other = mirrored
            kept = [row.stacked for row in loop.rows if row.result == other.next]
            if kept:
                return cls(memory, source, kept[0], view.reverse, place)
        return None

    def build(self) -> tuple[Var, Var]:
        """The rows that it holds, and what it ends in."""
        init, source = self.place.var(self.memory.init), self.place.var(self.source)
        first = one("reshape", init, shape=(1, *init.shape))
        ordered = (source, first) if self.reverse else (first, source)
        whole = one("concat", *ordered, axis=0)
        held, final = (whole[1:], whole[0]) if self.reverse else (whole[:-1], whole[-1])
        return (held if self.kept is None else self.place.var(self.kept)), final


def _mirrored(
    memory: Memory, source: str, reverse: bool, place: Place
) -> tuple[LoopView, Memory] | None:
    """The memory of a loop run the other way of which the source has what each trip kept."""
    maker = place.maker(source)
    view = view_of(maker) if maker else None
    if not isinstance(view, LoopView) or view.reverse == reverse:
        return None
    params = [row.result for row in view.rows if row.stacked == source]
    found = [m for m in view.memories if m.param in params and m.final == memory.init]
    return (view, found[0]) if found else None


REMOVE_DELAY_MEMORIES = Pass(
    "remove_delay_memories",
    undelayed,
    "Replace memories that only delay a value by slices of it.",
    trusted=True,
)
