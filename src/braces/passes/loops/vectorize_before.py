"""Compute for all trips of a loop at once what each trip computes of its slices alone.

    stacked=[ys: f32[n,4]], … =               zs: f32[n,4] = matmul(x=rows, y=w)
      loop(sliced=rows) captures [w] as l     stacked=[ys: f32[n,4]], … =
      body (t: i64[], h: f32[4], r: f32[3]) {   loop(sliced=zs) as l
        z: f32[4] = matmul(x=r, y=w)     ->     body (t: i64[], h: f32[4], z: f32[4]) {
        y: f32[4] = add(x=z, y=h)                 y: f32[4] = add(x=z, y=h)
        return y, y                               return y, y
      }                                         }

One large product takes less time than many small ones. So what costs much to compute moves,
with what it is computed from; and what is computed of that alone, where it is no larger. What
is only added up stays for `defer`, which adds it for all trips in one go. What draws random
numbers is told of all trips, each of which draws as for itself; what owns blocks stays, and
what does not say how axes map. Results are the same up to the order in which products are
added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from braces.dims import Size
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView
from braces.passes.batching.accumulators import Sums
from braces.passes.batching.trip_space import ForTrips, Trips, is_costly, without
from braces.passes.core.context import larger, setting
from braces.passes.core.pipeline import Pass
from braces.passes.core.random_effects import is_calm, is_random
from braces.passes.core.rewrite import Change, Place, rewrite_loops


def batched(program: ProgramDef) -> ProgramDef:
    """A program whose loops compute nothing costly of their slices alone."""
    return rewrite_loops(program, None, _batch)


def _batch(view: LoopView, op: Op, place: Place) -> Change:
    trips = Trips.of(view, op, place)
    if trips is None:
        return op
    found = able(trips)
    moved = _worth_it(trips, found)
    if not trips.move(op, moved, _made(moved), "before the first"):
        return op
    with place.building():
        for one in moved:
            with place.program.at(one.source):
                trips.values |= found[one.name].build(trips.value)
    return _around(trips, op, moved)


def bytes_before(trips: Trips) -> list[Size]:
    """The bytes of a trip that there would be for all of them before a loop."""
    moved = _worth_it(trips, able(trips))
    return trips.taken(moved, _made(moved))


def able(trips: Trips) -> dict[str, ForTrips]:
    """The operators that need nothing of other trips, by name."""
    known, found = set(trips.known), dict[str, ForTrips]()
    for op in trips.body.ops:
        stretched = trips.stretched(op) if trips.varying(op) <= known else None
        if stretched is not None and not stretched.totals:
            found[op.name] = stretched
            known.update(op.binds())
    return found


def _worth_it(trips: Trips, could: Collection[str]) -> list[Op]:
    """Those of the operators that move: the costly ones, and what comes before and after.

    Where no trip needs another and all operators can, all do: there is no loop then.
    """
    if not trips.view.memories and all(op.name in could for op in trips.body.ops):
        return [*trips.body.ops]
    moved, needed = set[str](), set[str]()
    summed = Sums(trips).added if could else set[str]()
    for op in reversed(trips.body.ops):
        if op.name not in could:
            continue
        needs = not needed.isdisjoint(op.binds())
        if needs or (summed.isdisjoint(op.binds()) and _pays(trips, op)):
            moved.add(op.name)
            needed.update(op.reads())
    made = {n for op in trips.body.ops if op.name in moved for n in op.binds()}
    for op in trips.body.ops:
        follows = trips.varying(op) <= made and summed.isdisjoint(op.binds())
        if op.name in could and follows and _is_no_larger(trips, op):
            moved.add(op.name)
            made.update(op.binds())
    return [op for op in trips.body.ops if op.name in moved]


def _pays(trips: Trips, op: Op) -> bool:
    """Whether it is worth moving for itself: it is costly, or draws a few numbers a trip."""
    if is_random(op) and not is_calm(op):
        return not larger(trips.sizes_of(op.binds()), setting().target.drawn_bytes)
    return is_costly(op)


def _made(ops: Iterable[Op]) -> list[str]:
    return [name for one in ops for name in one.binds()]


def _is_no_larger(trips: Trips, op: Op) -> bool:
    """Whether it makes no more than it reads, in one piece: each of several would be copied."""
    if len([*op.binds()]) > 1:
        return False
    return trips.bytes_of(op.binds()) <= trips.bytes_of(trips.varying(op))


def _around(trips: Trips, op: Op, moved: list[Op]) -> Change:
    """The loop without what moved."""
    view, made = trips.view, _made(moved)
    gone = {one.name for one in moved}
    read = {n for one in trips.body.ops if one.name not in gone for n in one.reads()}
    read.update(memory.next for memory in view.memories)
    cut = [name for name in made if name in read]
    stacked = {row.stacked: trips.values[row.result] for row in view.rows if row.result in made}
    trips.place.stand_for({name: var.name for name, var in stacked.items()})
    return replace(
        view,
        content=without(view.content, moved, cut),
        slices=(*view.slices, *trips.cut(cut)),
        rows=tuple(row for row in view.rows if row.stacked not in stacked),
        length=trips.length,
        origin=op,
    ).to_op()


VECTORIZE_BEFORE = Pass(
    "vectorize_before",
    batched,
    "Vectorize before a loop the operators that depend on its slices alone.",
    trusted=True,
)
