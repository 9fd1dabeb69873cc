"""Compiled loops: `scan` for a known trip count, else a `while`.

The gradient of a loop with a data-dependent trip count pops the residuals of each iteration. It
also carries the popped value on: the value of a memory after an iteration is its value before
the next one.

    h_grad, rest, after = loop(init=[one, kept, end], count=n) {reverse=true}
        body (t, h_grad, list, h2) {
            h, list2 = list_pop(list)
            p_grad = tanh.vjp(out=h2, out_grad=h_grad)
            ...
            return ..., list2, h
        }

A pop does not erase the element: here `h2` is still stored above the top of `list`. A carry for
such a memory would cost a copy per iteration. So the `while` reads it from the list instead. In
the first iteration, before any pop, its value is the initial value of the memory.
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
WhileCarry: TypeAlias = "tuple[Value, Values, State]"
"""Carry of a while: number of completed iterations, memories, and run state."""


def lower_counted(lowering: Lowering, view: LoopView) -> dict[str, Value]:
    """Return the outputs of a loop with a known trip count, by name."""
    body, inits = view.body, tuple(lowering.read(memory.init) for memory in view.memories)
    sliced = tuple(lowering.read(slice_.source) for slice_ in view.slices)
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
    """Return the outputs of a loop with a data-dependent trip count, by name."""
    body, cond, limit = view.body, view.cond, view.max_trips
    count: Value = None if view.count is None else lowering.read(view.count).astype(INT64)
    memories = _Memories.of(lowering, view)

    def goes_on(carry: WhileCarry) -> tuple[Value, State]:
        trip, carried, state = carry
        if cond is not None:
            (wanted,), state = lowering.run("cond", cond, memories.at(trip, carried), state)
        else:
            wanted = trip < count
        return wanted & lowering.running(state), state

    def check(carry: WhileCarry) -> Value:
        wanted, _ = goes_on(carry)
        return wanted if limit is None else wanted & (carry[0] < limit)

    def step(carry: WhileCarry) -> WhileCarry:
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
    """The memories of a while, by position.

    Attributes:
        inits: Their initial values.
        popped: Memories popped in the previous iteration, each with the memory of its list.
    """

    inits: Values
    popped: dict[int, int]

    @classmethod
    def of(cls, lowering: Lowering, view: LoopView) -> _Memories:
        """Return the memories at entry to a loop."""
        return cls(
            tuple(lowering.read(memory.init) for memory in view.memories),
            _find_popped_memories(view),
        )

    def carried(self, values: Sequence[Value]) -> Values:
        """Return the values of the memories that the while carries."""
        return tuple(value for i, value in enumerate(values) if i not in self.popped)

    def at(self, trip: Value, carried: Values) -> list[Value]:
        """Return all memories before an iteration, from the carried ones."""
        positions = (i for i in range(len(self.inits)) if i not in self.popped)
        value_at = dict(zip(positions, carried, strict=True))
        for i, list_ in self.popped.items():
            value_at[i] = jnp.where(trip > 0, value_at[list_].popped, self.inits[i])
        return [value_at[i] for i in range(len(self.inits))]


def _find_popped_memories(view: LoopView) -> dict[int, int]:
    """Map memories whose next value is popped off a list to the memory of that list.

    The list must leave the iteration unchanged but for this one element.
    """
    position_of = {memory.param: (i, memory.next) for i, memory in enumerate(view.memories)}
    list_of = dict[str, int]()
    for op in view.content.ops:
        (list_,) = op.inputs["list"] if op.type == POP else ("",)
        if list_ in position_of and op.outputs["rest"] == (position_of[list_][1],):
            list_of |= dict.fromkeys(op.outputs["value"], position_of[list_][0])
    return {
        i: list_of[memory.next]
        for i, memory in enumerate(view.memories)
        if memory.next in list_of
    }
