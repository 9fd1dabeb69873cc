"""Removal of delay memories: scalar replacement of carries that delay a scanned input.

The next value of such a memory is a scanned input, so it is that input one iteration later.

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

Operators that depend only on scanned inputs can then be vectorized (`vectorize_before`). The
gradient of a loop has such memories for the values of memories after an iteration: the residual
of the next one. If the forward loop stacks that itself, its stack is scanned instead. A stacked
output that is a scanned input is replaced by the source of the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from braces.builder.append import emit
from braces.builder.var import Var
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView, MemoryView, Slice, view_of
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops


def remove_delay_memories(program: ProgramDef) -> ProgramDef:
    """Return a program whose loops have no delay memories."""
    return rewrite_loops(program, None, _remove_delays)


def _remove_delays(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
    if not view.counted or view.max_trips is not None:
        return op
    finals = dict[str, str]()
    while (delay := _Delay.first(view, place)) is not None:
        memory = delay.memory
        with place.building():
            scanned_rows, final = delay.build()
        note(place.where(op), delay.remark)
        finals[memory.final] = final.name
        view = replace(
            view,
            memories=tuple(each for each in view.memories if each is not memory),
            slices=(*view.slices, Slice(scanned_rows.name, memory.param)),
        )
    sources = {each.param: each.source for each in view.slices}
    aliases = {row.stacked: sources[row.result] for row in view.rows if row.result in sources}
    if not finals and not aliases:
        return op
    place.stand_for(finals | aliases)
    rows = tuple(row for row in view.rows if row.stacked not in aliases)
    return replace(view, rows=rows, origin=op).to_op()


@dataclass(frozen=True)
class _Delay:
    """A delay memory.

    Attributes:
        memory: The memory.
        source: The stack that the scanned input comes from.
        delayed: The delayed stack, if it exists already.
        reverse: Whether the loop runs in reverse.
        place: Insertion point of the loop.
    """

    memory: MemoryView
    source: str
    delayed: str | None
    reverse: bool
    place: InsertionPoint

    @classmethod
    def first(cls, view: LoopView, place: InsertionPoint) -> Self | None:
        """Return the first delay memory of a loop; `None` if there is none."""
        sources = {scanned.param: scanned.source for scanned in view.slices}
        for memory in view.memories:
            if memory.next not in sources:
                continue
            source = sources[memory.next]
            mirrored = _find_mirrored(memory, source, view.reverse, place)
            if mirrored is None:
                return cls(memory, source, None, view.reverse, place)
            loop, other = mirrored
            stacked = [row.stacked for row in loop.rows if row.result == other.next]
            if stacked:
                return cls(memory, source, stacked[0], view.reverse, place)
        return None

    @property
    def remark(self) -> str:
        """The note about the removal."""
        name = self.memory.param
        return f"carry `{name}` removed: it is `{self.memory.next}` of the previous iteration"

    def build(self) -> tuple[Var, Var]:
        """Build the delayed stack and the final value."""
        init, source = self.place.var(self.memory.init), self.place.var(self.source)
        first = emit("reshape", init, shape=(1, *init.shape))
        ordered = (source, first) if self.reverse else (first, source)
        extended = emit("concat", *ordered, axis=0)
        delayed, final = (
            (extended[1:], extended[0]) if self.reverse else (extended[:-1], extended[-1])
        )
        return (delayed if self.delayed is None else self.place.var(self.delayed)), final


def _find_mirrored(
    memory: MemoryView, source: str, reverse: bool, place: InsertionPoint
) -> tuple[LoopView, MemoryView] | None:
    """Return the memory of a reversed loop whose next values the source stacks."""
    maker = place.maker(source)
    view = view_of(maker) if maker else None
    if not isinstance(view, LoopView) or view.reverse == reverse:
        return None
    params = [row.result for row in view.rows if row.stacked == source]
    candidates = [m for m in view.memories if m.param in params and m.final == memory.init]
    return (view, candidates[0]) if candidates else None


REMOVE_DELAY_MEMORIES = Pass(
    "remove_delay_memories",
    remove_delay_memories,
    "Replace carries that only delay a scanned input.",
    trusted=True,
)
