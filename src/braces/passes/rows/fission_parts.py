"""What of a row-wise step no other trip needs: before what recurs, and after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from braces.define.decorator import OPS
from braces.dtypes import known_bytes
from braces.ir.records import Op
from braces.ir.views import PartitionView
from braces.passes.batching.accumulators import Sums
from braces.passes.batching.flatten_trips import Folding
from braces.passes.batching.trip_space import Trips, is_costly
from braces.passes.loops.vectorize_before import able


class Parts:
    """The operators of a step, as far as it is worth it, by the part that they belong to.

    What is the same for all rows belongs to none: it is computed where it is read.

    Attributes:
        view: The branch, which has one case.
        trips: The loop around it.
        body: Its case.
        folding: The case, for all trips at once.
        known: What can be there for all trips before the loop.
        waiting: Costly operators that wait for nothing but which rows run.
        able_before: The operators that need what is known, and nothing else, by name.
        before: Those of them that move.
        able_after: Those that no later trip needs, by name.
        after: Those of them that move.
        late: The outputs that no later trip needs.
    """

    def __init__(self, view: PartitionView, trips: Trips) -> None:
        self.view = view
        self.trips = trips
        (self.case,) = view.cases
        self.folding = Folding(view, trips.type_of, trips.length * self.case.count)
        self.body = self.folding.body
        self._ops = self.body.ops
        self._moving = {row.params[0] for row in view.rows if trips.varies(row.source)}
        self._shared = set(self._same_for_all_rows())
        self.known, self.waiting = set[str](), list[Op]()
        self.able_before = self._able_before()
        self.before = self._handed_on(self._worth_it(self.able_before))
        self.late = self._late()
        self.able_after = self._able_after()
        self.after = self._closed(self._chosen(self.able_after))

    def others(self) -> list[Op]:
        """The operators in no part, those aside that are the same for all rows."""
        apart = {op.name for op in (*self.before, *self.after)}
        return [op for op in self._ops if op.name not in apart and not self.is_shared(op)]

    def is_shared(self, op: Op) -> bool:
        """Whether an operator is computed where it is read."""
        return self._shared.issuperset(op.binds())

    def _same_for_all_rows(self) -> Iterator[str]:
        """What needs nothing that is one a row, or just what tells rows from padding."""
        same = {self.case.valid}
        yield self.case.valid
        for op in self._ops:
            plain = op.name in self.folding.ops and not OPS.get(op.type).may_fail(op.attrs)
            if plain and same.issuperset(self._own(op)) and not self._varies_outside(op):
                same.update(op.binds())
                yield from op.binds()

    def _own(self, op: Op) -> set[str]:
        """What an operator reads of the case."""
        return self.body.vars.keys() & {*op.reads()}

    def _varies_outside(self, op: Op) -> bool:
        """Whether it reads something around the case that is another on each trip."""
        outside = {*op.reads()} - self.body.vars.keys()
        return any(map(self.trips.varies, outside))

    def _may_leave(self, op: Op) -> bool:
        found = op.name in self.folding.ops and not self.is_shared(op)
        return found and not self._varies_outside(op)

    def _bytes(self, names: Iterable[str]) -> int:
        """How many bytes these take in one trip."""
        return sum(known_bytes(self.folding.types[name]) for name in names)

    # ---- before ------------------------------------------------------------------------------

    def _able_before(self) -> dict[str, Op]:
        there = self.trips.known.union(*(op.binds() for op in self._early_ops()))
        given = {row.params[0] for row in self.view.rows if row.source in there}
        could, known = dict[str, Op](), (given & self._moving) | self._shared
        for op in self._ops:
            sums = not self.folding.totals.isdisjoint(op.binds())
            if self._may_leave(op) and self._own(op) <= known and not sums:
                could[op.name] = op
                known.update(op.binds())
        if self.case.mask not in there:
            self.waiting = [op for op in could.values() if is_costly(op)]
            return {}
        self.known = known
        return could

    def _early_ops(self) -> list[Op]:
        """The operators around the branch that need nothing of other trips."""
        found = able(self.trips)
        return [op for op in self.trips.body.ops if op.name in found]

    def _worth_it(self, could: dict[str, Op]) -> dict[str, Op]:
        """The costly ones, what they need, and what follows where it is no larger."""
        moved, needed = set[str](), set[str]()
        for op in reversed(could.values()):
            if is_costly(op) or not needed.isdisjoint(op.binds()):
                moved.add(op.name)
                needed.update(op.reads())
        made = bound_by(op for op in could.values() if op.name in moved)
        for op in could.values():
            read = self._own(op) - self._shared
            small = self._bytes(op.binds()) <= self._bytes(read)
            if read <= made and small and len([*op.binds()]) == 1:
                moved.add(op.name)
                made.update(op.binds())
        return {name: op for name, op in could.items() if name in moved}

    def _handed_on(self, moved: dict[str, Op]) -> list[Op]:
        """Those of which all that is read elsewhere is one a row."""
        grown, params, results = -1, set(self.body.params), set(self.body.results)
        while grown != len(moved):
            grown, made = len(moved), bound_by(moved.values()) | self._shared | params
            rest = (op for op in self._ops if op.name not in moved)
            elsewhere = {name for op in rest for name in op.reads()}
            for name, op in list(moved.items()):
                read, ends = elsewhere & {*op.binds()}, results & {*op.binds()}
                rows = all(map(self.folding.crosses, read))
                rows = rows and all(map(self.folding.is_row, ends))
                if not rows or not self._own(op) <= made:
                    del moved[name]
        return list(moved.values()) if any(map(is_costly, moved.values())) else []

    # ---- after -------------------------------------------------------------------------------

    def _late(self) -> set[str]:
        """The outputs of the branch that no later trip needs."""
        trips, sums = self.trips, Sums(self.trips, {out.name for out in self.view.sums})
        core = {memory.next for memory in trips.view.memories}
        core -= {found.memory.next for found in sums.of.values()}
        for op in reversed(trips.body.ops):
            if op.name in sums.links or op.name == self.view.origin.name:
                continue
            if not core.isdisjoint(op.binds()) or trips.stretched(op) is None:
                core.update(op.reads())
        rows = {out.name for out in self.view.outs} - core
        return rows | ({out.name for out in self.view.sums} & sums.added)

    def _able_after(self) -> dict[str, Op]:
        results = {out.name: out.results[0] for out in self.view.outputs}
        core = {result for name, result in results.items() if name not in self.late}
        could, early = dict[str, Op](), {op.name for op in self.before}
        for op in reversed(self._ops):
            if op.name in early or self.is_shared(op):
                continue
            if core.isdisjoint(op.binds()) and self._may_leave(op):
                could[op.name] = op
            else:
                core.update(op.reads())
        return dict(reversed(could.items()))

    def _chosen(self, could: dict[str, Op]) -> dict[str, Op]:
        """The costly ones, what follows, and what comes before where it needs nothing else."""
        moved, made = dict[str, Op](), set[str]()
        for name, op in could.items():
            sums = not self.folding.totals.isdisjoint(op.binds())
            if is_costly(op) or sums or not made.isdisjoint(op.reads()):
                moved[name] = op
                made.update(op.binds())
        there = bound_by(self.before) | self._shared | set(self.body.params)
        grown = -1
        while grown != len(moved):
            grown = len(moved)
            for name, op in reversed(could.items()):
                if name not in moved and self._joins(op, moved, there):
                    moved[name] = op
        return {name: op for name, op in could.items() if name in moved}

    def _joins(self, op: Op, moved: dict[str, Op], there: set[str]) -> bool:
        """Whether it moves with all that reads it, since that needs nothing further."""
        body, own = self.body, {*op.binds()}
        readers = [other.name for other in self._ops if not own.isdisjoint(other.reads())]
        if not readers or not moved.keys() >= {*readers} or not own.isdisjoint(body.results):
            return False
        there = there.union(*(other.reads() for other in moved.values()))
        further = self._own(op) - there
        moves = OPS.get(op.type).cheap and len(further) == 1
        return not further or (moves and self._bytes(further) <= self._bytes(own))

    def _closed(self, moved: dict[str, Op]) -> list[Op]:
        """Those that are handed nothing but what is one a row, and hand on nothing."""
        grown = -1
        while grown != len(moved):
            grown, made = len(moved), bound_by(moved.values()) | self._shared
            rest = (op for op in self._ops if op.name not in moved and not self.is_shared(op))
            elsewhere = {name for op in rest for name in op.reads()}
            for name, op in list(moved.items()):
                whole = elsewhere.isdisjoint(op.binds())
                if not whole or not all(map(self._is_handed, self._own(op) - made)):
                    del moved[name]
        totals = self.folding.totals
        pays = any(is_costly(op) or not totals.isdisjoint(op.binds()) for op in moved.values())
        return list(moved.values()) if pays else []

    def _is_handed(self, name: str) -> bool:
        """Whether what comes after the loop can get something row by row."""
        params = set(self.body.params) - self._moving
        return self.folding.crosses(name) and name not in params


def bound_by(ops: Iterable[Op]) -> set[str]:
    """All that some operators bind."""
    return {name for op in ops for name in op.binds()}
