"""The loop, compiled: a scan where the trips are known, else a while.

The gradient of a loop of unknown length pops what each trip kept, and carries it on: what a
memory was after a trip is what it was before the next one.

    h_grad, rest, after = loop(init=[one, kept, end], count=n) {reverse=true}
        body (t, h_grad, list, h2) {
            h, list2 = list_pop(list)
            p_grad = tanh.vjp(out=h2, out_grad=h_grad)
            ...
            return ..., list2, h
        }

What was popped is not erased: here `h2` still lies above the top of `list`. So a while carries
no such memory, which would be a copy each trip, but reads it where it is; in the first trip,
before anything was popped, it is what the memory began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from braces.dtypes import INT64
from braces.ir.views import LoopView
from braces.lazy import jnp
from braces.ops.control.core.block_op import Lowering, State, Value
from braces.ops.lists.stack import POP

Values: TypeAlias = "tuple[Value, ...]"
Trips: TypeAlias = "tuple[Value, Values, State]"
"""What a while carries: how many trips there were, memories, and the run's state."""


def lower_counted(lowering: Lowering, view: LoopView) -> dict[str, Value]:
    """The outputs of a loop whose trips are known, by name."""
    body, inits = view.body, tuple(lowering.read(memory.init) for memory in view.memories)
    sliced = tuple(lowering.read(one.source) for one in view.slices)
    length = sliced[0].shape[0] if sliced else _length(lowering, view)

    def step(
        carry: tuple[Values, State], slices: Values
    ) -> tuple[tuple[Values, State], Values]:
        memories, state = carry
        arguments = [slices[0], *memories, *slices[1:]]
        results, state = lowering.run("body", body, arguments, state)
        return (tuple(results[: len(inits)]), state), tuple(results[len(inits) :])

    (memories, state), rows = lowering.scan(
        step,
        (inits, lowering.state("body")),
        (jnp.arange(length, dtype=INT64), *sliced),
        length,
        view.reverse,
    )
    lowering.leave(state)
    return view.bound(memories, rows, jnp.asarray(length, INT64))


def _length(lowering: Lowering, view: LoopView) -> int:
    assert view.length is not None
    return lowering.size(view.length)


def lower_while(lowering: Lowering, view: LoopView) -> dict[str, Value]:
    """The outputs of a loop whose trips only the run knows, by name."""
    body, cond, limit = view.body, view.cond, view.max_trips
    count: Value = None if view.count is None else lowering.read(view.count).astype(INT64)
    memories = _Memories.of(lowering, view)

    def goes_on(carry: Trips) -> tuple[Value, State]:
        trip, carried, state = carry
        if cond is not None:
            (wanted,), state = lowering.run("cond", cond, memories.at(trip, carried), state)
        else:
            wanted = trip < count
        return wanted & lowering.running(state), state

    def check(carry: Trips) -> Value:
        wanted, _ = goes_on(carry)
        return wanted if limit is None else wanted & (carry[0] < limit)

    def step(carry: Trips) -> Trips:
        trip, carried, state = carry
        t = count - 1 - trip if view.reverse else trip
        results, state = lowering.run("body", body, [t, *memories.at(trip, carried)], state)
        return trip + 1, memories.carried(results), state

    start = (
        jnp.asarray(0, INT64),
        memories.carried(memories.inits),
        lowering.state("cond", "body"),
    )
    trips, carried, state = end = lowering.repeat(check, step, start, cond is not None)
    if limit is not None:
        state = lowering.flag(state, goes_on(end)[0])
    lowering.leave(state)
    return view.bound(memories.at(trips, carried), (), trips)


@dataclass(frozen=True)
class _Memories:
    """The memories of a while, by number.

    Attributes:
        inits: What they begin with.
        popped: Those that the trip before popped, each with the memory that is the list.
    """

    inits: Values
    popped: dict[int, int]

    @classmethod
    def of(cls, lowering: Lowering, view: LoopView) -> _Memories:
        """The memories as a loop begins."""
        return cls(tuple(lowering.read(one.init) for one in view.memories), _popped(view))

    def carried(self, values: Sequence[Value]) -> Values:
        """Those of all that the while carries."""
        return tuple(value for i, value in enumerate(values) if i not in self.popped)

    def at(self, trip: Value, carried: Values) -> list[Value]:
        """All memories as they are before a trip, from those that are carried."""
        there = (i for i in range(len(self.inits)) if i not in self.popped)
        found = dict(zip(there, carried, strict=True))
        for i, list_ in self.popped.items():
            found[i] = jnp.where(trip > 0, found[list_].popped, self.inits[i])
        return [found[i] for i in range(len(self.inits))]


def _popped(view: LoopView) -> dict[int, int]:
    """Memories whose next is what the body pops off another one, each with that other one.

    The list must leave the trip as it came but for this one value.
    """
    places = {one.param: (i, one.next) for i, one in enumerate(view.memories)}
    found = dict[str, int]()
    for op in view.content.ops:
        (list_,) = op.inputs["list"] if op.type == POP else ("",)
        if list_ in places and op.outputs["rest"] == (places[list_][1],):
            found |= dict.fromkeys(op.outputs["value"], places[list_][0])
    return {i: found[one.next] for i, one in enumerate(view.memories) if one.next in found}
