"""Parts of a ragged step for loop fission: prologue, core and epilogue.

    (v, h: f32[c,4], x: f32[c,3]) {         # h is carried, x is a scanned input
      p: f32[c,4] = matmul(x=x, y=w)        # prologue: reads scanned inputs only
      s: f32[c,4] = add(x=p, y=h)           # core: from the carry to its next value
      q: f32[c,9] = matmul(x=s, y=u)        # epilogue: no next value depends on it
      return s, q                           # s: next value of h; q: stacked output
    }

becomes

    prologue  (v, x) { p = matmul(x=x, y=w)  return p }       vectorized before the loop
    core      (v, h, p) { s = add(x=p, y=h)  return s }       stays in the loop
    epilogue  (v, s) { q = matmul(x=s, y=u)  return q }       vectorized after the loop

`StepFission` labels each operator with its part, by dataflow:

1. Two reachability queries give the candidates: forward from the scanned inputs for the
   prologue, and backward from the next values of the carries for the epilogue.
2. A cost filter selects expensive operators and their cheap neighbours.
3. A fixpoint drops operators whose values cannot cross between the parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import TypeAlias

from braces.define.decorator import OPS
from braces.dtypes import known_bytes
from braces.ir.records import Op
from braces.ir.views import PartitionView
from braces.ir.walk import names_bound_by
from braces.passes.batching.accumulators import Accumulators
from braces.passes.batching.flattened_case import FlattenedCase
from braces.passes.batching.iteration_space import IterationSpace, is_expensive
from braces.passes.core.dataflow import (
    adds_no_bytes,
    fixpoint,
    needed_values,
    select_with_producers,
)
from braces.passes.loops.vectorize_before import values_before

OpsByName: TypeAlias = dict[str, Op]


class Part(Enum):
    """Part of a step; shared operators have no batch axis, and are recomputed in each part."""

    PROLOGUE = auto()
    CORE = auto()
    EPILOGUE = auto()
    SHARED = auto()


class StepFission:
    """Labels of the operators of a step for loop fission.

    Attributes:
        view: The branch, which has one case.
        case: The case.
        body: Its block.
        known: Values that can be available for all iterations before the loop.
        waiting: Expensive operators that depend only on an unknown mask.
        prologue_candidates: Operators whose operands are all known, by name.
        epilogue_candidates: Operators that no later iteration depends on, by name.
        labels: The part of each operator, by name.
    """

    def __init__(self, view: PartitionView, trips: IterationSpace) -> None:
        self.view, self._trips = view, trips
        (self.case,), (self.body,) = view.cases, view.bodies
        self._flattened = FlattenedCase(view, trips.type_of, trips.length * self.case.count)
        self._scanned = {row.params[0] for row in view.rows if trips.varies(row.source)}
        self._uniform = self._values_without_batch_axis()
        self.labels = {
            op.name: Part.SHARED if self._uniform.issuperset(op.binds()) else Part.CORE
            for op in self.body.ops
        }
        self.known, self.waiting = set[str](), list[Op]()
        self.prologue_candidates = self._find_prologue_candidates()
        self._label(Part.PROLOGUE, self._close_prologue(self._select_prologue()))
        self.epilogue_candidates = self._find_epilogue_candidates()
        self._label(Part.EPILOGUE, self._close_epilogue(self._select_epilogue()))

    def ops_of(self, part: Part) -> list[Op]:
        """Return the operators of a part."""
        return [op for op in self.body.ops if self.labels[op.name] is part]

    def _label(self, part: Part, ops: OpsByName) -> None:
        """Label operators with a part, if that takes work out of the loop."""
        if any(is_expensive(op) or self._sums_over_batch(op) for op in ops.values()):
            self.labels.update(dict.fromkeys(ops, part))

    def _values_without_batch_axis(self) -> set[str]:
        """Return the values without batch axis, and the validity mask and its dependents."""
        uniform = {self.case.valid}
        for op in self.body.ops:
            is_recomputable = self._is_flattened(op) and not OPS.get(op.type).may_fail(op.attrs)
            if is_recomputable and uniform.issuperset(self._case_operands(op)):
                uniform.update(op.binds())
        return uniform

    def _case_operands(self, op: Op) -> set[str]:
        """Return the operands of an operator that belong to the case."""
        return self.body.vars.keys() & {*op.reads()}

    def _is_flattened(self, op: Op) -> bool:
        """Return whether an operator can run for all iterations, with invariant captures."""
        captures = {*op.reads()} - self.body.vars.keys()
        return op.name in self._flattened.ops and not any(map(self._trips.varies, captures))

    def _is_movable(self, op: Op) -> bool:
        return self.labels[op.name] is Part.CORE and self._is_flattened(op)

    def _sums_over_batch(self, op: Op) -> bool:
        return not self._flattened.totals.isdisjoint(op.binds())

    def _bytes(self, names: Iterable[str]) -> int:
        """Return the bytes of these values in one iteration."""
        return sum(known_bytes(self._flattened.types[name]) for name in names)

    def _names_read_outside(self, moved: OpsByName, *parts: Part) -> set[str]:
        """Return the names that the other operators of these parts read."""
        others = (op for part in parts for op in self.ops_of(part) if op.name not in moved)
        return {name for op in others for name in op.reads()}

    # ---- prologue ----------------------------------------------------------------------------

    def _find_prologue_candidates(self) -> OpsByName:
        available = values_before(self._trips)
        known_params = {row.params[0] for row in self.view.rows if row.source in available}
        candidates, known = OpsByName(), (known_params & self._scanned) | self._uniform
        for op in self.body.ops:
            is_known = self._is_movable(op) and self._case_operands(op) <= known
            if is_known and not self._sums_over_batch(op):
                candidates[op.name] = op
                known.update(op.binds())
        if self.case.mask not in available:
            self.waiting = [op for op in candidates.values() if is_expensive(op)]
            return {}
        self.known = known
        return candidates

    def _select_prologue(self) -> OpsByName:
        """Select expensive operators, their producers, and consumers that are no larger."""

        def may_follow(op: Op, moved_values: set[str]) -> bool:
            operands, results = self._case_operands(op) - self._uniform, [*op.binds()]
            is_no_larger = self._bytes(results) <= self._bytes(operands)
            return operands <= moved_values and is_no_larger and len(results) == 1

        candidates = [*self.prologue_candidates.values()]
        selected = select_with_producers(candidates, is_expensive, may_follow)
        return {op.name: op for op in selected}

    def _close_prologue(self, selected: OpsByName) -> OpsByName:
        """Drop operators whose outputs lack the batch axis where other parts read them."""
        params, results = {*self.body.params}, {*self.body.results}

        def drop(moved: OpsByName) -> OpsByName:
            available = names_bound_by(moved.values()) | self._uniform | params
            read_outside = self._names_read_outside(moved, Part.CORE, Part.SHARED)
            return {
                name: op
                for name, op in moved.items()
                if all(map(self._flattened.crosses, read_outside & {*op.binds()}))
                and all(map(self._flattened.is_row, results & {*op.binds()}))
                and self._case_operands(op) <= available
            }

        return fixpoint(drop, selected)

    # ---- epilogue ----------------------------------------------------------------------------

    def _unread_outputs(self) -> set[str]:
        """Return the outputs of the branch that no later iteration reads."""
        trips, sums = self._trips, {out.name for out in self.view.sums}
        accumulators = Accumulators(trips, sums)

        def may_leave(op: Op) -> bool:
            return op.name in accumulators.links or trips.batched_op(op) is not None

        around = [op for op in trips.body.ops if op.name != self.view.origin.name]
        needed = needed_values(around, accumulators.recurrent, may_leave)
        return ({out.name for out in self.view.outs} - needed) | (sums & accumulators.added)

    def _find_epilogue_candidates(self) -> OpsByName:
        unread = self._unread_outputs()
        core = {out.results[0] for out in self.view.outputs if out.name not in unread}
        ops = self.ops_of(Part.CORE)
        needed = needed_values(ops, core, self._is_movable)
        return {
            op.name: op for op in ops if self._is_movable(op) and needed.isdisjoint(op.binds())
        }

    def _select_epilogue(self) -> OpsByName:
        """Select expensive operators, their consumers, and closed producers."""
        selected, moved_values = OpsByName(), set[str]()
        for name, op in self.epilogue_candidates.items():
            pays = is_expensive(op) or self._sums_over_batch(op)
            if pays or not moved_values.isdisjoint(op.reads()):
                selected[name] = op
                moved_values.update(op.binds())
        prologue_values = names_bound_by(self.ops_of(Part.PROLOGUE))
        available = prologue_values | self._uniform | {*self.body.params}

        def add(moved: OpsByName) -> OpsByName:
            moved = dict(moved)
            for name, op in reversed(self.epilogue_candidates.items()):
                if name not in moved and self._moves_with_readers(op, moved, available):
                    moved[name] = op
            return moved

        return fixpoint(add, selected)

    def _moves_with_readers(self, op: Op, moved: OpsByName, available: set[str]) -> bool:
        """Return whether an operator moves with its consumers: it needs nothing further."""
        own = {*op.binds()}
        readers = {other.name for other in self.body.ops if not own.isdisjoint(other.reads())}
        is_result = not own.isdisjoint(self.body.results)
        if is_result or not readers or not moved.keys() >= readers:
            return False
        available = available.union(*(other.reads() for other in moved.values()))
        return adds_no_bytes(op, self._case_operands(op) - available, self._bytes)

    def _close_epilogue(self, selected: OpsByName) -> OpsByName:
        """Drop operators that read values without batch axis, or that the core reads."""

        def drop(moved: OpsByName) -> OpsByName:
            own_values = names_bound_by(moved.values()) | self._uniform
            read_outside = self._names_read_outside(moved, Part.PROLOGUE, Part.CORE)
            return {
                name: op
                for name, op in moved.items()
                if read_outside.isdisjoint(op.binds())
                and all(map(self._may_cross, self._case_operands(op) - own_values))
            }

        return fixpoint(drop, selected)

    def _may_cross(self, name: str) -> bool:
        """Return whether the epilogue after the loop can read a value per batch element."""
        is_invariant = name in self.body.params and name not in self._scanned
        return self._flattened.crosses(name) and not is_invariant
