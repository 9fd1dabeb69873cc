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
from braces.ir.views import LoopView, view_of
from braces.passes.pipeline import Pass, note
from braces.passes.rewrite import Change, Place, has_loops, rewrite
from braces.passes.setting import setting
from braces.passes.stretch import turns_axes
from braces.passes.trips import length_of


def laid_out(program: ProgramDef) -> ProgramDef:
    """A program whose loops transpose nothing that is the same on each trip."""
    return rewrite(program, _lay_out) if has_loops(program.main) else program


def _lay_out(op: Op, place: Place) -> Change:
    if not turns_axes(op) or not _is_multiplied_by(op, place):
        return op
    target = place
    while target.outer and _makes_many_trips(target) and not _needs(target, op):
        target = target.outer
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


def _makes_many_trips(place: Place) -> bool:
    """Whether this is the step of a loop that makes some trips, as far as is known."""
    view = view_of(place.owner) if place.owner else None
    if not isinstance(view, LoopView) or not view.counted or place.outer is None:
        return False
    trips = length_of(view, place.outer)
    return not isinstance(trips, int) or trips >= setting().target.few_trips


def _needs(place: Place, op: Op) -> bool:
    return any(name in place.table.vars for name in op.reads())


LAYOUT = Pass(
    "layout", laid_out, "Transpose before a loop what each trip multiplies by.", trusted=True
)
