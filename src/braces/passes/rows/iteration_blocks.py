"""Blocks that each iteration of a loop runs: its body, and cases of branches in it.

    body (t: i64[], h: f32[b,4], x: f32[b,3]) {
      m: bool[b] = less(x=t, y=n)
      h2: f32[b,4] = partition(masks=m, rows=[h, x])
        cases [ (v, h: f32[c,4], x: f32[c,3]) {
          k: f32[c,7] = concat(xs=[x, h]) {axis=1}
          s: f32[c,4] = matmul(x=k, y=w)
          return s } ]
      …

Both can determine which operators leave the loop in the end. `vectorize_before` and
`vectorize_after` move operators of the body. They move operators of the branch once `fission`
has put them into a separate branch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Self

from braces.ir.records import Op
from braces.ir.views import LoopView, PartitionView, view_of
from braces.passes.batching.batching_rule_rows import keeps_elements_in_place
from braces.passes.batching.iteration_space import IterationSpace, reason_not_vectorizable
from braces.passes.core.rewrite import InsertionPoint
from braces.passes.loops.vectorize_after import deferrable_ops
from braces.passes.loops.vectorize_before import movable_ops, values_before
from braces.passes.rows.fission_parts import StepFission


class IterationBlock:
    """A block that each iteration runs once.

    Attributes:
        trips: The iteration space of this block.
        where: The path of the loop, or of the branch.
        path: The path of the block.
        together: Whether the loop is vectorizable.
        is_body: Whether it is the body of the loop.
    """

    def __init__(
        self, trips: IterationSpace, where: str, label: str, parts: StepFission | None
    ) -> None:
        self.trips = trips
        self.where = where
        self.path = f"{where}/{label}"
        self.together = reason_not_vectorizable(trips.view) is None
        self.is_body = label == "body"
        self._parts = parts

    @classmethod
    def of(cls, view: LoopView, op: Op, place: InsertionPoint) -> Iterator[Self]:
        """Yield the body of a loop, and then the partitioned branches in it.

        Args:
            view: The loop.
            op: The operator of the loop.
            place: Its insertion point.
        """
        together = reason_not_vectorizable(view) is None
        trips = IterationSpace.over(view, place) if together else IterationSpace(view, place, 1)
        yield cls(trips, place.where(op), "body", None)
        for inner in trips.body.ops:
            branch = view_of(inner)
            if isinstance(branch, PartitionView) and keeps_elements_in_place(branch):
                (body,) = branch.bodies
                parts = StepFission(branch, trips) if together else None
                where = f"{place.where(op)}/body/{inner.name}"
                yield cls(trips.inside(body), where, "cases[0]", parts)

    @cached_property
    def before(self) -> Collection[str]:
        """Names of the operators that can be vectorized before the loop."""
        if self.is_body:
            return movable_ops(self.trips) if self.together else ()
        return self._parts.prologue_candidates if self._parts else ()

    @cached_property
    def after(self) -> Collection[str]:
        """Names of the operators that can be vectorized after the loop."""
        if self.is_body:
            return deferrable_ops(self.trips) if self.together else ()
        return self._parts.epilogue_candidates if self._parts else ()

    @cached_property
    def available(self) -> Collection[str]:
        """Names of values that can be available for all iterations before the loop."""
        if self.is_body:
            return values_before(self.trips) if self.together else self.trips.available
        return self._parts.known if self._parts else ()
