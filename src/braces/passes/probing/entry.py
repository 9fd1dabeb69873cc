"""Entry of values into nested blocks: the inverse of an exposure.

    data v: f32[t,b,8]                        data v: f32[t,b,8]
    … = loop(sliced=x)                        … = loop(sliced=[x, v])
      body (t, r: f32[b,8]) {           ->      body (t, r: f32[b,8], v.step: f32[b,8]) {
        … = partition(masks=[no, yes], …)         … = partition(masks=[…], rows=[…, v.step])

| construct around | entry |
|---|---|
| counted loop | one more scanned input, if the value has an axis of iterations |
| data-dependent loop | the entry of the index, if the value has an axis of iterations |
| row-wise branch | one more operand, if the value has the batch axis; also if loops follow |
| switch, plain block | a capture |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from braces.builder.append import emit
from braces.dims import Dim, Size
from braces.dtypes import INT64, TensorType
from braces.ir.places import Place
from braces.ir.records import ARGUMENT, Op, VarInfo
from braces.ir.views import LoopView, Operand, PartitionView, Slice, View, view_of
from braces.passes.core.rewrite import InsertionPoint
from braces.passes.probing.branch_exit import move_axis


@dataclass(frozen=True)
class EntryStep:
    """One construct that a value enters.

    Attributes:
        view: The construct.
        outer: The block of the construct.
        label: The label of the block that the value enters.
        rows: The axis that a row-wise branch splits; `None` if the value has no batch axis.
        trips: The size of the axis of the iterations of a loop; `None` if there is none.
    """

    view: View
    outer: Place
    label: str
    rows: int | None = None
    trips: Size | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Path of the block and name of the construct."""
        return self.outer.path, self.view.origin.name

    @property
    def counted(self) -> bool:
        """True if the construct is a loop with a trip count that is known beforehand."""
        return isinstance(self.view, LoopView) and self.view.counted


def constructs(block: Place) -> list[EntryStep]:
    """Return the constructs around a block, outermost first."""
    steps = list[EntryStep]()
    for outer, owner, label in block.around():
        view = view_of(owner)
        assert view is not None
        steps.append(EntryStep(view, outer, label))
    return steps[::-1]


def route(
    steps: Sequence[EntryStep], shape: tuple[Size, ...], *, stacked: bool, batched: bool
) -> tuple[tuple[Size, ...], list[EntryStep]]:
    """Return the shape of a value in the main block, and its way into a block.

    Args:
        steps: The constructs around the block.
        shape: The shape of the value in the block.
        stacked: Whether it has one entry per iteration, for all loops.
        batched: Whether axis 0 of the value is axis 0 of the variable that it replaces.
    """
    way, loops = list[EntryStep](), 0
    for step in reversed(steps):
        view = step.view
        if stacked and isinstance(view, LoopView):
            trips = trip_count(view, step.outer)
            step = replace(step, trips=trips)
            shape, loops = (trips, *shape), loops + 1
        elif isinstance(view, PartitionView) and batched and len(shape) > loops:
            case = view.cases[list(view.origin.bodies()).index(step.label)]
            if shape[loops] == case.count:
                rows = shape_at(step.outer, case.mask)[0]
                shape = (*shape[:loops], rows, *shape[loops + 1 :])
                step = replace(step, rows=loops)
        way.insert(0, step)
    return shape, way


def shape_at(block: Place, name: str) -> tuple[Size, ...]:
    """Return the shape of a visible array."""
    binder = block.binder(name)
    assert binder is not None
    type_ = binder.body.vars[name].type
    assert isinstance(type_, TensorType)
    return type_.shape


def trip_count(loop: LoopView, block: Place) -> Size:
    """Return the trip count; a name of its own if it is data-dependent."""
    if not loop.counted:
        return Dim.named(f"{loop.origin.name}.patched".replace("/", "."))
    if loop.length is not None:
        return loop.length
    return shape_at(block, loop.slices[0].source)[0]


@dataclass(frozen=True)
class Addition:
    """A scanned input or an operand that a construct receives.

    Attributes:
        source: The variable outside.
        params: The declarations inside, one for each block.
    """

    source: str
    params: tuple[VarInfo, ...]


