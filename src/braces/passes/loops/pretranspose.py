"""Pretransposition: hoist transposes of loop-invariant matrix operands out of loops.

    parameter w: f32[4,3]                     parameter w: f32[4,3]
    data x: f32[n,3]                          data x: f32[n,3]
    …, stacked=[s: f32[n,4]], … =             v: f32[3,4] = transpose(x=w)
      loop(sliced=x) captures [w] as l        …, stacked=[s: f32[n,4]], … =
      body (t: i64[], h: f32[4], r: f32[3]) {   loop(sliced=x) captures [v] as l
        v: f32[3,4] = transpose(x=w)            body (t: i64[], h: f32[4], r: f32[3]) {
        y: f32[4] = matmul(x=r, y=v)   ->         y: f32[4] = matmul(x=r, y=v)
        …                                         …
      }                                         }

XLA fuses a transpose into the product that reads it, which takes longer than a product with
contiguous operands (docs/decisions, 0038). Outside the loop, the transpose is paid once. The
gradient of a step transposes each weight that the step multiplies by.
"""

from __future__ import annotations

from braces.define.decorator import OPS
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView, PartitionView, view_of
from braces.passes.batching.batching_rule import is_transpose
from braces.passes.batching.batching_rule_rows import keeps_elements_in_place
from braces.passes.batching.iteration_space import trip_count
from braces.passes.cleanup.loop_invariant_code_motion import hoisted_out_of
from braces.passes.core.context import current_context
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, contains_loops, rewrite


def pretranspose(program: ProgramDef) -> ProgramDef:
    """Return a program whose loops transpose no loop-invariant matrix operand."""
    return rewrite(program, _hoist_transpose) if contains_loops(program.main) else program


def _hoist_transpose(op: Op, place: InsertionPoint) -> Replacement:
    if not is_transpose(op) or not _is_matrix_operand(op, place):
        return op
    target = _hoist_target(op, place)
    if target is place:
        return op
    note(place.where(op), f"{hoisted_out_of(place, target)}: matrix products read it")
    return place.lift(op, target)


def _is_matrix_operand(op: Op, place: InsertionPoint) -> bool:
    bound = {*op.binds()}
    return any(
        OPS.get(reader.type).costly and not bound.isdisjoint(reader.reads())
        for reader in place.body.ops
    )


def _hoist_target(op: Op, place: InsertionPoint) -> InsertionPoint:
    """Return the point before all enclosing loops in which the operands are invariant.

    The operator may be in a partitioned branch of a step.
    """
    target_place = at = place
    while at.outer is not None and at.owner is not None and not _reads_local(at, op):
        view = view_of(at.owner)
        if isinstance(view, LoopView):
            if not _makes_many_trips(view, at.outer):
                break
            target_place = at.outer
        elif not isinstance(view, PartitionView) or not keeps_elements_in_place(view):
            break
        at = at.outer
    return target_place


def _makes_many_trips(view: LoopView, place: InsertionPoint) -> bool:
    """Return whether the trip count of a loop is unknown or not small."""
    trips = trip_count(view, place) if view.counted else 0
    return not isinstance(trips, int) or trips >= current_context().target.few_trips


def _reads_local(place: InsertionPoint, op: Op) -> bool:
    return any(name in place.table.vars for name in op.reads())


PRETRANSPOSE = Pass(
    "pretranspose",
    pretranspose,
    "Transpose before a loop the matrices that each iteration multiplies by.",
    trusted=True,
)
