"""Memories of a loop that are sums: to which each trip adds, and that nothing else reads.

    body (t: i64[], g: f32[3,4], …) {
      e: f32[3,4] = outer(x=p, y=q)
      s: f32[3,4] = add(x=g, y=e)
      return s
    }

So the gradient of a weight grows in the gradient of its loop. What they add can be added for
all trips in one go, so it is never computed before the loop, and stacked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from braces.define.decorator import OPS
from braces.dtypes import TensorType, is_float
from braces.ir.records import Op
from braces.ir.views import Memory
from braces.passes.batching.trip_space import Trips


@dataclass(frozen=True)
class Link:
    """An operator that adds something to a sum.

    Attributes:
        op: The operator.
        slot: Its input that is the sum so far.
        before: The sum so far.
        after: The sum then.
    """

    op: Op
    slot: str
    before: str
    after: str

    @property
    def added(self) -> str | None:
        """What is added, where the operator does nothing but add it."""
        slots = OPS.get(self.op.type).adds_to
        others = [slot for slot in slots if slot != self.slot]
        return self.op.inputs[others[0]][0] if {*slots} == {*self.op.inputs} else None


@dataclass(frozen=True, eq=False)
class Sum:
    """A memory to which each trip adds, and that nothing else reads.

    Attributes:
        memory: The memory.
        links: What adds to it, in order.
    """

    memory: Memory
    links: tuple[Link, ...]


class Sums:
    """The memories of a loop to which all its trips can be added in one go.

    Attributes:
        trips: The loop.
        of: These memories, by the names of all operators that add to them.
        links: These operators, by their names.
        added: What they do nothing but add.
    """

    def __init__(self, trips: Trips, given: Collection[str] = ()) -> None:
        """Look for them.

        Args:
            trips: The loop.
            given: What will be given added up.
        """
        self.trips = trips
        self._given = given
        found = list(self._sums())
        self.of = {link.op.name: one for one in found for link in one.links}
        self.links = {link.op.name: link for one in found for link in one.links}
        self.added = {link.added for link in self.links.values() if link.added is not None}

    def _sums(self) -> Iterator[Sum]:
        readers, results = self.trips.readers, self.trips.body.results
        for memory in self.trips.view.memories:
            links = tuple(self._links(memory.param))
            if not links or links[-1].after != memory.next or memory.next in readers:
                continue
            if results.count(memory.next) == 1 and all(map(self._is_addable, links)):
                yield Sum(memory, links)

    def _links(self, total: str) -> Iterator[Link]:
        """What adds to a sum, one after the other, as long as nothing else reads it."""
        while (
            total not in self.trips.body.results and len(self.trips.readers.get(total, ())) == 1
        ):
            (op,) = self.trips.readers[total]
            slots = [s for s in OPS.get(op.type).adds_to if op.inputs[s] == (total,)]
            after = tuple(op.binds())
            if len(slots) != 1 or len(after) != 1 or [*op.reads()].count(total) != 1:
                return
            yield Link(op, slots[0], total, after[0])
            (total,) = after

    def _is_addable(self, found: Link) -> bool:
        """Whether what a sum adds can be added for all trips in one go."""
        added, trips = found.added, self.trips
        if added is None:
            return trips.stretched(found.op, found.before) is not None
        type_, total = trips.type_of(added), trips.type_of(found.before)
        if not (isinstance(type_, TensorType) and isinstance(total, TensorType)):
            return False
        if type_.shape != total.shape or not (is_float(type_.dtype) and is_float(total.dtype)):
            return False
        maker = trips.makers.get(added)
        if maker is None:
            return added in trips.known
        if trips.readers[added] != [found.op] or added in trips.body.results:
            return False
        if added in self._given:
            return True
        stretched = trips.stretched(maker)
        return stretched is not None and stretched.adds_up(added)