@dataclass
class Entry:
    """A value on its way into a block.

    Attributes:
        steps: The constructs that it enters, outermost first.
        additions: The additions of the constructs, by their keys.
        limits: The bodies of data-dependent loops, with the sizes of their axes.
    """

    steps: Sequence[EntryStep]
    additions: dict[tuple[str, str], Addition] = field(
        default_factory=dict["tuple[str, str]", Addition]
    )
    limits: list[tuple[InsertionPoint, str, Size]] = field(
        default_factory=list["tuple[InsertionPoint, str, Size]"]
    )

    def enter(self, name: str, points: Sequence[InsertionPoint]) -> str:
        """Return the variable in the innermost block.

        Args:
            name: The variable in the main block.
            points: The blocks, from the main block to the innermost one.
        """
        for step, outer, inner in zip(self.steps, points, points[1:], strict=False):
            view = step.view
            if isinstance(view, PartitionView) and step.rows is not None:
                name = self._split(step, view, name, outer, inner)
            elif isinstance(view, LoopView) and step.trips is not None:
                enter = self._slice if view.counted else self._index
                name = enter(step, view, name, outer, inner)
        return name

    def extended(self, op: Op, key: tuple[str, str]) -> Op:
        """Return a construct with the scanned input or operand that it receives."""
        addition = self.additions.get(key)
        if addition is None:
            return op
        view, names = view_of(op), tuple(info.name for info in addition.params)
        if isinstance(view, LoopView):
            slices = (*view.slices, Slice(addition.source, names[0]))
            return replace(view, slices=slices).to_op()
        assert isinstance(view, PartitionView)
        contents = [
            case.content.with_(vars={**case.content.vars, info.name: info})
            for case, info in zip(view.cases, addition.params, strict=True)
        ]
        rows = (*view.rows, Operand(addition.source, names))
        return replace(view.containing(contents), rows=rows).to_op()

    def _slice(
        self,
        step: EntryStep,
        view: LoopView,
        name: str,
        outer: InsertionPoint,
        inner: InsertionPoint,
    ) -> str:
        type_ = array_type(outer, name)
        part = TensorType(type_.dtype, type_.shape[1:])
        return self._argument(step, name, inner, [part], 0)

    def _index(
        self,
        step: EntryStep,
        view: LoopView,
        name: str,
        outer: InsertionPoint,
        inner: InsertionPoint,
    ) -> str:
        """Take the entry of the index; the last one for later iterations."""
        assert step.trips is not None
        self.limits.append((inner, view.index, step.trips))
        with inner.building():
            last = emit("size", value=step.trips, dtype=INT64) - 1
            index = emit("minimum", inner.var(view.index), last)
            return emit("take", inner.var(name), index, axis=0).name

    def _split(
        self,
        step: EntryStep,
        view: PartitionView,
        name: str,
        outer: InsertionPoint,
        inner: InsertionPoint,
    ) -> str:
        """Pass the batch elements of the case; their axis is in front meanwhile."""
        axis, case = step.rows or 0, list(view.origin.bodies()).index(step.label)
        if axis:
            with outer.building():
                name = move_axis(outer.var(name), axis, 0).name
        dtype, (_, *rest) = (type_ := array_type(outer, name)).dtype, type_.shape
        parts = [TensorType(dtype, (part.count, *rest)) for part in view.cases]
        name = self._argument(step, name, inner, parts, case)
        if axis:
            with inner.building():
                name = move_axis(inner.var(name), 0, axis).name
        return name

    def _argument(
        self,
        step: EntryStep,
        source: str,
        inner: InsertionPoint,
        types: Sequence[TensorType],
        block: int,
    ) -> str:
        """Declare a parameter of each block; return the one of a block."""
        unique = inner.table.names.unique
        params = tuple(VarInfo(unique(f"{source}.in"), type_, ARGUMENT) for type_ in types)
        self.additions[step.key] = Addition(source, params)
        inner.table.vars[params[block].name] = params[block]
        return params[block].name


def array_type(point: InsertionPoint, name: str) -> TensorType:
    """Return the type of a visible array."""
    type_ = point.info(name).type
    assert isinstance(type_, TensorType)
    return type_
