"""Checkpointing: a loop in segments, of which only the beginnings are kept.

    loop of n trips  =  loop over n / k segments, each a loop of k trips

The outer loop runs each segment again for its gradient, so that what is kept are the memories
at the n / k beginnings and the values of one segment: with k near the square root of n, memory
grows with the square root of the trips, for one more forward computation. Results are the same.

Before:

    final=[a: f32[]], … = loop(init=x) captures [x]
      body (t: i64[], p: f32[]) {
        q: f32[] = tanh(x=p)
        return q
      }
      cond (p: f32[]) { more: bool[] = less(x=p, y=x)  return more }

After, with segments of four trips; `one` and `four` are constants:

    final=[a: f32[]], … = loop(init=x) {recompute=true} captures [x]
      body (segment: i64[], p: f32[]) {
        first: i64[] = multiply(x=segment, y=four)
        final=[b: f32[], …], … = loop(init=[p, zero]) captures [first, x]
          body (trip: i64[], p: f32[], n: i64[]) {
            t: i64[] = add(x=first, y=trip)
            q: f32[] = tanh(x=p)
            m: i64[] = add(x=n, y=one)
            return q, m
          }
          cond (p: f32[], n: i64[]) {
            more: bool[] = less(x=p, y=x)
            left: bool[] = less(x=n, y=four)
            both: bool[] = logical_and(x=more, y=left)
            return both
          }
        return b
      }
      cond (p: f32[]) { more: bool[] = less(x=p, y=x)  return more }

A loop whose trips are known needs no counting: its slices are folded into whole segments, and
one more loop makes the trips that are left over, if there may be some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braces.builder.append import one
from braces.builder.builder import Builder
from braces.builder.source_line import says_where
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of, visible_var
from braces.dims import Size
from braces.dtypes import BOOL, INT64, ListType, TensorType, Type
from braces.errors import ProgramError
from braces.ir.records import ARGUMENT, Op, ProgramDef
from braces.ir.views import LoopView, Row, view_of
from braces.ir.walk import rename_body
from braces.ops.control.construct.build import Carried, Cut, Looped, build_loop
from braces.ops.lists.stack import INDEX_TYPE
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite_loops


@dataclass
class Segments:
    """A loop about to be cut into segments.

    Attributes:
        program: The program that is built.
        loop: The loop, without memories and slices.
        memories: Its memories.
        every: Trips in one segment.
        recompute: Whether the gradient runs each segment again.
    """

    program: Builder
    loop: LoopView
    memories: Sequence[Carried]
    every: int
    recompute: bool = True

    def counted(self, slices: Sequence[Cut]) -> tuple[Sequence[Var], list[Var]]:
        """A loop whose trips are known: final memories and stacked rows."""
        length = self.loop.length
        assert length is not None
        done = length // self.every * self.every
        whole = [Cut(self._folded(cut.source[:done], done), cut.param) for cut in slices]
        if done == length:
            made = self._whole(self.memories, whole, done)
            return made.finals, [*made.rows]
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
        return replace(self.loop, index=segment.name, content=content, recompute=self.recompute)

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


# ---- the pass --------------------------------------------------------------------------------


@says_where
def checkpoint(every: int, *loops: str) -> Pass:
    """A pass that cuts loops into segments, of which gradients keep the beginnings only.

    It is for programs that are not differentiated yet; a loop that its gradient has made to
    keep histories stays whole. So do segments, and the loop over them.

    Args:
        every: Trips in one segment.
        loops: The paths of those that are cut, as `loop_0/body/loop_1`; all that can be.

    Raises:
        ProgramError: `every` is less than 1.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [100, 4])
        ...     rnn = br.create_rnn()
        ...     with rnn.stepnet() as net:
        ...         h = net.add_memory(init=br.zeros([4]))
        ...         h.update(br.tanh(h + net.add_input(x)))
        ...     last = rnn.final(h)
        >>> len(prog.blocks), len(br.passes.checkpoint(10)(prog).blocks)
        (2, 3)
    """
    check_trips(every, "every")

    def rule(view: LoopView, op: Op, place: Place) -> Change:
        reason = _whole_for(view, place, every)
        if reason is not None:
            note(place.where(op), f"stays whole: {reason}")
            return op
        note(place.where(op), f"is cut into segments of {every} trips")
        with place.building():
            return segmented(view, place, every)

    def run(program: ProgramDef) -> ProgramDef:
        return rewrite_loops(program, loops or None, rule)

    return Pass(
        "checkpoint",
        run,
        f"Cut loops into segments of {every} trips, of which gradients keep the beginnings.",
        trusted=True,
    )


def _whole_for(view: LoopView, place: Place, every: int) -> str | None:
    """Why a loop is not cut."""
    if view.recompute:
        return "its gradient runs its trips again already"
    if place.owner is not None and _runs_again(place.owner):
        return "it is a segment of the loop around it"
    if view.history:
        return "it repeats the trips of another loop"
    if view.max_trips is not None:
        return "its trips are limited"
    if view.count is not None:
        return "a value tells how many trips it makes"
    if carries_lists(view, place):
        return "it carries lists"
    length = _length(view, place)
    if length is not None and (length == every or length // every == 0):
        return "it has no more trips than a segment"
    return None


def carries_lists(view: LoopView, place: Place) -> bool:
    """Whether a memory of a loop is a history."""
    return any(isinstance(place.info(memory.init).type, ListType) for memory in view.memories)


def _runs_again(op: Op) -> bool:
    """Whether this is a loop whose gradient runs its trips again."""
    view = view_of(op)
    return isinstance(view, LoopView) and view.recompute


def _length(view: LoopView, place: Place) -> Size | None:
    """The number of trips, where it is known beforehand."""
    if view.length is not None or not view.slices:
        return view.length
    return place.var(view.slices[0].source).shape[0]


def segmented(
    view: LoopView, place: Place, every: int, *, recompute: bool = True
) -> dict[str, str]:
    """Build the segments of a loop; what its outputs are called from then on.

    Args:
        view: The loop.
        place: Where it stands.
        every: Trips in one segment.
        recompute: Whether the gradient runs each segment again.
    """
    loop = LoopView(
        view.index,
        view.content,
        rows=tuple(Row(row.result) for row in view.rows),
        condition=view.condition,
        length=_length(view, place),
        reverse=view.reverse,
    )
    memories = [Carried(place.var(m.init), m.param, m.next) for m in view.memories]
    cut, rows = Segments(place.program, loop, memories, every, recompute), list[Var]()
    if view.condition is not None:
        finals, trips = cut.conditional()
    else:
        slices = [Cut(place.var(one.source), one.param) for one in view.slices]
        finals, rows = cut.counted(slices)
        trips = one("size", value=loop.length, dtype=INT64)
    made = view.bound(finals, rows, trips)
    return {name: var.name for name, var in made.items()}
