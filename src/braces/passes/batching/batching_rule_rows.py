"""Batching rule of partitioned branches: one branch for the batch elements of all iterations.

    y: f32[b,4] = partition(masks=m, rows=x)        in each of n iterations
      cases [ (v: bool[b], r: f32[b,3]) { … } ]

    ms: bool[n*b] = reshape(x=masks)                once
    xs: f32[n*b,3] = reshape(x=rows)
    ys: f32[n*b,4] = partition(masks=ms, rows=xs)
      cases [ (v: bool[n*b], r: f32[n*b,3]) { … } ]
    …: f32[n,b,4] = reshape(x=ys)

Padding elements are copies of an active element, of any iteration. If no iteration has one,
nothing runs. So the guarantees of the branch in one iteration hold for this one: no padding
reaches a value, and nothing fails there. Sums over the batch axis become sums over all
iterations too.

On several devices, the iterations of a batch element are contiguous instead. A device with a
shard of the batch elements then has one contiguous piece.

A fed input may be NaN in the padding, and an operator that only moves it would keep the NaN.
Such inputs are zeroed in the padding first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from braces.builder.append import emit
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import is_float
from braces.ir.records import Body, Op
from braces.ir.views import PartitionView
from braces.ir.walk import relabel_body, rename_body
from braces.ops.control.batch_axis.axis_kinds import TypeOf
from braces.ops.control.construct.build import append_construct
from braces.passes.batching.batching_rule import Values
from braces.passes.batching.flattened_case import FlattenedCase
from braces.passes.core.context import current_context
from braces.passes.core.rewrite import InsertionPoint


@dataclass(frozen=True)
class BatchedPartition:
    """Partitioned branch for all iterations.

    Attributes:
        place: Insertion point of the loop.
        view: The branch in one iteration.
        body: Its case for all iterations.
        trips: The trip count.
    """

    place: InsertionPoint
    view: PartitionView
    body: Body
    trips: Size

    @property
    def totals(self) -> frozenset[str]:
        """Outputs that `build` sums over all iterations."""
        return frozenset(out.name for out in self.view.sums)

    def can_sum(self, name: str) -> bool:
        """Return whether an output is summed over all iterations."""
        return name in self.totals

    def build(self, values: Values) -> dict[str, Var]:
        """Append the branch; return its outputs for all iterations, by name.

        Args:
            values: Returns an operand, with a leading iteration axis if it varies.
        """
        view, (case,) = self._rename_captures(values), self.view.cases
        mask, total = values(case.mask), self.trips * case.count
        sources = (row.source for row in view.rows)
        flat = {name: self._fold(values(name), mask, total).name for name in sources}
        op = replace(
            view,
            cases=(replace(view.cases[0], mask=_fold(mask, total).name, count=total),),
            rows=tuple(replace(row, source=flat[row.source]) for row in view.rows),
            outs=tuple(replace(out, name="") for out in view.outs),
            sums=tuple(replace(out, name="") for out in view.sums),
            origin=Op(view.origin.type, "", {}, {}),
        ).to_op()
        new_op, var = append_construct(self.place.program, op)
        results = [var[out.name] for out in PartitionView.of(new_op).outputs]
        outs, sums = results[: len(view.outs)], results[len(view.outs) :]
        return view.bound([*(_unfold(x, self.trips, case.count) for x in outs), *sums])

    def _rename_captures(self, values: Values) -> PartitionView:
        """Return the branch with the captures of its case renamed for the enclosing block."""
        names = {name: values(name).name for name in self.view.origin.captures()}
        unique, captured_names = self.place.table.names.unique, set(names.values())
        own = {name: unique(name) for name in self.body.vars if name in captured_names}
        body = rename_body(relabel_body(self.body, own), names)
        (case,) = self.view.cases

        def new_names(old_names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(own.get(name, name) for name in old_names)

        (valid,) = new_names((case.valid,))
        return replace(
            self.view,
            cases=(replace(case, valid=valid, content=body),),
            rows=tuple(replace(row, params=new_names(row.params)) for row in self.view.rows),
            outs=tuple(replace(out, results=new_names(out.results)) for out in self.view.outs),
            sums=tuple(replace(out, results=new_names(out.results)) for out in self.view.sums),
        )

    def _fold(self, x: Var, mask: Var, total: Size) -> Var:
        """Return the batch elements of all iterations; zero the padding of fed values."""
        building = any(x.name in op.binds() for op in self.place.table.ops)
        if is_float(x.dtype) and not building and self.place.maker(x.name) is None:
            shape = (*mask.shape, *(1,) * (x.ndim - 2))
            x = emit("where", emit("reshape", mask, shape=shape), x, 0.0)
        return _fold(x, total)


def batch_partition(
    place: InsertionPoint, op: Op, type_of: TypeOf, varying: Collection[str], trips: Size
) -> BatchedPartition | None:
    """Apply the batching rule to a partitioned branch; `None` if it does not apply.

    Args:
        place: Insertion point of the loop.
        op: The branch in one iteration.
        type_of: Returns the type of its operands and results in one iteration.
        varying: Its loop-variant operands.
        trips: The trip count.
    """
    view = PartitionView.of(op)
    sources = {view.cases[0].mask, *(row.source for row in view.rows)}
    if not keeps_elements_in_place(view) or sources != varying:
        return None
    body = FlattenedCase(view, type_of, trips * view.cases[0].count).flatten_body()
    return None if body is None else BatchedPartition(place, view, body, trips)


def keeps_elements_in_place(view: PartitionView) -> bool:
    """Return whether a partitioned branch has one case and does not compact batch elements."""
    return not view.compact and len(view.cases) == 1


def _fold(x: Var, rows: Size) -> Var:
    """Fold the iteration axis into the batch axis; on several devices behind it."""
    x = emit("moveaxis", x, source=0, destination=1) if current_context().target.together else x
    return emit("reshape", x, shape=(rows, *x.shape[2:]))


def _unfold(x: Var, trips: Size, rows: Size) -> Var:
    """Unfold the batch axis into a leading iteration axis and the batch axis."""
    if not current_context().target.together:
        return emit("reshape", x, shape=(trips, rows, *x.shape[1:]))
    unfolded = emit("reshape", x, shape=(rows, trips, *x.shape[1:]))
    return emit("moveaxis", unfolded, source=0, destination=1)
