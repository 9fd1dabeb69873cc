"""Operators that own blocks: loops, branches, rows, and plain blocks.

loop        Loop, or Scan where the number of trips is written in the program
switch      If, one in the other
partition   for each case: NonZero, Gather, the block, ScatterND, in an If that asks whether
            the case has any rows
block       a function of the model (functions.py), and a node that calls it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from braces.dims import Dim, Size
from braces.dtypes import INT64, ListType, TensorType, Type
from braces.exchange.onnx.writer.constructs.functions import Found, Write, function, learned
from braces.exchange.onnx.writer.graph import dtype_widening as widths, loop_if as loops
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.exchange.onnx.writer.graph.loop_if import Trip
from braces.exchange.onnx.writer.graph.node import Node
from braces.exchange.onnx.writer.primitives.shape import filled, unsqueezed
from braces.ir.views import LoopView, PartitionView, SwitchView
from braces.ir.views.partition import Case

SIZE = TensorType(INT64, (1,))

# ---- branches --------------------------------------------------------------------------------


def switch(n: Node, write: Write) -> Found:
    """One of several blocks; an index that names none takes the last.

    Sizes that a case tells, as that of rows of a while, leave it with its results: elsewhere
    there may be what has the same size. In the other cases they are 0. Where a result has an
    axis of that size, that tells it.
    """
    view = SwitchView.of(n.op)
    shown = {size for type_ in n.types if isinstance(type_, TensorType) for size in type_.shape}
    every = [name for body in view.cases for name in learned(body)]
    told = [name for name in every if Dim.named(name) not in shown]
    types = [*n.types, *[SIZE] * len(told)]
    index, dtype = n.g.name(view.index), _array(n.g, view.index).dtype
    cases = view.cases

    def run(number: int, g: Graph) -> Sequence[str]:
        others = set(every).difference(learned(cases[number]))
        g.told.update((name, (g.integers(0), -1)) for name in others)
        results = write(g, cases[number], ())
        return [*results, *(g.size(Dim.named(name)) for name in told)]

    def chosen(number: int, g: Graph) -> Sequence[str]:
        if number == len(cases) - 1:
            return run(number, g)
        here = widths.asked(g, "Equal", index, g.constant(number, dtype), dtype=dtype)
        label = f"{n.label}.{number}"
        rest = partial(chosen, number + 1)
        return loops.branch(g, label, here, partial(run, number), rest, types)

    found = chosen(0, n.g.beside(n.label))
    results = len(n.types)
    n.g.told.update(
        (name, (size, -1)) for name, size in zip(told, found[results:], strict=True)
    )
    return view.bound(found[:results])


def _array(g: Graph, name: str) -> TensorType:
    found = g.type(name)
    assert isinstance(found, TensorType)
    return found


# ---- rows ------------------------------------------------------------------------------------


def partition(n: Node, write: Write) -> Found:
    """Each case on its own rows; one without rows does not run, as its rows may be none."""
    view, g = PartitionView.of(n.op), n.g
    found = [filled(g, 0, type_) for type_ in map(n.result, range(len(n.types)))]
    for number, case in enumerate(view.cases):
        mask = g.name(case.mask)
        own = g.cast(mask, INT64)
        count = g.op("ReduceSum", own, keepdims=0)
        some = g.op("Greater", count, g.constant(0, INT64))
        run = _Case(n, view, number, case, mask, own, write)
        before = tuple(found)
        label = f"{n.label}.{number}"
        found = loops.branch(
            g, label, some, partial(run.on_rows, before), partial(_unchanged, before), n.types
        )
    return view.bound(found)


def _unchanged(before: Sequence[str], g: Graph) -> Sequence[str]:
    del g
    return before


class _Case:
    """One case of a row-wise branch, which has rows."""

    def __init__(
        self, n: Node, view: PartitionView, number: int, case: Case, mask: str, own: str,
        write: Write,
    ) -> None:  # fmt: skip
        self._n, self._view, self._number, self._case = n, view, number, case
        self._mask, self._own, self._write = mask, own, write

    def on_rows(self, before: Sequence[str], g: Graph) -> list[str]:
        """Run it, and put what it gives to what other cases gave.

        A row that is not its own is stood in for by the first one that is.
        """
        if self._view.compact:
            places = g.op("Squeeze", g.op("NonZero", self._mask), g.integers(0))
            given = [g.op("Gather", self._mask, places)]
        else:
            places = g.op("ArgMax", self._own, axis=0, keepdims=1)
            given = [self._mask]
        for row in self._view.rows:
            source = g.name(row.source)
            given.append(self._taken(g, source, row.source, row.linear, places))
        results = self._write(g, self._view.bodies[self._number], given)
        outs = len(self._view.outs)
        return [
            self._put(g, one, value, places, i)
            if i < outs
            else widths.same(g, "Add", one, value, dtype=self._n.result(i).dtype)
            for i, (one, value) in enumerate(zip(before, results, strict=True))
        ]

    def _taken(self, g: Graph, source: str, name: str, linear: bool, places: str) -> str:
        if self._view.compact:
            return g.op("Gather", source, places)
        type_ = _array(g, name)
        if linear:
            zero = g.constant(0, type_.dtype)
            return widths.chosen(g, self._mask_of(g, type_), source, zero, type_.dtype)
        every = g.op(
            "Range", g.constant(0, INT64), g.number(type_.shape[0]), g.constant(1, INT64)
        )
        return g.op("Gather", source, g.op("Where", self._mask, every, places))

    def _mask_of(self, g: Graph, type_: TensorType) -> str:
        return unsqueezed(g, self._mask, range(1, type_.rank))

    def _put(self, g: Graph, before: str, value: str, places: str, position: int) -> str:
        if self._view.compact:
            return g.op("ScatterND", before, unsqueezed(g, places, [1]), value)
        type_ = self._n.result(position)
        return widths.chosen(g, self._mask_of(g, type_), value, before, type_.dtype)


# ---- loops -----------------------------------------------------------------------------------


def loop(n: Node, write: Write) -> Found:
    """A loop, whatever ends it."""
    view = LoopView.of(n.op)
    if not view.counted:
        return _while(n, view, write)
    lists = (isinstance(type_, ListType) for type_ in _memories(view))
    length = _length(n, view)
    if isinstance(length, int) and length and not any(lists):
        return _scan(n, view, length, write)
    return _counted(n, view, write)


def _memories(view: LoopView) -> list[Type]:
    return [view.content.vars[memory.param].type for memory in view.memories]


def _rows(n: Node, view: LoopView) -> list[TensorType]:
    """What a trip gives to each of the rows."""
    found = map(n.result, range(len(view.memories), len(view.memories) + len(view.rows)))
    return [type_.with_shape(type_.shape[1:]) for type_ in found]


def _length(n: Node, view: LoopView) -> Size:
    if view.slices:
        return _array(n.g, view.slices[0].source).shape[0]
    assert view.length is not None
    return view.length


def _scan(n: Node, view: LoopView, length: int, write: Write) -> Found:
    """So many trips, one at least; the index is one more thing that is cut."""
    g = n.g
    count = g.constant(length, INT64)
    index = g.op("Range", g.constant(0, INT64), count, g.constant(1, INT64))
    inner = g.inside(n.label)
    order = [*(m.param for m in view.memories), view.index, *(s.param for s in view.slices)]
    names = {param: inner.fresh(param) for param in order}
    types = {param: view.content.vars[param].type for param in order}
    results = write(inner, view.body, [names[param] for param in view.body.params])
    ends = [inner.op("Identity", result) for result in results]
    outputs = zip(ends, (*_memories(view), *_rows(n, view)), strict=True)
    body = inner.proto(
        (loops.declared(names[param], types[param]) for param in order),
        (loops.declared(*one) for one in outputs),
    )
    cut, rows, back = len(view.slices) + 1, len(view.rows), int(view.reverse)
    found = g.several(
        "Scan",
        *(g.name(memory.init) for memory in view.memories),
        index,
        *(g.name(slice_.source) for slice_ in view.slices),
        count=len(results),
        body=body,
        num_scan_inputs=cut,
        scan_input_directions=[back] * cut,
        scan_output_directions=[back] * rows or None,
    )
    finals = len(view.memories)
    return view.bound(found[:finals], found[finals:], count)


def _counted(n: Node, view: LoopView, write: Write) -> Found:
    """As many trips as an axis is long, maybe none."""
    g, rows = n.g, _rows(n, view)
    length = _length(n, view)
    count = g.number(length)
    sources = [g.name(slice_.source) for slice_ in view.slices]

    def step(inner: Graph, index: str, carried: list[str]) -> Trip:
        place = loops.last_first(inner, count, index) if view.reverse else index
        pieces = [loops.at(inner, source, place) for source in sources]
        made = write(inner, view.body, [place, *carried, *pieces])
        return Trip(made[: len(carried)], made[len(carried) :])

    inits = [g.name(memory.init) for memory in view.memories]
    made = loops.loop(g, n.label, inits, _memories(view), step, count=count, rows=rows)
    stacked = zip(made.rows, rows, strict=True)
    return view.bound(
        made.carried,
        [loops.collected(g, name, length, row, view.reverse) for name, row in stacked],
        count,
    )


def _while(n: Node, view: LoopView, write: Write) -> Found:
    """As many trips as values tell; it counts them."""
    g, cond = n.g, view.cond
    limit, goes_on = "", ""
    if view.count is not None:
        limit = widths.moved(g, g.name(view.count), _array(g, view.count).dtype, INT64)
    elif view.max_trips is not None:
        limit = g.constant(view.max_trips, INT64)
    inits = [g.name(memory.init) for memory in view.memories]
    if cond is not None:
        (goes_on,) = write(g.beside(f"{n.label}/first"), cond, inits)

    def step(inner: Graph, index: str, carried: list[str]) -> Trip:
        place = loops.last_first(inner, limit, index) if view.reverse else index
        after = write(inner, view.body, [place, *carried[:-1]])
        trips = inner.op("Add", index, inner.constant(1, INT64))
        if cond is None:
            return Trip([*after, trips])
        (more,) = write(inner.beside("cond"), cond, after)
        return Trip([*after, trips], goes_on=more)

    start = g.constant(0, INT64)
    types = [*_memories(view), loops.SCALAR]
    made = loops.loop(g, n.label, [*inits, start], types, step, count=limit, goes_on=goes_on)
    return view.bound(made.carried[:-1], (), made.carried[-1])


ConstructRule: TypeAlias = "Callable[[Node, Write], Found]"

CONSTRUCTS: Mapping[str, ConstructRule] = {
    "block": function,
    "loop": loop,
    "partition": partition,
    "switch": switch,
}
