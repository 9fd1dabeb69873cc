"""One row-wise branch for all trips of a loop: the rows of all, one trip behind the other.

    y: f32[b,4] = partition(masks=m, rows=x)        in each of n trips
      cases [ (v: bool[b], r: f32[b,3]) { … } ]

    ms: bool[n*b] = reshape(x=masks)                once
    xs: f32[n*b,3] = reshape(x=rows)
    ys: f32[n*b,4] = partition(masks=ms, rows=xs)
      cases [ (v: bool[n*b], r: f32[n*b,3]) { … } ]
    …: f32[n,b,4] = reshape(x=ys)

Rows that are not its own are stood in for by one that is, of whatever trip; where no trip has
one, nothing runs. So what holds of the branch in a trip holds of this one: nothing of the
padding reaches a value, and nothing fails there. What adds up rows gives the sum of all trips.

Where several devices compute together, all trips of a row lie one behind the other instead, for
then a device that has some of the rows has them in one piece.

A row that is fed may be NaN in the padding, and so would be what only moves it: there it is
zero before it is moved.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import is_float
from braces.ir.records import Body, Op
from braces.ir.views import PartitionView
from braces.ir.walk import relabelled, rename_body
from braces.ops.control.batch_axis.analysis import TypeOf
from braces.ops.control.construct.build import append_construct
from braces.passes.batching.batching_rule import Values
from braces.passes.batching.flatten_trips import Folding
from braces.passes.core.context import setting
from braces.passes.core.rewrite import Place


@dataclass(frozen=True)
class StretchedRows:
    """How a row-wise branch is written for all trips.

    Attributes:
        place: Where the loop stands.
        view: The branch as each trip runs it.
        body: Its case for all trips.
        trips: How many there are.
    """

    place: Place
    view: PartitionView
    body: Body
    trips: Size

    @property
    def totals(self) -> frozenset[str]:
        """What `build` gives added up over all trips."""
        return frozenset(out.name for out in self.view.sums)

    def adds_up(self, name: str) -> bool:
        """Whether it can give an output added up."""
        return name in self.totals

    def build(self, values: Values) -> dict[str, Var]:
        """Append it; what stands for the outputs of the branch, by their names.

        Args:
            values: What stands for an input, with a first axis of trips where it varies.
        """
        view, (case,) = self._outside(values), self.view.cases
        mask, total = values(case.mask), self.trips * case.count
        sources = (row.source for row in view.rows)
        flat = {name: self._flat(values(name), mask, total).name for name in sources}
        op = replace(
            view,
            cases=(replace(view.cases[0], mask=_flat(mask, total).name, count=total),),
            rows=tuple(replace(row, source=flat[row.source]) for row in view.rows),
            outs=tuple(replace(out, name="") for out in view.outs),
            sums=tuple(replace(out, name="") for out in view.sums),
            origin=Op(view.origin.type, "", {}, {}),
        ).to_op()
        made, var = append_construct(self.place.program, op)
        found = [var[out.name] for out in PartitionView.of(made).outputs]
        outs, sums = found[: len(view.outs)], found[len(view.outs) :]
        return view.bound([*(_apart(x, self.trips, case.count) for x in outs), *sums])

    def _outside(self, values: Values) -> PartitionView:
        """The branch with what its case reads from outside as it is called around the loop."""
        names = {name: values(name).name for name in self.view.origin.captures()}
        unique, taken = self.place.table.names.unique, set(names.values())
        own = {name: unique(name) for name in self.body.vars if name in taken}
        body = rename_body(relabelled(self.body, own), names)
        (case,) = self.view.cases

        def called(given: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(own.get(name, name) for name in given)

        (valid,) = called((case.valid,))
        return replace(
            self.view,
            cases=(replace(case, valid=valid, content=body),),
            rows=tuple(replace(row, params=called(row.params)) for row in self.view.rows),
            outs=tuple(replace(out, results=called(out.results)) for out in self.view.outs),
            sums=tuple(replace(out, results=called(out.results)) for out in self.view.sums),
        )

    def _flat(self, x: Var, mask: Var, total: Size) -> Var:
        """The rows of all trips; of what no operator made, those that are the branch's own."""
        building = any(x.name in op.binds() for op in self.place.table.ops)
        if is_float(x.dtype) and not building and self.place.maker(x.name) is None:
            shape = (*mask.shape, *(1,) * (x.ndim - 2))
            x = one("where", one("reshape", mask, shape=shape), x, 0.0)
        return _flat(x, total)


def stretched_rows(
    place: Place, op: Op, type_of: TypeOf, varying: Collection[str], trips: Size
) -> StretchedRows | None:
    """How a row-wise branch is written for all trips; `None` where it cannot be.

    Args:
        place: Where the loop stands.
        op: The branch as each trip runs it.
        type_of: The type there of what it reads and binds.
        varying: What of its inputs is another on each trip.
        trips: How many there are.
    """
    view = PartitionView.of(op)
    sources = {view.cases[0].mask, *(row.source for row in view.rows)}
    if not in_place(view) or sources != varying:
        return None
    body = Folding(view, type_of, trips * view.cases[0].count).whole()
    return None if body is None else StretchedRows(place, view, body, trips)


def in_place(view: PartitionView) -> bool:
    """Whether a row-wise branch has one case, whose rows stay at their places."""
    return not view.compact and len(view.cases) == 1


def _flat(x: Var, rows: Size) -> Var:
    """The rows of all trips, one trip behind the other; on several devices one row."""
    x = one("moveaxis", x, source=0, destination=1) if setting().target.together else x
    return one("reshape", x, shape=(rows, *x.shape[2:]))


def _apart(x: Var, trips: Size, rows: Size) -> Var:
    """The same with a first axis of trips again."""
    if not setting().target.together:
        return one("reshape", x, shape=(trips, rows, *x.shape[1:]))
    made = one("reshape", x, shape=(rows, trips, *x.shape[1:]))
    return one("moveaxis", made, source=0, destination=1)
