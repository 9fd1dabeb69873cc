"""Notes about expensive operators that vectorization leaves in a loop, with their reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from braces.ir.records import Op
from braces.passes.batching.accumulators import Accumulators
from braces.passes.batching.carries import CarryDependence
from braces.passes.batching.iteration_space import IterationSpace, is_expensive
from braces.passes.core.dataflow import needed_values
from braces.passes.core.pipeline import is_collecting_notes, note


def note_recurrence(trips: IterationSpace, loop: Op) -> None:
    """Note the expensive operators of a recurrence: they read a carry, and a carry needs them.

    Args:
        trips: The loop.
        loop: Its operator.
    """
    if not is_collecting_notes():
        return
    ops, carried = trips.body.ops, CarryDependence.in_loop(trips.view)
    needed = needed_values(ops, Accumulators(trips).recurrent, lambda op: True)
    recurrent = (op for op in ops if carried.read_by(op) and not needed.isdisjoint(op.binds()))
    _note_ops(trips, loop, recurrent, carried)


def note_staying(trips: IterationSpace, loop: Op, movable: Collection[str]) -> None:
    """Note the expensive operators that can move to neither side of a loop.

    Args:
        trips: The loop.
        loop: Its operator.
        movable: Names of the operators that can move.
    """
    if not is_collecting_notes():
        return
    staying = (op for op in trips.body.ops if op.name not in movable)
    _note_ops(trips, loop, staying, CarryDependence.in_loop(trips.view))


def _note_ops(
    trips: IterationSpace, loop: Op, ops: Iterable[Op], carried: CarryDependence
) -> None:
    path = f"{trips.place.where(loop)}/body"
    for op in ops:
        if trips.varying(op) and is_expensive(op):
            reason = carried.reason(op) or _reason_without_carry(trips, op)
            note(f"{path}/{op.name}", f"not vectorized: {reason}", "missed")


def _reason_without_carry(trips: IterationSpace, op: Op) -> str:
    """Return the reason not to vectorize an operator that reads no carry."""
    if trips.batched_op(op) is None:
        return f"`{op.type}` has no batching rule for these operands"
    makers = (trips.producer_of.get(name) for name in op.reads())
    for maker in makers:
        if maker is not None and trips.varying(maker) and trips.batched_op(maker) is None:
            return f"reads `{maker.name}`, which is not vectorized"
    return "an operator of each iteration reads it"
