"""A loop whose number of trips is known, and what is computed for all its trips at once."""

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
from braces.passes.batching.batching_rule import Stretched, stretched, turns_axes
from braces.passes.batching.batching_rule_folded import StretchedFirst, stretched_first
from braces.passes.batching.batching_rule_rows import StretchedRows, stretched_rows
from braces.passes.cleanup.loop_invariant_code_motion import kept_for
from braces.passes.core.context import gibibytes, too_many
from braces.passes.core.pipeline import note
from braces.passes.core.rewrite import Place

ForTrips: TypeAlias = "Stretched | StretchedFirst | StretchedRows"
"""How an operator is written for all trips."""


class Trips:
    """A loop of so many trips, at its place; builds what its body computes in front of it.

    Attributes:
        view: The loop.
        place: Where it stands.
        length: How many trips it makes.
        body: The block of a trip.
        values: What stands for names of the body outside, with a first axis of trips.
    """

    def __init__(self, view: LoopView, place: Place, length: Size) -> None:
        self.view = view
        self.place = place
        self.length = length
        self.body: Body = view.body
        self.values = {one.param: place.var(one.source) for one in view.slices}
        self._around: tuple[Op, ...] = ()
        self._stretched: dict[tuple[str, str | None], ForTrips | None] = {}

    @classmethod
    def of(cls, view: LoopView, op: Op, place: Place) -> Self | None:
        """The trips of a loop; `None` where they cannot be taken together, which is noted."""
        reason = apart(view)
        if reason is not None:
            note(place.where(op), f"computes all in each trip: {reason}")
            return None
        return cls.over(view, place)

    @classmethod
    def over(cls, view: LoopView, place: Place) -> Self:
        """The trips of a loop that can be taken together."""
        return cls(view, place, length_of(view, place))

    def inside(self, body: Body) -> Self:
        """The same trips, each of which runs a block that stands in theirs.

        What the one binds hides what the other does by that name.
        """
        found = type(self)(self.view, self.place, self.length)
        found.body = body.with_(vars={**self.body.vars, **body.vars})
        found.values = {n: x for n, x in self.values.items() if n not in body.vars}
        found._around = tuple(
            op
            for op in self.body.ops
            if self.fixed.issuperset(op.binds()) and body.vars.keys().isdisjoint(op.binds())
        )
        return found

    @property
    def known(self) -> set[str]:
        """What is there for all trips: that, and which trip it is."""
        return {*self.values, self.view.index}

    def type_of(self, name: str) -> Type:
        """The type of what the body sees."""
        info = self.body.vars.get(name)
        return (info or self.place.info(name)).type

    @cached_property
    def makers(self) -> Mapping[str, Op]:
        """The operator that binds a name, in the body."""
        return producers((*self._around, *self.body.ops))

    @cached_property
    def readers(self) -> dict[str, list[Op]]:
        """The operators that read a name, in the body."""
        found: dict[str, list[Op]] = {}
        for op in self.body.ops:
            for name in set(op.reads()):
                found.setdefault(name, []).append(op)
        return found

    def reading(self, op: Op) -> list[Op]:
        """The operators that read what an operator binds, in the body."""
        return [reader for name in op.binds() for reader in self.readers.get(name, ())]

    @cached_property
    def fixed(self) -> set[str]:
        """What the body binds that is the same on each trip."""
        found = set[str]()
        for op in (*self._around, *self.body.ops):
            if any(self.varies(name, found) for name in op.reads()):
                continue
            if kept_for(op, self.type_of) is None:
                found.update(op.binds())
        return found

    def varies(self, name: str, fixed: set[str] | None = None) -> bool:
        """Whether something may be another on each trip."""
        return name in self.body.vars and name not in (self.fixed if fixed is None else fixed)

    def varying(self, op: Op) -> set[str]:
        """What an operator reads that may be another on each trip."""
        return {name for name in op.reads() if self.varies(name)}

    def stretched(self, op: Op, total: str | None = None) -> ForTrips | None:
        """How an operator is written for all trips; `None` where nothing tells.

        Args:
            op: The operator.
            total: What it reads to which all trips are added.
        """
        if (op.name, total) not in self._stretched:
            self._stretched[op.name, total] = self._found(op, total)
        return self._stretched[op.name, total]

    def turned(self, name: str) -> Stretched | None:
        """How what put the axes of something in another order is written for all trips.

        `None` where nothing did, or what it was before is not there for all trips.
        """
        maker = self.makers.get(name)
        if maker is None or not turns_axes(maker):
            return None
        found = self.stretched(maker) if self.values.keys() >= {*maker.reads()} else None
        return found if isinstance(found, Stretched) else None

    @cached_property
    def _in_rows(self) -> bool:
        """Whether the loop is in a row-wise branch, whose rows stay an axis of their own."""
        place: Place | None = self.place
        while place is not None:
            if place.owner is not None and isinstance(view_of(place.owner), PartitionView):
                return True
            place = place.outer
        return False

    def _found(self, op: Op, total: str | None) -> ForTrips | None:
        varying = self.varying(op) - {total}
        if not varying:
            return None
        if isinstance(view_of(op), PartitionView):
            if self._in_rows:
                return None
            return stretched_rows(self.place, op, self.type_of, varying, self.length)
        found = stretched(op, self.type_of, varying, self.length, total is not None)
        if found is not None or total is not None or self._in_rows:
            return found
        return stretched_first(op, self.type_of, varying, self.length)

    def value(self, name: str) -> Var:
        """What stands for something of the body; what is fixed is built when asked for."""
        if name == self.view.index and name not in self.values:
            self.values[name] = apply("arange", {}, {"stop": self.length})["out"][0]
        if name not in self.values and name in self.fixed:
            self._build(self.makers[name])
        return self.values[name] if name in self.values else self.place.var(name)

    def _build(self, op: Op) -> None:
        with self.place.program.at(op.source):
            inputs = {slot: [*map(self.value, names)] for slot, names in op.inputs.items()}
            made = apply(op.type, inputs, op.attrs, wanted=tuple(op.outputs))
        for slot, names in op.outputs.items():
            self.values.update(zip(names, made[slot], strict=True))

    def bytes_of(self, names: Iterable[str]) -> int:
        """How many bytes these take in one trip; sizes that are not known count as 1."""
        return sum(known_bytes(self.type_of(name)) for name in names)

    def sizes_of(self, names: Iterable[str]) -> list[Size]:
        """The bytes of each of these in one trip."""
        return [bytes_of(self.type_of(name)) for name in names]

    def taken(self, moved: Iterable[Op], made: Iterable[str]) -> list[Size]:
        """The bytes that there are then for each trip at the same time.

        Args:
            moved: What is computed for several trips at once.
            made: What there is for several trips then and was not before.
        """
        bodies = (body for one in moved for body in one.bodies().values())
        inside = (info.type for body in bodies for info in body.vars.values())
        return [*self.sizes_of(made), *map(bytes_of, inside)]

    def move(self, op: Op, moved: Iterable[Op], made: Iterable[str], where: str) -> bool:
        """Say that operators leave the loop, or why none does; whether they leave.

        Args:
            op: The loop.
            moved: The operators.
            made: What there is for all trips then and was not before.
            where: Where they go.
        """
        moved, place = list(moved), self.place.where(op)
        if not moved:
            note(place, f"computes all in each trip: nothing costly can be done {where}")
            return False
        taken = self.taken(moved, made)
        if too_many(taken, self.length):
            size = gibibytes(taken, self.length)
            note(place, f"computes all in each trip: for all at once that would take {size}")
            return False
        names = ", ".join(f"`{one.name}`" for one in moved)
        note(place, f"computes {names} for all trips, {where}")
        return True

    def cut(self, names: Iterable[str]) -> list[Slice]:
        """What was computed for all trips, as slices of the loop."""
        return [Slice(self.values[name].name, name) for name in names]


