"""Loop distribution and vectorization after a loop: operators that no later iteration needs.

    stacked=[ys: f32[n,4]], … =               stacked=[hs: f32[n,3]], … =
      loop(sliced=rows) captures [w] as l       loop(sliced=rows) as l
      body (t: i64[], h: f32[3], r: f32[3]) {   body (t: i64[], h: f32[3], r: f32[3]) {
        a: f32[3] = add(x=r, y=h)        ->       a: f32[3] = add(x=r, y=h)
        y: f32[4] = matmul(x=a, y=w)              return a, a
        return a, y                             }
      }                                       ys: f32[n,4] = matmul(x=hs, y=w)

Weight gradients leave gradient loops this way. The factors of the accumulated products are
stacked, and one contraction over the iteration axis adds the products.

    final=[g: f32[3,4]], … =                  stacked=[ps: f32[n,3]], … = loop(…) as l
      loop(init=zero, …) as l                   body (…) { …  return p }
      body (t: i64[], g: f32[3,4], …) {       e: f32[3,4] = einsum(xs=[ps, qs])
        e: f32[3,4] = outer(x=p, y=q)    ->     {equation="ab,ac->bc"}
        s: f32[3,4] = add(x=g, y=e)           g: f32[3,4] = add(x=zero, y=e)
        return s
      }

Expensive operators move, with all their consumers, and with producers that need no further
stacks. Random operators get the numbers of all iterations, or stay. Operators with blocks stay,
and so do operators without axis map. Results are the same up to the order of additions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from braces.builder.append import emit
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import TensorType
from braces.ir.records import Op, ProgramDef, VarInfo
from braces.ir.views import LoopView, StackedOutputView
from braces.ir.walk import names_bound_by
from braces.passes.batching.accumulators import Accumulation, Accumulator, Accumulators
from braces.passes.batching.batching_rule import BatchedOp
from braces.passes.batching.batching_rule_folded import FoldedOp
from braces.passes.batching.iteration_space import (
    AnyBatchedOp,
    IterationSpace,
    is_expensive,
    remove_ops,
)
from braces.passes.batching.remarks import note_staying
from braces.passes.core.context import current_context, exceeds_limit
from braces.passes.core.dataflow import adds_no_bytes, fixpoint, needed_values
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops
from braces.passes.loops.vectorize_before import movable_ops


def vectorize_after(program: ProgramDef) -> ProgramDef:
    """Return a program with the epilogues of its loops vectorized after them."""
    return rewrite_loops(program, None, _vectorize_epilogue)


def _vectorize_epilogue(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
    trips = IterationSpace.of(view, op, place)
    if trips is None:
        return op
    tail = _Epilogue(trips)
    where = place.where(op)
    for reduction in tail.unmoved_reductions():
        what = "not vectorized: the operands of one iteration are large"
        note(f"{where}/body/{reduction.name}", what, "missed")
    note_staying(trips, op, {*movable_ops(trips), *tail.candidates})
    if not trips.move(op, tail.ops, tail.stacked(), "after the loop"):
        return op
    return _build_distributed(trips, tail, op)


def deferrable_ops(trips: IterationSpace) -> Collection[str]:
    """Return the names of operators that could move behind a loop."""
    return _Epilogue(trips).candidates


def bytes_after(trips: IterationSpace) -> list[Size]:
    """Return the bytes per iteration that vectorization after the loop would add."""
    tail = _Epilogue(trips)
    return trips.added_bytes(tail.ops, tail.stacked())


class _Epilogue:
    """Operators of a loop that no later iteration needs: its epilogue.

    Attributes:
        trips: The loop.
        sums: The accumulators.
        candidates: Movable operators by name, for all iterations; `None` for additions to
            accumulators.
        moved: The names of those that move.
        ops: These operators, in their order.
        outputs: Their outputs.
        needed: Their loop-variant operands that the loop must stack.
    """

    def __init__(self, trips: IterationSpace) -> None:
        self.trips = trips
        self.sums = Accumulators(trips)
        self.candidates = self._find_candidates()
        self.moved = self._select()
        self.ops = [op for op in trips.body.ops if op.name in self.moved]
        self.outputs = names_bound_by(self.ops)
        totals = {accumulator.memory.param for accumulator in self.sums.of.values()}
        self.needed = set[str]().union(*map(trips.varying, self.ops)) - self.outputs - totals

    def stacked(self) -> set[str]:
        """Return the values that are newly held for all iterations."""
        links = self.sums.links.values()
        sums = {link.after for link in links} | {link.added for link in links} & self.outputs
        rows = {row.result for row in self.trips.view.rows}
        return (self.outputs | self.needed) - rows - sums - self.trips.available

    def unmoved_reductions(self) -> list[Op]:
        """Return additive reductions that could be folded over all iterations, and stay."""
        ops = (op for op in self.trips.body.ops if op.name in self.candidates)
        return [op for op in ops if op.name not in self.moved and self._sums_folded(op)]

    def moved_sums(self) -> list[Accumulator]:
        """Return the accumulators that leave the loop."""
        pairs = self.sums.of.items()
        return list(dict.fromkeys(total for name, total in pairs if name in self.moved))

    # ---- candidates --------------------------------------------------------------------------

    def _find_candidates(self) -> dict[str, AnyBatchedOp | None]:
        """Return operators that only stacked outputs and sums depend on (reachability)."""

        def may_leave(op: Op) -> bool:
            return op.name in self.sums.links or self._batched(op) is not None

        ops, links = self.trips.body.ops, self.sums.links
        needed = needed_values(ops, self.sums.recurrent, may_leave)
        movable = (op for op in ops if needed.isdisjoint(op.binds()) and may_leave(op))
        return {op.name: None if op.name in links else self._batched(op) for op in movable}

    def _batched(self, op: Op) -> AnyBatchedOp | None:
        """Return an operator for all iterations, if only accumulators read its totals."""
        batched_op = self.trips.batched_op(op)
        is_valid = batched_op is not None and batched_op.totals <= self.sums.added
        return batched_op if is_valid else None

    # ---- selection ---------------------------------------------------------------------------

    def _select(self) -> set[str]:
        """Select operators worth moving, their consumers, and producers that add no bytes.

        All additions to one accumulator move together.
        """
        ops = [op for op in self.trips.body.ops if op.name in self.candidates]
        selected, moved_values = set[str](), set[str]()
        for op in ops:
            if self._is_worth_moving(op) or not moved_values.isdisjoint(op.reads()):
                links = self.sums.of[op.name].links if op.name in self.sums.of else ()
                moved_ops = [op, *(link.op for link in links)]
                selected.update(moved_op.name for moved_op in moved_ops)
                moved_values |= names_bound_by(moved_ops)

        def add_producers(moved: set[str]) -> set[str]:
            operands = (self.trips.varying(op) for op in ops if op.name in moved)
            moved, available = set(moved), self.trips.available.union(*operands)
            for op in reversed(ops):
                if op.name not in moved and self._moves_with_readers(op, moved, available):
                    moved.add(op.name)
                    available |= self.trips.varying(op)
            return moved

        return fixpoint(add_producers, selected)

    def _is_worth_moving(self, op: Op) -> bool:
        """Return whether an operator is worth moving for itself."""
        link, batched_op = self.sums.links.get(op.name), self.candidates[op.name]
        if link is not None:
            return link.added in self.trips.available
        if self._sums_folded(op):
            operands, machine = self.trips.varying(op), current_context().target
            return not exceeds_limit(self.trips.sizes_of(operands), machine.folded_bytes)
        summed = (name for name in op.binds() if name in self.sums.added)
        adds_up = batched_op is not None and any(map(batched_op.can_sum, summed))
        return is_expensive(op) or adds_up

    def _sums_folded(self, op: Op) -> bool:
        """Return whether an operator sums over the folded batches of all iterations."""
        batched_op = self.candidates[op.name]
        return isinstance(batched_op, FoldedOp) and bool(batched_op.totals)

    def _moves_with_readers(self, op: Op, moved: set[str], available: set[str]) -> bool:
        """Return whether an operator moves with its consumers: it adds no stacked bytes."""
        readers = {reader.name for reader in self.trips.readers_of(op)}
        is_result = not set(op.binds()).isdisjoint(self.trips.body.results)
        if op.name in self.sums.links or is_result or not readers or not readers <= moved:
            return False
        return adds_no_bytes(op, self.trips.varying(op) - available, self.trips.bytes_of)


# ---- building --------------------------------------------------------------------------------


def _build_distributed(trips: IterationSpace, tail: _Epilogue, op: Op) -> Replacement:
    """Build the loop and the operators after it; return the new names of its outputs."""
    view, place = trips.view, trips.place
    loop, infos = _remaining_loop(trips, tail, op)
    place.keep(loop.to_op(), infos)
    stacked = {row.result: row.stacked for row in loop.rows}
    for name in tail.needed - trips.available:
        trips.values[name] = place.var(stacked[name])
    memories = [accumulator.memory for accumulator in tail.moved_sums()]
    trips.values |= {memory.param: place.var(memory.init) for memory in memories}
    with place.building():
        for moved in tail.ops:
            with place.program.at(moved.source):
                _build(trips, tail, moved)
    inner_names = {row.stacked: row.result for row in view.rows if row.result in tail.outputs}
    inner_names |= {memory.final: memory.next for memory in memories}
    return {name: trips.values[inner].name for name, inner in inner_names.items()}


def _build(trips: IterationSpace, tail: _Epilogue, op: Op) -> None:
    """Build the outputs of an operator for all iterations, or only their sum."""
    if op.name in tail.sums.links:
        link = tail.sums.links[op.name]
        trips.values[link.after] = _accumulate_all(trips, link)
        return
    batched_op = tail.candidates[op.name]
    assert batched_op is not None
    summed = [name for name in op.binds() if name in tail.sums.added]
    if summed and isinstance(batched_op, BatchedOp):
        trips.values[summed[0]] = batched_op.build_sum(trips.value, trips.batched_transpose)
    else:
        trips.values |= batched_op.build(trips.value)


def _accumulate_all(trips: IterationSpace, link: Accumulation) -> Var:
    """Return an accumulator with the addends of all iterations added."""
    if link.added is None:
        batched_op = trips.batched_op(link.op, link.before)
        assert batched_op is not None
        return batched_op.build(trips.value)[link.after]
    addend = trips.value(link.added)
    if link.added not in trips.producer_of:  # a scanned input
        addend = emit("sum", addend, axis=0)
    return trips.value(link.before) + addend


def _remaining_loop(
    trips: IterationSpace, tail: _Epilogue, op: Op
) -> tuple[LoopView, list[VarInfo]]:
    """Return the loop without its epilogue, and the new stacked outputs."""
    view, table = trips.view, trips.place.table
    rows = [row for row in view.rows if row.result not in tail.outputs]
    available, infos = {row.result for row in rows} | trips.available, list[VarInfo]()
    for name in sorted(tail.needed - available):
        type_ = trips.type_of(name)
        assert isinstance(type_, TensorType)
        stacked = TensorType(type_.dtype, (trips.length, *type_.shape))
        infos.append(VarInfo(table.names.unique(f"{op.name}.{name}"), stacked))
        rows.append(StackedOutputView(name, infos[-1].name))
    summed = [accumulator.memory for accumulator in tail.moved_sums()]
    loop = replace(
        view,
        content=remove_ops(view.content, tail.ops),
        memories=tuple(memory for memory in view.memories if memory not in summed),
        rows=tuple(rows),
        length=trips.length,
        origin=op,
    )
    return loop, infos


VECTORIZE_AFTER = Pass(
    "vectorize_after",
    vectorize_after,
    "Vectorize after a loop the operators that no carry depends on.",
    trusted=True,
)
