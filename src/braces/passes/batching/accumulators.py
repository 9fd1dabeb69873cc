"""Accumulators: memories (carries) that each iteration adds to and nothing else reads.

    body (t: i64[], g: f32[3,4], …) {
      e: f32[3,4] = outer(x=p, y=q)
      s: f32[3,4] = add(x=g, y=e)
      return s
    }

The gradient loop accumulates weight gradients like this. The addends can be summed over all
iterations in one operator, so they are never computed before the loop and stacked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from braces.define.decorator import OPS
from braces.dtypes import TensorType, is_float
from braces.ir.records import Op
from braces.ir.views import MemoryView
from braces.passes.batching.iteration_space import IterationSpace


@dataclass(frozen=True)
class Accumulation:
    """Accumulation: an operator that adds to an accumulator.

    Attributes:
        op: The operator.
        slot: Its input that holds the partial sum.
        before: The partial sum before it.
        after: The partial sum after it.
    """

    op: Op
    slot: str
    before: str
    after: str

    @property
    def added(self) -> str | None:
        """The addend, if the operator is a plain addition; else `None`."""
        slots = OPS.get(self.op.type).adds_to
        others = [slot for slot in slots if slot != self.slot]
        return self.op.inputs[others[0]][0] if {*slots} == {*self.op.inputs} else None


@dataclass(frozen=True, eq=False)
class Accumulator:
    """Accumulator: a memory that each iteration adds to and nothing else reads.

    Attributes:
        memory: The memory.
        links: The operators that add to it, in order.
    """

    memory: MemoryView
    links: tuple[Accumulation, ...]


class Accumulators:
    """Accumulators of a loop whose sum over all iterations is one operator.

    Attributes:
        trips: The loop.
        of: The accumulators, by the names of all operators that add to them.
        links: These operators, by their names.
        added: The addends of plain additions.
        recurrent: The next values of all other memories.
    """

    def __init__(self, trips: IterationSpace, summed: Collection[str] = ()) -> None:
        """Find the accumulators.

        Args:
            trips: The loop.
            summed: Values that will be available as sums over all iterations.
        """
        self.trips = trips
        self._summed = summed
        accumulators = list(self._find_accumulators())
        self.of = {
            link.op.name: accumulator
            for accumulator in accumulators
            for link in accumulator.links
        }
        self.links = {
            link.op.name: link for accumulator in accumulators for link in accumulator.links
        }
        self.added = {link.added for link in self.links.values() if link.added is not None}
        self.recurrent = {memory.next for memory in trips.view.memories}
        self.recurrent -= {accumulator.memory.next for accumulator in accumulators}

    def _find_accumulators(self) -> Iterator[Accumulator]:
        readers, results = self.trips.readers, self.trips.body.results
        for memory in self.trips.view.memories:
            links = tuple(self._links(memory.param))
            if not links or links[-1].after != memory.next or memory.next in readers:
                continue
            if results.count(memory.next) == 1 and all(map(self._is_summable, links)):
                yield Accumulator(memory, links)

    def _links(self, total: str) -> Iterator[Accumulation]:
        """Yield the chain of operators that add to a sum, up to the first other reader."""
        while (
            total not in self.trips.body.results and len(self.trips.readers.get(total, ())) == 1
        ):
            (op,) = self.trips.readers[total]
            slots = [s for s in OPS.get(op.type).adds_to if op.inputs[s] == (total,)]
            after = tuple(op.binds())
            if len(slots) != 1 or len(after) != 1 or [*op.reads()].count(total) != 1:
                return
            yield Accumulation(op, slots[0], total, after[0])
            (total,) = after

    def _is_summable(self, link: Accumulation) -> bool:
        """Return whether the addends of all iterations can be summed by one operator."""
        added, trips = link.added, self.trips
        if added is None:
            return trips.batched_op(link.op, link.before) is not None
        type_, total = trips.type_of(added), trips.type_of(link.before)
        if not (isinstance(type_, TensorType) and isinstance(total, TensorType)):
            return False
        if type_.shape != total.shape or not (is_float(type_.dtype) and is_float(total.dtype)):
            return False
        maker = trips.producer_of.get(added)
        if maker is None:
            return added in trips.available
        if trips.readers[added] != [link.op] or added in trips.body.results:
            return False
        if added in self._summed:
            return True
        batched_op = trips.batched_op(maker)
        return batched_op is not None and batched_op.can_sum(added)