def is_costly(op: Op) -> bool:
    """Whether there is much more to compute than numbers to keep, in an operator or in it."""
    inner = (one for body in op.bodies().values() for _, one in all_ops(body))
    return any(OPS.get(one.type).costly for one in (op, *inner))


def apart(view: LoopView) -> str | None:
    """Why the trips of a loop cannot be taken together."""
    if not view.counted:
        return "how many trips it makes is known when it runs"
    if view.max_trips is not None:
        return "its trips are limited"
    if view.recompute:
        return "its trips run again so that nothing of them is kept"
    return None


def length_of(view: LoopView, place: Place) -> Size:
    """How many trips a loop makes that is counted."""
    if view.length is not None:
        return view.length
    return place.var(view.slices[0].source).shape[0]


def without(body: Body, ops: Iterable[Op], params: Iterable[str] = ()) -> Body:
    """A block without some operators; what they bound is gone, or is now a parameter."""
    gone, kept = {id(op) for op in ops}, dict.fromkeys(params)
    ends = {n for op in body.ops if id(op) in gone for n in op.binds()}
    infos = {
        name: info.with_(kind=ARGUMENT) if name in kept else info
        for name, info in body.vars.items()
        if name in kept or name not in ends
    }
    return body.with_(ops=tuple(op for op in body.ops if id(op) not in gone), vars=infos)
