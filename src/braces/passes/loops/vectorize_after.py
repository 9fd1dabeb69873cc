"""Compute after a loop, for all trips at once, what no later trip needs.

    stacked=[ys: f32[n,4]], … =               stacked=[hs: f32[n,3]], … =
      loop(sliced=rows) captures [w] as l       loop(sliced=rows) as l
      body (t: i64[], h: f32[3], r: f32[3]) {   body (t: i64[], h: f32[3], r: f32[3]) {
        a: f32[3] = add(x=r, y=h)        ->       a: f32[3] = add(x=r, y=h)
        y: f32[4] = matmul(x=a, y=w)              return a, a
        return a, y                             }
      }                                       ys: f32[n,4] = matmul(x=hs, y=w)

So the products of a memory that the gradient of a loop adds up leave it: what they are made of
is stacked, and the products are added in one contraction over the trips.

    final=[g: f32[3,4]], … =                  stacked=[ps: f32[n,3]], … = loop(…) as l
      loop(init=zero, …) as l                   body (…) { …  return p }
      body (t: i64[], g: f32[3,4], …) {       e: f32[3,4] = einsum(xs=[ps, qs])
        e: f32[3,4] = outer(x=p, y=q)    ->     {equation="ab,ac->bc"}
        s: f32[3,4] = add(x=g, y=e)           g: f32[3,4] = add(x=zero, y=e)
        return s
      }

What costs much to compute moves, with all that is computed of it, and with what it is computed
from where that needs no further rows. What draws random numbers is told of all trips, or stays;
so does what owns blocks, and what does not say how axes map. Results are the same up to the
order of additions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from braces.builder.append import one
from braces.builder.var import Var
from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import TensorType
from braces.ir.records import Op, ProgramDef, VarInfo
from braces.ir.views import LoopView, Row
from braces.passes.batching.accumulators import Link, Sum, Sums
from braces.passes.batching.batching_rule import Stretched
from braces.passes.batching.batching_rule_folded import StretchedFirst
from braces.passes.batching.trip_space import ForTrips, Trips, is_costly, without
from braces.passes.core.context import larger, setting
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite_loops


def deferred(program: ProgramDef) -> ProgramDef:
    """A program whose loops compute nothing costly that no later trip needs."""
    return rewrite_loops(program, None, _defer)


def _defer(view: LoopView, op: Op, place: Place) -> Change:
    trips = Trips.of(view, op, place)
    if trips is None:
        return op
    tail = _Tail(trips)
    for kept in tail.kept():
        note(place.where(op), f"adds up `{kept.name}` trip by trip: a trip reads much for it")
    if not trips.move(op, tail.ops(), tail.stacked(), "after the last"):
        return op
    return _built(trips, tail, op)


def deferrable(trips: Trips) -> Collection[str]:
    """The operators that could move behind a loop, by name."""
    return _Tail(trips).able


def bytes_after(trips: Trips) -> list[Size]:
    """The bytes of a trip that there would be for all of them after a loop, and are not now."""
    tail = _Tail(trips)
    return trips.taken(tail.ops(), tail.stacked())


class _Tail:
    """What of the body of a loop no later trip needs.

    Attributes:
        trips: The loop.
        sums: The memories that are sums.
        able: The operators that could move, written for all trips; sums have none.
        moved: The names of those that do.
        made: What those bind.
        read: What those read that is another on each trip.
    """

    def __init__(self, trips: Trips) -> None:
        self.trips = trips
        self.sums = Sums(trips)
        self.able = self._found()
        self.moved = set[str]()
        self.made = set[str]()
        self.read = set[str]()
        self._choose()

    def ops(self) -> list[Op]:
        """The operators that move, in their order."""
        return [op for op in self.trips.body.ops if op.name in self.moved]

    def needed(self) -> set[str]:
        """What those need of each trip."""
        return self.read - self.made - {found.memory.param for found in self.sums.of.values()}

    def stacked(self) -> set[str]:
        """What there is for all trips then and was not before."""
        sums = {link.after for link in self.sums.links.values()}
        sums |= {link.added for link in self.sums.links.values() if link.added in self.made}
        rows = {row.result for row in self.trips.view.rows}
        return (self.made | self.needed()) - rows - sums - self.trips.known

    def kept(self) -> list[Op]:
        """What could be added up for all trips at once, and is added up trip by trip."""
        ops = (op for op in self.trips.body.ops if op.name in self.able)
        return [op for op in ops if op.name not in self.moved and self._folds(op)]

    def moved_sums(self) -> list[Sum]:
        """The memories that leave the loop."""
        moved = (found for name, found in self.sums.of.items() if name in self.moved)
        return list(dict.fromkeys(moved))

    # ---- what could --------------------------------------------------------------------------

    def _found(self) -> dict[str, ForTrips | None]:
        """All that only rows and sums need, followed backwards."""
        sums = {found.memory.next for found in self.sums.of.values()}
        core = {memory.next for memory in self.trips.view.memories} - sums
        able: dict[str, ForTrips | None] = {}
        for op in reversed(self.trips.body.ops):
            free = op.name not in self.sums.links and core.isdisjoint(op.binds())
            found = self.trips.stretched(op) if free else None
            if found is not None and not found.totals <= self.sums.added:
                found = None
            if found is not None or op.name in self.sums.links:
                able[op.name] = found
            else:
                core.update(op.reads())
        return able

    # ---- what does ---------------------------------------------------------------------------

    def _choose(self) -> None:
        ops = self.trips.body.ops
        for op in ops:
            if op.name in self.able and (self._pays(op) or self._follows(op)):
                self._move(op)
        grown = -1
        while grown != len(self.moved):
            grown = len(self.moved)
            for op in reversed(ops):
                if op.name in self.able and op.name not in self.moved and self._joins(op):
                    self._move(op)

    def _move(self, op: Op) -> None:
        """Move it; all that adds to one sum moves together."""
        links = self.sums.of[op.name].links if op.name in self.sums.of else ()
        for moved in (op, *(link.op for link in links)):
            self.moved.add(moved.name)
            self.made.update(moved.binds())
            self.read.update(self.trips.varying(moved))

    def _follows(self, op: Op) -> bool:
        return not self.made.isdisjoint(op.reads())

    def _pays(self, op: Op) -> bool:
        """Whether it is worth moving for itself."""
        link, stretched = self.sums.links.get(op.name), self.able[op.name]
        if link is not None:
            return link.added in self.trips.known
        if self._folds(op):
            read, machine = self.trips.varying(op), setting().target
            return not larger(self.trips.sizes_of(read), machine.folded_bytes)
        summed = (name for name in op.binds() if name in self.sums.added)
        adds_up = stretched is not None and any(map(stretched.adds_up, summed))
        return is_costly(op) or adds_up

    def _folds(self, op: Op) -> bool:
        """Whether it is added up over the batches of all trips."""
        stretched = self.able[op.name]
        return isinstance(stretched, StretchedFirst) and bool(stretched.totals)

    def _joins(self, op: Op) -> bool:
        """Whether it moves along with all that reads it, since that needs no further rows."""
        results = self.trips.body.results
        if op.name in self.sums.links or not set(op.binds()).isdisjoint(results):
            return False
        reading = [reader.name for reader in self.trips.reading(op)]
        if not reading or not self.moved.issuperset(reading):
            return False
        there = self.needed() | self.trips.known
        further = self.trips.varying(op) - there
        moves = OPS.get(op.type).cheap and len(further) == 1
        return not further or (moves and self.trips.bytes_of(further) <= self._freed(op))

    def _freed(self, op: Op) -> int:
        """How many bytes of rows are spared where it moves."""
        return self.trips.bytes_of(op.binds())


# ---- building --------------------------------------------------------------------------------


def _built(trips: Trips, tail: _Tail, op: Op) -> Change:
    """Build the loop and what comes after it; what its outputs are called from then on."""
    view, place = trips.view, trips.place
    loop, infos = _shorter(trips, tail, op)
    place.keep(loop.to_op(), infos)
    stacked = {row.result: row.stacked for row in loop.rows}
    for name in tail.needed() - trips.known:
        trips.values[name] = place.var(stacked[name])
    memories = [found.memory for found in tail.moved_sums()]
    trips.values |= {memory.param: place.var(memory.init) for memory in memories}
    with place.building():
        for moved in tail.ops():
            with place.program.at(moved.source):
                _build(trips, tail, moved)
    stands = {row.stacked: row.result for row in view.rows if row.result in tail.made}
    stands |= {memory.final: memory.next for memory in memories}
    return {name: trips.values[inner].name for name, inner in stands.items()}


def _build(trips: Trips, tail: _Tail, op: Op) -> None:
    """What an operator gives in all trips; their sum, where that is all that is read."""
    if op.name in tail.sums.links:
        link = tail.sums.links[op.name]
        trips.values[link.after] = _with_all(trips, link)
        return
    stretched = tail.able[op.name]
    assert stretched is not None
    summed = [name for name in op.binds() if name in tail.sums.added]
    if summed and isinstance(stretched, Stretched):
        trips.values[summed[0]] = stretched.total(trips.value, trips.turned)
    else:
        trips.values |= stretched.build(trips.value)


def _with_all(trips: Trips, link: Link) -> Var:
    """A sum with what all trips add to it there."""
    if link.added is None:
        stretched = trips.stretched(link.op, link.before)
        assert stretched is not None
        return stretched.build(trips.value)[link.after]
    more = trips.value(link.added)
    if link.added not in trips.makers:  # it is a slice
        more = one("sum", more, axis=0)
    return trips.value(link.before) + more


def _shorter(trips: Trips, tail: _Tail, op: Op) -> tuple[LoopView, list[VarInfo]]:
    """The loop without its tail, and the rows that it stacks for that."""
    view, table = trips.view, trips.place.table
    rows = [row for row in view.rows if row.result not in tail.made]
    there, infos = {row.result for row in rows} | trips.known, list[VarInfo]()
    for name in sorted(tail.needed() - there):
        type_ = trips.type_of(name)
        assert isinstance(type_, TensorType)
        stacked = TensorType(type_.dtype, (trips.length, *type_.shape))
        infos.append(VarInfo(table.names.unique(f"{op.name}.{name}"), stacked))
        rows.append(Row(name, infos[-1].name))
    summed = [found.memory for found in tail.moved_sums()]
    loop = replace(
        view,
        content=without(view.content, tail.ops()),
        memories=tuple(memory for memory in view.memories if memory not in summed),
        rows=tuple(rows),
        length=trips.length,
        origin=op,
    )
    return loop, infos


VECTORIZE_AFTER = Pass(
    "vectorize_after",
    deferred,
    "Vectorize after a loop the operators that no later iteration needs.",
    trusted=True,
)
