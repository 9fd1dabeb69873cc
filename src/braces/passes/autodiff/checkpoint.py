"""Activation checkpointing: a loop in segments whose gradient saves only initial carries.

    loop of n iterations  =  loop over n / k segments, each a loop of k iterations

The gradient of the outer loop recomputes each segment. It saves the memories at the n / k
segment starts and the residuals of one segment. With k near the square root of n, memory grows
with the square root of the trip count, for one more forward computation. Results are the same.

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

A loop with known trip count needs no counting: its scanned inputs are reshaped into full
segments, and one more loop runs the remainder, if there may be any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.builder.source_line import with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of, visible_var
from braces.dims import Size
from braces.dtypes import BOOL, INT64, ListType, TensorType, Type
from braces.errors import ProgramError
from braces.ir.records import ARGUMENT, Op, ProgramDef
from braces.ir.views import LoopView, StackedOutputView, view_of
from braces.ir.walk import rename_body
from braces.ops.control.construct.build import LoopCarry, LoopOutputs, ScannedInput, build_loop
from braces.ops.lists.stack import INDEX_TYPE
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops


@dataclass
class Segments:
    """A loop that is cut into segments.

    Attributes:
        program: The program under construction.
        loop: The loop, without memories and slices.
        memories: Its memories.
        every: Iterations in one segment.
        recompute: Whether the gradient recomputes each segment.
    """

    program: Builder
    loop: LoopView
    memories: Sequence[LoopCarry]
    every: int
    recompute: bool = True

    def counted(self, slices: Sequence[ScannedInput]) -> tuple[Sequence[Var], list[Var]]:
        """Build a loop with known trip count: final memories and stacked outputs."""
        length = self.loop.length
        assert length is not None
        done = length // self.every * self.every
        full_slices = [
            ScannedInput(self._fold_segments(cut.source[:done], done), cut.param)
            for cut in slices
        ]
        if done == length:
            loop_outputs = self._build_full_segments(self.memories, full_slices, done)
            return loop_outputs.finals, [*loop_outputs.rows]
        remainder_slices = [ScannedInput(cut.source[done:], cut.param) for cut in slices]
        if self.loop.reverse:
            after = self._build_remainder(self.memories, remainder_slices, done)
            before = last = self._build_full_segments(
                _continue_from(self.memories, after), full_slices, done
            )
        else:
            before = self._build_full_segments(self.memories, full_slices, done)
            after = last = self._build_remainder(
                _continue_from(self.memories, before), remainder_slices, done
            )
        rows = zip(before.rows, after.rows, strict=True)
        return last.finals, [emit("concat", *pair, axis=0) for pair in rows]

    def _fold_segments(self, x: Var, done: Size) -> Var:
        return emit("reshape", x, shape=(done // self.every, self.every, *x.shape[1:]))

    def _build_full_segments(
        self, memories: Sequence[LoopCarry], slices: Sequence[ScannedInput], done: Size
    ) -> LoopOutputs:
        """Build the loop over full segments, with stacked outputs per iteration."""
        table, segment = self._outer_table()
        types = [TensorType(cut.source.dtype, cut.source.shape[1:]) for cut in slices]
        pieces = [self._param(table, "segment", type_) for type_ in types]
        cut = [
            ScannedInput(piece, scanned.param)
            for piece, scanned in zip(pieces, slices, strict=True)
        ]
        inner = self._inner_memories(table)
        with self.program.building(table):
            trips = self._with_start(table, segment * self.every)
            inner_outputs = build_loop(replace(trips, length=self.every), inner, cut)
        rows = tuple(StackedOutputView(row.name) for row in inner_outputs.rows)
        outer = replace(self._outer_loop(table, segment), rows=rows, length=done // self.every)
        sources = [ScannedInput(c.source, x.name) for c, x in zip(slices, pieces, strict=True)]
        outputs = build_loop(outer, _outer_memories(memories, inner_outputs), sources)
        unfolded = (emit("reshape", x, shape=(done, *x.shape[2:])) for x in outputs.rows)
        return replace(outputs, rows=tuple(unfolded))

    def _build_remainder(
        self, memories: Sequence[LoopCarry], slices: Sequence[ScannedInput], done: Size
    ) -> LoopOutputs:
        """Build the loop over the iterations after the last full segment."""
        length = self.loop.length
        assert length is not None
        start = emit("size", value=done, dtype=INT64)
        loop = replace(self._with_start(self.program.current, start), length=length - done)
        return build_loop(loop, memories, slices)

    def conditional(self) -> tuple[Sequence[Var], Var]:
        """Build a loop with a condition: final memories, and its trip count."""
        table, segment = self._outer_table()
        inner = self._inner_memories(table)
        with self.program.building(table):
            zero = emit("full", shape=(), value=0.0, dtype=INT64)
            trips = self._with_start(table, segment * self.every)
            trips, count, after = self._limit_to_segment(table, trips)
            inner_outputs = build_loop(trips, [*inner, LoopCarry(zero, count, after)])
        outputs = build_loop(
            self._outer_loop(table, segment), _outer_memories(self.memories, inner_outputs)
        )
        return outputs.finals, outputs.trips

    # ---- pieces ------------------------------------------------------------------------------

    def _outer_table(self) -> tuple[SymbolTable, Var]:
        table = SymbolTable(parent=self.program.current)
        return table, self._param(table, "segment", INDEX_TYPE)

    def _outer_loop(self, table: SymbolTable, segment: Var) -> LoopView:
        """Return the loop over segments, whose body is complete."""
        content = table.freeze()
        return replace(self.loop, index=segment.name, content=content, recompute=self.recompute)

    def _param(self, table: SymbolTable, stem: str, type_: Type) -> Var:
        name = table.add_param(table.names.unique(stem), type_).name
        return var_of(self.program, table, name)

    def _inner_memories(self, table: SymbolTable) -> list[LoopCarry]:
        """Return the memories of a segment, with the names of those of the loop."""
        for memory in self.memories:
            table.vars[memory.param] = self.loop.content.vars[memory.param]
        return [
            replace(memory, init=var_of(self.program, table, memory.param))
            for memory in self.memories
        ]

    def _with_start(self, outer: SymbolTable, start: Var) -> LoopView:
        """Return the loop with its index starting at `start`."""
        table, content = SymbolTable(parent=outer), self.loop.content
        trip = self._param(table, "trip", INDEX_TYPE)
        with self.program.building(table):
            step = start + trip
        counting = rename_body(table.freeze(), {step.name: self.loop.index})
        infos, ops = {**content.vars, **counting.vars}, (*counting.ops, *content.ops)
        content = content.with_(vars=infos, ops=ops)
        return replace(self.loop, index=trip.name, content=content)

    def _limit_to_segment(
        self, outer: SymbolTable, loop: LoopView
    ) -> tuple[LoopView, str, str]:
        """Return the loop with at most a segment of iterations, and their counter memory."""
        assert loop.condition is not None
        body, cond = SymbolTable(parent=outer), SymbolTable(parent=outer)
        body.thaw(loop.content)
        cond.thaw(loop.condition)
        count = self._param(body, "trip", INDEX_TYPE)
        with self.program.building(body):
            after = count + 1
        cond.new_var(count.name, INDEX_TYPE, ARGUMENT)
        (condition_name,) = loop.condition.results
        with self.program.building(cond):
            is_within = var_of(self.program, cond, count.name) < self.every
            goes_on = visible_var(self.program, cond, condition_name) & is_within
        assert goes_on.type == TensorType(BOOL, ())
        bounded = replace(loop, content=body.freeze(), condition=cond.freeze([goes_on.name]))
        return bounded, count.name, after.name


def _continue_from(memories: Sequence[LoopCarry], before: LoopOutputs) -> list[LoopCarry]:
    """Return the memories of a loop that continues after another."""
    pairs = zip(memories, before.finals, strict=True)
    return [replace(memory, init=final) for memory, final in pairs]


def _outer_memories(memories: Sequence[LoopCarry], inner: LoopOutputs) -> list[LoopCarry]:
    """Return the memories of a loop around another; the inner one may have more."""
    pairs = zip(memories, inner.finals, strict=False)
    return [replace(memory, next=final.name) for memory, final in pairs]


def check_trips(count: int | None, what: str, least: int = 1) -> int | None:
    """Check a trip count; `None` passes.

    Raises:
        ProgramError: If the trip count is below `least`.
    """
    if count is None or count >= least:
        return count
    raise ProgramError(
        f"{what}={count!r} is not a valid iteration count.",
        fix=f"Use an integer of at least {least}.",
    )


# ---- the pass --------------------------------------------------------------------------------


@with_user_line
def checkpoint(every: int, *loops: str) -> Pass:
    """Return a pass that checkpoints loops: their gradients save only the starts of segments.

    The pass is for programs without gradients yet. A loop whose gradient has made it save
    residuals is not cut, and neither are segments and the loop over them.

    Args:
        every: Iterations in one segment.
        loops: Paths of the loops to cut, as `loop_0/body/loop_1`; by default all possible ones.

    Raises:
        ProgramError: If `every` is below 1.

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

    def rule(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
        reason = _reason_not_cut(view, place, every)
        if reason is not None:
            note(place.where(op), f"not checkpointed: {reason}", "missed")
            return op
        note(place.where(op), f"checkpointed in segments of {every} iterations")
        with place.building():
            return build_segments(view, place, every)

    def run(program: ProgramDef) -> ProgramDef:
        return rewrite_loops(program, loops or None, rule)

    return Pass(
        "checkpoint",
        run,
        f"Checkpoint loops: gradients save the carries once in {every} iterations.",
        trusted=True,
    )


def _reason_not_cut(view: LoopView, place: InsertionPoint, every: int) -> str | None:
    """Return the reason not to cut a loop; `None` if there is none."""
    if view.recompute:
        return "its gradient recomputes its iterations already"
    if place.owner is not None and _is_recomputed(place.owner):
        return "it is a segment of the enclosing loop"
    if view.history:
        return "it repeats the iterations of another loop"
    if view.max_trips is not None:
        return "its iteration count is limited (`max_trips`)"
    if view.count is not None:
        return "iteration count is unknown"
    if carries_lists(view, place):
        return "it carries a list"
    length = _length(view, place)
    if length is not None and (length == every or length // every == 0):
        return "it has no more iterations than a segment"
    return None


def carries_lists(view: LoopView, place: InsertionPoint) -> bool:
    """Return whether a memory of a loop is a list."""
    return any(isinstance(place.info(memory.init).type, ListType) for memory in view.memories)


def _is_recomputed(op: Op) -> bool:
    """Return whether an operator is a loop whose gradient recomputes its iterations."""
    view = view_of(op)
    return isinstance(view, LoopView) and view.recompute


def _length(view: LoopView, place: InsertionPoint) -> Size | None:
    """Return the trip count, if it is known before the run."""
    if view.length is not None or not view.slices:
        return view.length
    return place.var(view.slices[0].source).shape[0]


def build_segments(
    view: LoopView, place: InsertionPoint, every: int, *, recompute: bool = True
) -> dict[str, str]:
    """Build the segments of a loop; return the new names of its outputs.

    Args:
        view: The loop.
        place: Its insertion point.
        every: Iterations in one segment.
        recompute: Whether the gradient recomputes each segment.
    """
    loop = LoopView(
        view.index,
        view.content,
        rows=tuple(StackedOutputView(row.result) for row in view.rows),
        condition=view.condition,
        length=_length(view, place),
        reverse=view.reverse,
    )
    memories = [LoopCarry(place.var(m.init), m.param, m.next) for m in view.memories]
    cut, rows = Segments(place.program, loop, memories, every, recompute), list[Var]()
    if view.condition is not None:
        finals, trips = cut.conditional()
    else:
        slices = [
            ScannedInput(place.var(scanned.source), scanned.param) for scanned in view.slices
        ]
        finals, rows = cut.counted(slices)
        trips = emit("size", value=loop.length, dtype=INT64)
    new_outputs = view.bound(finals, rows, trips)
    return {name: var.name for name, var in new_outputs.items()}
