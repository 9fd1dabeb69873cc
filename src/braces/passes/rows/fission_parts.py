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

Two reachability queries give the candidates: forward from the carries for the prologue, and
backward from their next values for the epilogue. A cost filter keeps expensive operators and
their cheap neighbours. A fixpoint then drops operators whose values cannot cross between parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from braces.define.decorator import OPS
from braces.dtypes import known_bytes
from braces.ir.records import Op
from braces.ir.views import PartitionView
from braces.passes.batching.accumulators import Accumulators
from braces.passes.batching.flatten_trips import FlattenedCase
from braces.passes.batching.trip_space import IterationSpace, is_expensive
from braces.passes.loops.vectorize_before import movable_ops


class StepFission:
    """Assignment of the operators of a step to prologue, core and epilogue, if it pays.

    Operators without batch axis belong to no part: they are recomputed in each part that reads
    them.

    Attributes:
        view: The branch, which has one case.
        trips: The loop around it.
        body: Its case.
        folding: The case, for all iterations at once.
        known: Values that can be available for all iterations before the loop.
        waiting: Expensive operators that depend only on an unknown mask.
        able_before: Candidates of the prologue, by name: all operands are known.
        before: The prologue.
        able_after: Candidates of the epilogue, by name: no later iteration depends on them.
        after: The epilogue.
        late: The outputs that no later iteration reads.
    """

    def __init__(self, view: PartitionView, trips: IterationSpace) -> None:
        self.view = view
        self.trips = trips
        (self.case,) = view.cases
        self.folding = FlattenedCase(view, trips.type_of, trips.length * self.case.count)
        self.body = self.folding.body
        self._ops = self.body.ops
        self._moving = {row.params[0] for row in view.rows if trips.varies(row.source)}
        self._shared = set(self._values_without_batch_axis())
        self.known, self.waiting = set[str](), list[Op]()
        self.able_before = self._prologue_candidates()
        self.before = self._close_prologue(self._select_prologue(self.able_before))
        self.late = self._late_outputs()
        self.able_after = self._epilogue_candidates()
        self.after = self._close_epilogue(self._select_epilogue(self.able_after))

    def others(self) -> list[Op]:
        """Return the operators of the core, without those that are shared."""
        moved_names = {op.name for op in (*self.before, *self.after)}
        return [op for op in self._ops if op.name not in moved_names and not self.is_shared(op)]

    def is_shared(self, op: Op) -> bool:
        """Return whether an operator has no batch axis and is recomputed in each part."""
        return self._shared.issuperset(op.binds())

    def _values_without_batch_axis(self) -> Iterator[str]:
        """Yield the values without batch axis, and the validity mask and its dependents."""
        same = {self.case.valid}
        yield self.case.valid
        for op in self._ops:
            plain = op.name in self.folding.ops and not OPS.get(op.type).may_fail(op.attrs)
            if (
                plain
                and same.issuperset(self._case_operands(op))
                and not self._varies_outside(op)
            ):
                same.update(op.binds())
                yield from op.binds()

    def _case_operands(self, op: Op) -> set[str]:
        """Return the operands of an operator that belong to the case."""
        return self.body.vars.keys() & {*op.reads()}

    def _varies_outside(self, op: Op) -> bool:
        """Return whether an operator captures a loop-variant value from outside the case."""
        outside = {*op.reads()} - self.body.vars.keys()
        return any(map(self.trips.varies, outside))

    def _is_movable(self, op: Op) -> bool:
        is_movable = op.name in self.folding.ops and not self.is_shared(op)
        return is_movable and not self._varies_outside(op)

    def _bytes(self, names: Iterable[str]) -> int:
        """Return the bytes of these values in one iteration."""
        return sum(known_bytes(self.folding.types[name]) for name in names)

    # ---- prologue ----------------------------------------------------------------------------

    def _prologue_candidates(self) -> dict[str, Op]:
        available = self.trips.known.union(*(op.binds() for op in self._early_ops()))
        known_params = {row.params[0] for row in self.view.rows if row.source in available}
        candidates, known = dict[str, Op](), (known_params & self._moving) | self._shared
        for op in self._ops:
            sums = not self.folding.totals.isdisjoint(op.binds())
            if self._is_movable(op) and self._case_operands(op) <= known and not sums:
                candidates[op.name] = op
                known.update(op.binds())
        if self.case.mask not in available:
            self.waiting = [op for op in candidates.values() if is_expensive(op)]
            return {}
        self.known = known
        return candidates

    def _early_ops(self) -> list[Op]:
        """Return the operators around the branch without dependence on other iterations."""
        movable_names = movable_ops(self.trips)
        return [op for op in self.trips.body.ops if op.name in movable_names]

    def _select_prologue(self, candidates: dict[str, Op]) -> dict[str, Op]:
        """Return expensive operators, their producers, and consumers that are no larger."""
        moved, needed = set[str](), set[str]()
        for op in reversed(candidates.values()):
            if is_expensive(op) or not needed.isdisjoint(op.binds()):
                moved.add(op.name)
                needed.update(op.reads())
        moved_values = names_bound_by(op for op in candidates.values() if op.name in moved)
        for op in candidates.values():
            operands = self._case_operands(op) - self._shared
            is_no_larger = self._bytes(op.binds()) <= self._bytes(operands)
            if operands <= moved_values and is_no_larger and len([*op.binds()]) == 1:
                moved.add(op.name)
                moved_values.update(op.binds())
        return {name: op for name, op in candidates.items() if name in moved}

    def _close_prologue(self, moved: dict[str, Op]) -> list[Op]:
        """Drop operators whose outputs lack the batch axis where other parts read them."""
        old_count, params, results = -1, set(self.body.params), set(self.body.results)
        while old_count != len(moved):
            old_count, available = (
                len(moved),
                names_bound_by(moved.values()) | self._shared | params,
            )
            others = (op for op in self._ops if op.name not in moved)
            elsewhere = {name for op in others for name in op.reads()}
            for name, op in list(moved.items()):
                crossing, own_results = elsewhere & {*op.binds()}, results & {*op.binds()}
                has_batch_axis = all(map(self.folding.crosses, crossing))
                has_batch_axis = has_batch_axis and all(map(self.folding.is_row, own_results))
                if not has_batch_axis or not self._case_operands(op) <= available:
                    del moved[name]
        return list(moved.values()) if any(map(is_expensive, moved.values())) else []

    # ---- epilogue ----------------------------------------------------------------------------

    def _late_outputs(self) -> set[str]:
        """Return the outputs of the branch that no later iteration reads."""
        trips, sums = self.trips, Accumulators(self.trips, {out.name for out in self.view.sums})
        core = {memory.next for memory in trips.view.memories}
        core -= {accumulator.memory.next for accumulator in sums.of.values()}
        for op in reversed(trips.body.ops):
            if op.name in sums.links or op.name == self.view.origin.name:
                continue
            if not core.isdisjoint(op.binds()) or trips.stretched(op) is None:
                core.update(op.reads())
        rows = {out.name for out in self.view.outs} - core
        return rows | ({out.name for out in self.view.sums} & sums.added)

    def _epilogue_candidates(self) -> dict[str, Op]:
        results = {out.name: out.results[0] for out in self.view.outputs}
        core = {result for name, result in results.items() if name not in self.late}
        candidates, prologue_names = dict[str, Op](), {op.name for op in self.before}
        for op in reversed(self._ops):
            if op.name in prologue_names or self.is_shared(op):
                continue
            if core.isdisjoint(op.binds()) and self._is_movable(op):
                candidates[op.name] = op
            else:
                core.update(op.reads())
        return dict(reversed(candidates.items()))

    def _select_epilogue(self, candidates: dict[str, Op]) -> dict[str, Op]:
        """Return expensive operators, their consumers, and closed producers."""
        moved, moved_values = dict[str, Op](), set[str]()
        for name, op in candidates.items():
            sums = not self.folding.totals.isdisjoint(op.binds())
            if is_expensive(op) or sums or not moved_values.isdisjoint(op.reads()):
                moved[name] = op
                moved_values.update(op.binds())
        available = names_bound_by(self.before) | self._shared | set(self.body.params)
        old_count = -1
        while old_count != len(moved):
            old_count = len(moved)
            for name, op in reversed(candidates.items()):
                if name not in moved and self._moves_with_readers(op, moved, available):
                    moved[name] = op
        return {name: op for name, op in candidates.items() if name in moved}

    def _moves_with_readers(self, op: Op, moved: dict[str, Op], available: set[str]) -> bool:
        """Return whether an operator moves with its consumers: it needs nothing further."""
        body, own = self.body, {*op.binds()}
        readers = [other.name for other in self._ops if not own.isdisjoint(other.reads())]
        if not readers or not moved.keys() >= {*readers} or not own.isdisjoint(body.results):
            return False
        available = available.union(*(other.reads() for other in moved.values()))
        further = self._case_operands(op) - available
        moves = OPS.get(op.type).cheap and len(further) == 1
        return not further or (moves and self._bytes(further) <= self._bytes(own))

    def _close_epilogue(self, moved: dict[str, Op]) -> list[Op]:
        """Drop operators that read values without batch axis, or that the core reads."""
        old_count = -1
        while old_count != len(moved):
            old_count, own_values = len(moved), names_bound_by(moved.values()) | self._shared
            others = (op for op in self._ops if op.name not in moved and not self.is_shared(op))
            elsewhere = {name for op in others for name in op.reads()}
            for name, op in list(moved.items()):
                is_unread = elsewhere.isdisjoint(op.binds())
                if not is_unread or not all(
                    map(self._may_cross, self._case_operands(op) - own_values)
                ):
                    del moved[name]
        totals = self.folding.totals
        pays = any(
            is_expensive(op) or not totals.isdisjoint(op.binds()) for op in moved.values()
        )
        return list(moved.values()) if pays else []

    def _may_cross(self, name: str) -> bool:
        """Return whether the epilogue after the loop can read a value per batch element."""
        params = set(self.body.params) - self._moving
        return self.folding.crosses(name) and name not in params


def names_bound_by(ops: Iterable[Op]) -> set[str]:
    """Return all names that some operators bind."""
    return {name for op in ops for name in op.binds()}
