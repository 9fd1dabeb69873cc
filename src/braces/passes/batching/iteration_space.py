"""Iteration space: a loop with known trip count, and values for all its iterations at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Self, TypeAlias

from braces.builder.append import apply
from braces.builder.var import Var
from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import Type, bytes_of, known_bytes
from braces.ir.records import ARGUMENT, Body, Op
from braces.ir.views import LoopView, PartitionView, Slice, view_of
from braces.ir.walk import all_ops, producers
from braces.passes.batching.batching_rule import BatchedOp, apply_batching_rule, is_transpose
from braces.passes.batching.batching_rule_folded import FoldedOp, apply_folded_rule
from braces.passes.batching.batching_rule_rows import BatchedPartition, batch_partition
from braces.passes.cleanup.loop_invariant_code_motion import reason_not_hoisted
from braces.passes.core.context import exceeds_memory, format_total_bytes
from braces.passes.core.pipeline import note
from braces.passes.core.rewrite import InsertionPoint

AnyBatchedOp: TypeAlias = "BatchedOp | FoldedOp | BatchedPartition"
"""An operator for all iterations."""


class IterationSpace:
    """Iteration space of a loop; builds its operators for all iterations in front of it.

    Attributes:
        view: The loop.
        place: Insertion point of the loop.
        length: The trip count.
        body: The block of an iteration.
        values: Values outside for names of the body, with a leading iteration axis.
    """

    def __init__(self, view: LoopView, place: InsertionPoint, length: Size) -> None:
        self.view = view
        self.place = place
        self.length = length
        self.body: Body = view.body
        self.values = {scanned.param: place.var(scanned.source) for scanned in view.slices}
        self._outer_ops: tuple[Op, ...] = ()
        self._batched_ops: dict[tuple[str, str | None], AnyBatchedOp | None] = {}

    @classmethod
    def of(cls, view: LoopView, op: Op, place: InsertionPoint) -> Self | None:
        """Return the iteration space of a loop; `None`, with a note, if not vectorizable."""
        reason = reason_not_vectorizable(view)
        if reason is not None:
            note(place.where(op), f"not vectorized: {reason}", "missed")
            return None
        return cls.over(view, place)

    @classmethod
    def over(cls, view: LoopView, place: InsertionPoint) -> Self:
        """Return the iteration space of a vectorizable loop."""
        return cls(view, place, trip_count(view, place))

    def inside(self, body: Body) -> Self:
        """Return the same iterations of a block inside the body.

        Names that the block binds shadow those of the body.
        """
        space = type(self)(self.view, self.place, self.length)
        space.body = body.with_(vars={**self.body.vars, **body.vars})
        space.values = {n: x for n, x in self.values.items() if n not in body.vars}
        space._outer_ops = tuple(
            op
            for op in self.body.ops
            if self.fixed.issuperset(op.binds()) and body.vars.keys().isdisjoint(op.binds())
        )
        return space

    @property
    def available(self) -> set[str]:
        """Names available for all iterations: scanned and computed values, and the index."""
        return {*self.values, self.view.index}

    def type_of(self, name: str) -> Type:
        """Return the type of a variable visible in the body."""
        info = self.body.vars.get(name)
        return (info or self.place.info(name)).type

    @cached_property
    def producer_of(self) -> Mapping[str, Op]:
        """Producer of each name in the body."""
        return producers((*self._outer_ops, *self.body.ops))

    @cached_property
    def readers(self) -> dict[str, list[Op]]:
        """Consumers of each name in the body."""
        readers_by_name: dict[str, list[Op]] = {}
        for op in self.body.ops:
            for name in set(op.reads()):
                readers_by_name.setdefault(name, []).append(op)
        return readers_by_name

    def readers_of(self, op: Op) -> list[Op]:
        """Return the consumers of the outputs of an operator in the body."""
        return [reader for name in op.binds() for reader in self.readers.get(name, ())]

    @cached_property
    def fixed(self) -> set[str]:
        """Loop-invariant names that the body binds."""
        invariant_names = set[str]()
        for op in (*self._outer_ops, *self.body.ops):
            if any(self.varies(name, invariant_names) for name in op.reads()):
                continue
            if reason_not_hoisted(op, self.type_of) is None:
                invariant_names.update(op.binds())
        return invariant_names

    def varies(self, name: str, fixed: set[str] | None = None) -> bool:
        """Return whether a value may be loop-variant."""
        return name in self.body.vars and name not in (self.fixed if fixed is None else fixed)

    def varying(self, op: Op) -> set[str]:
        """Return the operands of an operator that may be loop-variant."""
        return {name for name in op.reads() if self.varies(name)}

    def batched_op(self, op: Op, total: str | None = None) -> AnyBatchedOp | None:
        """Return an operator for all iterations (memoized); `None` if no batching rule applies.

        Args:
            op: The operator.
            total: Its operand that is the partial sum of an accumulator, if any.
        """
        if (op.name, total) not in self._batched_ops:
            self._batched_ops[op.name, total] = self._batch_op(op, total)
        return self._batched_ops[op.name, total]

    def batched_transpose(self, name: str) -> BatchedOp | None:
        """Return the transpose that computes a value, for all iterations.

        `None` if no transpose computes it, or its operand is not available for all iterations.
        """
        maker = self.producer_of.get(name)
        if maker is None or not is_transpose(maker):
            return None
        batched_op = self.batched_op(maker) if self.values.keys() >= {*maker.reads()} else None
        return batched_op if isinstance(batched_op, BatchedOp) else None

    @cached_property
    def _in_partition(self) -> bool:
        """True inside a partitioned branch, whose batch axis must stay a separate axis."""
        place: InsertionPoint | None = self.place
        while place is not None:
            if place.owner is not None and isinstance(view_of(place.owner), PartitionView):
                return True
            place = place.outer
        return False

    def _batch_op(self, op: Op, total: str | None) -> AnyBatchedOp | None:
        varying = self.varying(op) - {total}
        if not varying:
            return None
        if isinstance(view_of(op), PartitionView):
            if self._in_partition:
                return None
            return batch_partition(self.place, op, self.type_of, varying, self.length)
        batched_op = apply_batching_rule(
            op, self.type_of, varying, self.length, total is not None
        )
        if batched_op is not None or total is not None or self._in_partition:
            return batched_op
        return apply_folded_rule(op, self.type_of, varying, self.length)

    def value(self, name: str) -> Var:
        """Return the value outside for a name; build loop-invariant values on demand."""
        if name == self.view.index and name not in self.values:
            self.values[name] = apply("arange", {}, {"stop": self.length})["out"][0]
        if name not in self.values and name in self.fixed:
            self._build(self.producer_of[name])
        return self.values[name] if name in self.values else self.place.var(name)

    def _build(self, op: Op) -> None:
        with self.place.program.at(op.source):
            inputs = {slot: [*map(self.value, names)] for slot, names in op.inputs.items()}
            results = apply(op.type, inputs, op.attrs, wanted=tuple(op.outputs))
        for slot, names in op.outputs.items():
            self.values.update(zip(names, results[slot], strict=True))

    def bytes_of(self, names: Iterable[str]) -> int:
        """Return the bytes of these values in one iteration; unknown sizes count as 1."""
        return sum(known_bytes(self.type_of(name)) for name in names)

    def sizes_of(self, names: Iterable[str]) -> list[Size]:
        """Return the bytes of each of these values in one iteration."""
        return [bytes_of(self.type_of(name)) for name in names]

    def added_bytes(self, moved: Iterable[Op], held: Iterable[str]) -> list[Size]:
        """Return the bytes per iteration that are live for several iterations at once.

        Args:
            moved: Operators computed for several iterations at once.
            held: Values that are newly held for several iterations.
        """
        bodies = (body for op in moved for body in op.bodies().values())
        inside = (info.type for body in bodies for info in body.vars.values())
        return [*self.sizes_of(held), *map(bytes_of, inside)]

    def move(self, op: Op, moved: Iterable[Op], held: Iterable[str], where: str) -> bool:
        """Note which operators leave the loop, or the reason; return whether they leave.

        Args:
            op: The loop.
            moved: The operators.
            held: Values that are newly held for all iterations.
            where: The destination: "before the loop" or "after the loop".
        """
        moved, place = list(moved), self.place.where(op)
        if not moved:
            note(place, f"no expensive operator can move {where}", "analysis")
            return False
        byte_sizes = self.added_bytes(moved, held)
        if exceeds_memory(byte_sizes, self.length):
            size = format_total_bytes(byte_sizes, self.length)
            note(place, f"not vectorized: all iterations at once would take {size}", "missed")
            return False
        names = ", ".join(f"`{moved_op.name}`" for moved_op in moved)
        note(place, f"vectorized {where}: {names}")
        return True

    def as_slices(self, names: Iterable[str]) -> list[Slice]:
        """Return values for all iterations as scanned inputs of the loop."""
        return [Slice(self.values[name].name, name) for name in names]


def is_expensive(op: Op) -> bool:
    """Return whether an operator, or one inside it, is expensive: FLOPs far exceed data."""
    inner = (inner_op for body in op.bodies().values() for _, inner_op in all_ops(body))
    return any(OPS.get(inner_op.type).costly for inner_op in (op, *inner))


def reason_not_vectorizable(view: LoopView) -> str | None:
    """Return the reason why a loop is not vectorizable; `None` if it is."""
    if not view.counted:
        return "iteration count is unknown"
    if view.max_trips is not None:
        return "iteration count is limited (`max_trips`)"
    if view.recompute:
        return "the gradient recomputes its iterations"
    return None


def trip_count(view: LoopView, place: InsertionPoint) -> Size:
    """Return the trip count of a counted loop."""
    if view.length is not None:
        return view.length
    return place.var(view.slices[0].source).shape[0]


def remove_ops(body: Body, ops: Iterable[Op], params: Iterable[str] = ()) -> Body:
    """Return a block without some operators; their outputs are removed or become parameters."""
    removed_ids, new_params = {id(op) for op in ops}, dict.fromkeys(params)
    ends = {n for op in body.ops if id(op) in removed_ids for n in op.binds()}
    infos = {
        name: info.with_(kind=ARGUMENT) if name in new_params else info
        for name, info in body.vars.items()
        if name in new_params or name not in ends
    }
    return body.with_(ops=tuple(op for op in body.ops if id(op) not in removed_ids), vars=infos)
