"""Checkpointing: a loop in segments, of which only the beginnings are kept.

    loop of n trips  =  loop over n / k segments, each a loop of k trips

The outer loop runs each segment again for its gradient, so that what is kept are the memories
at the n / k beginnings and the values of one segment: with k near the square root of n, memory
grows with the square root of the trips, for one more forward computation. Results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braces.dims import Size
from braces.dtypes import BOOL, INT64, TensorType, Type
from braces.errors import ProgramError
from braces.ir.program import Program
from braces.ir.records import ARGUMENT
from braces.ir.table import SymbolTable
from braces.ir.views import LoopView, Row
from braces.ir.walk import rename_body
from braces.ops.build import Var, one, var_of, visible_var
from braces.ops.control.building import Carried, Cut, Looped, build_loop
from braces.ops.lists import INDEX_TYPE


@dataclass
class Segments:
    """A loop about to be cut into segments.

    Attributes:
        program: The program that is built.
        loop: The loop, without memories and slices.
        memories: Its memories.
        every: Trips in one segment.
    """

    program: Program
    loop: LoopView
    memories: Sequence[Carried]
    every: int

    def counted(self, slices: Sequence[Cut]) -> tuple[Sequence[Var], list[Var]]:
        """A loop whose trips are known: final memories and stacked rows."""
        length = self.loop.length
        assert length is not None
        done = length // self.every * self.every
        whole = [Cut(self._folded(cut.source[:done], done), cut.param) for cut in slices]
        rest = [Cut(cut.source[done:], cut.param) for cut in slices]
        if self.loop.reverse:
            after = self._rest(self.memories, rest, done)
            before = last = self._whole(_from(self.memories, after), whole, done)
        else:
            before = self._whole(self.memories, whole, done)
            after = last = self._rest(_from(self.memories, before), rest, done)
        rows = zip(before.rows, after.rows, strict=True)
        return last.finals, [one("concat", *pair, axis=0) for pair in rows]

    def _folded(self, x: Var, done: Size) -> Var:
        return one("reshape", x, shape=(done // self.every, self.every, *x.shape[1:]))

    def _whole(self, memories: Sequence[Carried], slices: Sequence[Cut], done: Size) -> Looped:
        """The loop over whole segments, with rows trip by trip."""
        table, segment = self._outer_table()
        types = [TensorType(cut.source.dtype, cut.source.shape[1:]) for cut in slices]
        pieces = [self._param(table, "segment", type_) for type_ in types]
        cut = [Cut(piece, one.param) for piece, one in zip(pieces, slices, strict=True)]
        inner = self._inner(table)
        with self.program.building(table):
            trips = self._numbered(table, segment * self.every)
            made = build_loop(replace(trips, length=self.every), inner, cut)
        rows = tuple(Row(row.name) for row in made.rows)
        outer = replace(self._outer(table, segment), rows=rows, length=done // self.every)
        sources = [Cut(c.source, x.name) for c, x in zip(slices, pieces, strict=True)]
        built = build_loop(outer, _around(memories, made), sources)
        unfolded = (one("reshape", x, shape=(done, *x.shape[2:])) for x in built.rows)
        return replace(built, rows=tuple(unfolded))

    def _rest(self, memories: Sequence[Carried], slices: Sequence[Cut], done: Size) -> Looped:
        """The loop over the trips after the last whole segment."""
        length = self.loop.length
        assert length is not None
        start = one("size", value=done, dtype=INT64)
        loop = replace(self._numbered(self.program.current, start), length=length - done)
        return build_loop(loop, memories, slices)

    def conditional(self) -> tuple[Sequence[Var], Var]:
        """A loop with a condition: final memories, and how many trips it made."""
        table, segment = self._outer_table()
        inner = self._inner(table)
        with self.program.building(table):
            zero = one("full", shape=(), value=0.0, dtype=INT64)
            trips = self._numbered(table, segment * self.every)
            trips, count, after = self._bounded(table, trips)
            made = build_loop(trips, [*inner, Carried(zero, count, after)])
        built = build_loop(self._outer(table, segment), _around(self.memories, made))
        return built.finals, built.trips

    # ---- pieces ------------------------------------------------------------------------------

    def _outer_table(self) -> tuple[SymbolTable, Var]:
        table = SymbolTable(parent=self.program.current)
        return table, self._param(table, "segment", INDEX_TYPE)

    def _outer(self, table: SymbolTable, segment: Var) -> LoopView:
        """The loop over segments, whose body is complete."""
        content = table.freeze()
        return replace(self.loop, index=segment.name, content=content, recompute=True)

    def _param(self, table: SymbolTable, stem: str, type_: Type) -> Var:
        name = table.add_param(table.names.unique(stem), type_).name
        return var_of(self.program, table, name)

    def _inner(self, table: SymbolTable) -> list[Carried]:
        """The memories of a segment, which are called as those of the loop."""
        for memory in self.memories:
            table.vars[memory.param] = self.loop.content.vars[memory.param]
        return [
            replace(memory, init=var_of(self.program, table, memory.param))
            for memory in self.memories
        ]

    def _numbered(self, outer: SymbolTable, start: Var) -> LoopView:
        """The loop with its index counted on from `start`."""
        table, content = SymbolTable(parent=outer), self.loop.content
        trip = self._param(table, "trip", INDEX_TYPE)
        with self.program.building(table):
            step = start + trip
        counting = rename_body(table.freeze(), {step.name: self.loop.index})
        infos, ops = {**content.vars, **counting.vars}, (*counting.ops, *content.ops)
        content = content.with_(vars=infos, ops=ops)
        return replace(self.loop, index=trip.name, content=content)

    def _bounded(self, outer: SymbolTable, loop: LoopView) -> tuple[LoopView, str, str]:
        """The loop for no more trips than a segment has, and the memory that counts them."""
        assert loop.condition is not None
        body, cond = SymbolTable(parent=outer), SymbolTable(parent=outer)
        body.thaw(loop.content)
        cond.thaw(loop.condition)
        count = self._param(body, "trip", INDEX_TYPE)
        with self.program.building(body):
            after = count + 1
        cond.new_var(count.name, INDEX_TYPE, ARGUMENT)
        (wanted,) = loop.condition.results
        with self.program.building(cond):
            more = var_of(self.program, cond, count.name) < self.every
            goes_on = visible_var(self.program, cond, wanted) & more
        assert goes_on.type == TensorType(BOOL, ())
        bounded = replace(loop, content=body.freeze(), condition=cond.freeze([goes_on.name]))
        return bounded, count.name, after.name


def _from(memories: Sequence[Carried], before: Looped) -> list[Carried]:
    """The memories of a loop that goes on where another ended."""
    pairs = zip(memories, before.finals, strict=True)
    return [replace(memory, init=final) for memory, final in pairs]


def _around(memories: Sequence[Carried], inner: Looped) -> list[Carried]:
    """The memories of a loop around another; the inner one may have more."""
    pairs = zip(memories, inner.finals, strict=False)
    return [replace(memory, next=final.name) for memory, final in pairs]


def check_trips(given: int | None, what: str, least: int = 1) -> int | None:
    """A number of trips, or nothing.

    Raises:
        ProgramError: It is less than `least`.
    """
    if given is None or given >= least:
        return given
    raise ProgramError(
        f"{what}={given!r} is not a number of trips.",
        fix=f"Use an integer of at least {least}.",
    )
