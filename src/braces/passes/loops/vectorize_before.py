"""Loop distribution and vectorization before a loop: operators that read only scanned inputs.

    stacked=[ys: f32[n,4]], … =               zs: f32[n,4] = matmul(x=rows, y=w)
      loop(sliced=rows) captures [w] as l     stacked=[ys: f32[n,4]], … =
      body (t: i64[], h: f32[4], r: f32[3]) {   loop(sliced=zs) as l
        z: f32[4] = matmul(x=r, y=w)     ->     body (t: i64[], h: f32[4], z: f32[4]) {
        y: f32[4] = add(x=z, y=h)                 y: f32[4] = add(x=z, y=h)
        return y, y                               return y, y
      }                                         }

One large product is faster than many small ones. Expensive operators move, with their
producers; cheap consumers follow if their results are no larger. Addends of accumulators stay
for `vectorize_after`, which sums them over all iterations at once. Random operators get the
numbers of all iterations, and draw the same bits in each. Operators with blocks stay, and so do
operators without axis map. Results are the same up to the order of additions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from braces.dims import Size
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView
from braces.ir.walk import names_bound_by
from braces.passes.batching.accumulators import Accumulators
from braces.passes.batching.iteration_space import (
    AnyBatchedOp,
    IterationSpace,
    is_expensive,
    remove_ops,
)
from braces.passes.batching.remarks import note_recurrence
from braces.passes.core.context import current_context, exceeds_limit
from braces.passes.core.dataflow import select_with_producers
from braces.passes.core.pipeline import Pass
from braces.passes.core.random_effects import is_in_inference_mode, is_random
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops


def vectorize_before(program: ProgramDef) -> ProgramDef:
    """Return a program whose loops compute nothing expensive from scanned inputs only."""
    return rewrite_loops(program, None, _vectorize_prologue)


def _vectorize_prologue(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
    trips = IterationSpace.of(view, op, place)
    if trips is None:
        return op
    movable = movable_ops(trips)
    moved = _select_movable(trips, movable)
    note_recurrence(trips, op)
    if not trips.move(op, moved, _outputs_of(moved), "before the loop"):
        return op
    with place.building():
        for moved_op in moved:
            with place.program.at(moved_op.source):
                trips.values |= movable[moved_op.name].build(trips.value)
    return _remaining_loop(trips, op, moved)


def bytes_before(trips: IterationSpace) -> list[Size]:
    """Return the bytes per iteration that vectorization before the loop would add."""
    moved = _select_movable(trips, movable_ops(trips))
    return trips.added_bytes(moved, _outputs_of(moved))


def movable_ops(trips: IterationSpace) -> dict[str, AnyBatchedOp]:
    """Return the operators without dependence on other iterations, by name."""
    known, movable = set(trips.available), dict[str, AnyBatchedOp]()
    for op in trips.body.ops:
        batched_op = trips.batched_op(op) if trips.varying(op) <= known else None
        if batched_op is not None and not batched_op.totals:
            movable[op.name] = batched_op
            known.update(op.binds())
    return movable


def values_before(trips: IterationSpace) -> set[str]:
    """Return the values that can be available for all iterations before a loop."""
    movable = movable_ops(trips)
    return trips.available | names_bound_by(op for op in trips.body.ops if op.name in movable)


def _select_movable(trips: IterationSpace, candidates: Collection[str]) -> list[Op]:
    """Return the operators that move: expensive ones, their producers and cheap consumers.

    If there is no recurrence and all operators can move, all do, and no loop remains.
    """
    movable = [op for op in trips.body.ops if op.name in candidates]
    if not trips.view.memories and len(movable) == len(trips.body.ops):
        return movable
    summed = Accumulators(trips).added if candidates else set[str]()

    def is_worth_moving(op: Op) -> bool:
        return summed.isdisjoint(op.binds()) and _is_worth_moving(trips, op)

    def may_follow(op: Op, moved_values: set[str]) -> bool:
        follows = trips.varying(op) <= moved_values and summed.isdisjoint(op.binds())
        return follows and _is_no_larger(trips, op)

    return select_with_producers(movable, is_worth_moving, may_follow)


def _is_worth_moving(trips: IterationSpace, op: Op) -> bool:
    """Return whether an operator is worth moving: expensive, or with few random draws."""
    if is_random(op) and not is_in_inference_mode(op):
        return not exceeds_limit(
            trips.sizes_of(op.binds()), current_context().target.drawn_bytes
        )
    return is_expensive(op)


def _outputs_of(ops: Iterable[Op]) -> list[str]:
    return [name for op in ops for name in op.binds()]


def _is_no_larger(trips: IterationSpace, op: Op) -> bool:
    """Return whether the single output is no larger than the operands; more are copied."""
    if len([*op.binds()]) > 1:
        return False
    return trips.bytes_of(op.binds()) <= trips.bytes_of(trips.varying(op))


def _remaining_loop(trips: IterationSpace, op: Op, moved: list[Op]) -> Replacement:
    """Return the loop without the moved operators."""
    view, moved_outputs = trips.view, _outputs_of(moved)
    moved_names = {body_op.name for body_op in moved}
    read_names = {
        n
        for body_op in trips.body.ops
        if body_op.name not in moved_names
        for n in body_op.reads()
    }
    read_names.update(memory.next for memory in view.memories)
    cut = [name for name in moved_outputs if name in read_names]
    stacked = {
        row.stacked: trips.values[row.result]
        for row in view.rows
        if row.result in moved_outputs
    }
    trips.place.stand_for({name: var.name for name, var in stacked.items()})
    return replace(
        view,
        content=remove_ops(view.content, moved, cut),
        slices=(*view.slices, *trips.as_slices(cut)),
        rows=tuple(row for row in view.rows if row.stacked not in stacked),
        length=trips.length,
        origin=op,
    ).to_op()


VECTORIZE_BEFORE = Pass(
    "vectorize_before",
    vectorize_before,
    "Vectorize before a loop the operators that read only its scanned inputs.",
    trusted=True,
)
