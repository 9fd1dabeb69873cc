"""Transpose before a loop what each of its trips multiplies by.

    parameter w: f32[4,3]                     parameter w: f32[4,3]
    data x: f32[n,3]                          data x: f32[n,3]
    …, stacked=[s: f32[n,4]], … =             v: f32[3,4] = transpose(x=w)
      loop(sliced=x) captures [w] as l        …, stacked=[s: f32[n,4]], … =
      body (t: i64[], h: f32[4], r: f32[3]) {   loop(sliced=x) captures [v] as l
        v: f32[3,4] = transpose(x=w)            body (t: i64[], h: f32[4], r: f32[3]) {
        y: f32[4] = matmul(x=r, y=v)   ->         y: f32[4] = matmul(x=r, y=v)
        …                                         …
      }                                         }

XLA makes one operator of a product and the transpose that it reads, which takes up to twice as
long as the product of what lies as it is read. Outside the loop that is paid once.
The gradient of a step transposes each weight that the step multiplies by.
"""

from __future__ import annotations

from braces.define.decorator import OPS
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView, PartitionView, view_of
from braces.passes.batching.batching_rule import turns_axes
from braces.passes.batching.batching_rule_rows import in_place
from braces.passes.batching.trip_space import length_of
from braces.passes.core.context import setting
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, has_loops, rewrite


def laid_out(program: ProgramDef) -> ProgramDef:
    """A program whose loops transpose nothing that is the same on each trip."""
    return rewrite(program, _lay_out) if has_loops(program.main) else program


def _lay_out(op: Op, place: Place) -> Change:
    if not turns_axes(op) or not _is_multiplied_by(op, place):
        return op
    target = _before(op, place)
    if target is place:
        return op
    note(place.where(op), "is what products of each trip read, and runs once before the loop")
    return place.lift(op, target)


def _is_multiplied_by(op: Op, place: Place) -> bool:
    bound = {*op.binds()}
    return any(
        OPS.get(reader.type).costly and not bound.isdisjoint(reader.reads())
        for reader in place.body.ops
    )


def _before(op: Op, place: Place) -> Place:
    """In front of all loops around that read nothing else on each trip.

    Rows of a step may have a block of their own in it.
    """
    found = at = place
    while at.outer is not None and at.owner is not None and not _needs(at, op):
        view = view_of(at.owner)
        if isinstance(view, LoopView):
            if not _makes_many_trips(view, at.outer):
                break
            found = at.outer
        elif not isinstance(view, PartitionView) or not in_place(view):
            break
        at = at.outer
    return found


def _makes_many_trips(view: LoopView, place: Place) -> bool:
    """Whether a loop makes some trips, as far as is known."""
    trips = length_of(view, place) if view.counted else 0
    return not isinstance(trips, int) or trips >= setting().target.few_trips


def _needs(place: Place, op: Op) -> bool:
    return any(name in place.table.vars for name in op.reads())


PRETRANSPOSE = Pass(
    "pretranspose",
    laid_out,
    "Transpose before a loop the matrices that each iteration multiplies by.",
    trusted=True,
)
