"""Export of operators with blocks: loops, branches, row-wise branches, and plain blocks.

loop        Loop, or Scan if the trip count is a number; or LSTM, GRU and RNN (recurrent.py)
switch      If, nested
partition   for each case: NonZero, Gather, the block, ScatterND, in an If on whether
            the case has any rows
block       a function of the model (functions.py), and a node that calls it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from braces.exchange.onnx.writer.constructs.functions import (
    OutputNames,
    Write,
    data_dependent_sizes,
    function,
)
from braces.exchange.onnx.writer.constructs.recurrent import recurrent
from braces.exchange.onnx.writer.graph import dtype_widening as widths, loop_if
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.loop_if import IterationResult
from braces.exchange.onnx.writer.graph.node import NodeDesc
from braces.exchange.onnx.writer.primitives.shape import add_axes, fill_type
from braces.extend.constructs import Case, LoopView, PartitionView, SwitchView
from braces.extend.types import INT64, Dim, ListType, Size, TensorType, Type

SIZE = TensorType(INT64, (1,))

# ---- branches --------------------------------------------------------------------------------


def switch(n: NodeDesc, write: Write) -> OutputNames:
    """Export a switch as nested `If`; an out-of-range index takes the last case.

    Data-dependent sizes of a case, as the row count of a `While`, are returned with its
    results, because other code may use them; in the other cases they are 0. A result with an
    axis of that size makes this unnecessary.
    """
    view = SwitchView.of(n.op)
    shape_sizes = {
        size for type_ in n.types if isinstance(type_, TensorType) for size in type_.shape
    }
    block_sizes = [name for body in view.cases for name in data_dependent_sizes(body)]
    told = [name for name in block_sizes if Dim.named(name) not in shape_sizes]
    types = [*n.types, *[SIZE] * len(told)]
    index, dtype = n.g.name(view.index), _array(n.g, view.index).dtype
    cases = view.cases

    def run(number: int, g: OnnxGraph) -> Sequence[str]:
        others = set(block_sizes).difference(data_dependent_sizes(cases[number]))
        g.told.update((name, (g.integers(0), -1)) for name in others)
        results = write(g, cases[number], ())
        return [*results, *(g.size(Dim.named(name)) for name in told)]

    runs = [partial(run, number) for number in range(len(cases))]
    outputs = loop_if.switch(n.g.beside(n.label), n.label, index, dtype, runs, types)
    results = len(n.types)
    n.g.told.update(
        (name, (size, -1)) for name, size in zip(told, outputs[results:], strict=True)
    )
    return view.bound(outputs[:results])


def _array(g: OnnxGraph, name: str) -> TensorType:
    array_type = g.type(name)
    assert isinstance(array_type, TensorType)
    return array_type


# ---- rows ------------------------------------------------------------------------------------


def partition(n: NodeDesc, write: Write) -> OutputNames:
    """Export each case on its own rows; a case without rows does not run."""
    view, g = PartitionView.of(n.op), n.g
    merged = [fill_type(g, 0, type_) for type_ in map(n.result, range(len(n.types)))]
    for number, case in enumerate(view.cases):
        mask = g.name(case.mask)
        as_integers = g.cast(mask, INT64)
        count = g.op("ReduceSum", as_integers, keepdims=0)
        has_rows = g.op("Greater", count, g.constant(0, INT64))
        run = _ExportedCase(n, view, number, case, mask, as_integers, write)
        before = tuple(merged)
        label = f"{n.label}.{number}"
        merged = loop_if.branch(
            g,
            label,
            has_rows,
            partial(run.on_rows, before),
            partial(_unchanged, before),
            n.types,
        )
    return view.bound(merged)


def _unchanged(before: Sequence[str], g: OnnxGraph) -> Sequence[str]:
    del g
    return before


class _ExportedCase:
    """One case of a row-wise branch that has rows."""

    def __init__(
        self, n: NodeDesc, view: PartitionView, number: int, case: Case, mask: str, own: str,
        write: Write,
    ) -> None:  # fmt: skip
        self._n, self._view, self._number, self._case = n, view, number, case
        self._mask, self._own, self._write = mask, own, write

    def on_rows(self, before: Sequence[str], g: OnnxGraph) -> list[str]:
        """Export the case, and merge its results with those of the cases before.

        In a branch that is not compact, the first selected row stands in for the others.
        """
        if self._view.compact:
            indices = g.op("Squeeze", g.op("NonZero", self._mask), g.integers(0))
            arguments = [g.op("Gather", self._mask, indices)]
        else:
            indices = g.op("ArgMax", self._own, axis=0, keepdims=1)
            arguments = [self._mask]
        for row in self._view.rows:
            source = g.name(row.source)
            arguments.append(self._take_rows(g, source, row.source, row.linear, indices))
        results = self._write(g, self._view.bodies[self._number], arguments)
        outs = len(self._view.outs)
        return [
            self._scatter_rows(g, base, value, indices, i)
            if i < outs
            else widths.widened_op(g, "Add", base, value, dtype=self._n.result(i).dtype)
            for i, (base, value) in enumerate(zip(before, results, strict=True))
        ]

    def _take_rows(
        self, g: OnnxGraph, source: str, name: str, linear: bool, places: str
    ) -> str:
        if self._view.compact:
            return g.op("Gather", source, places)
        type_ = _array(g, name)
        if linear:
            zero = g.constant(0, type_.dtype)
            return widths.widened_where(g, self._mask_of(g, type_), source, zero, type_.dtype)
        all_indices = g.op(
            "Range", g.constant(0, INT64), g.number(type_.shape[0]), g.constant(1, INT64)
        )
        return g.op("Gather", source, g.op("Where", self._mask, all_indices, places))

    def _mask_of(self, g: OnnxGraph, type_: TensorType) -> str:
        return add_axes(g, self._mask, range(1, type_.rank))

    def _scatter_rows(
        self, g: OnnxGraph, before: str, value: str, places: str, position: int
    ) -> str:
        if self._view.compact:
            return g.op("ScatterND", before, add_axes(g, places, [1]), value)
        type_ = self._n.result(position)
        return widths.widened_where(g, self._mask_of(g, type_), value, before, type_.dtype)


# ---- loops -----------------------------------------------------------------------------------


def loop(n: NodeDesc, write: Write) -> OutputNames:
    """Export a loop of any kind."""
    view = LoopView.of(n.op)
    node = recurrent(n, view) if n.g.model.recurrent_nodes else None
    if node is not None:
        return node
    if not view.counted:
        return _while(n, view, write)
    lists = (isinstance(type_, ListType) for type_ in _memories(view))
    length = _length(n, view)
    if isinstance(length, int) and length and not any(lists):
        return _scan(n, view, length, write)
    return _counted(n, view, write)


def _memories(view: LoopView) -> list[Type]:
    return [view.content.vars[memory.param].type for memory in view.memories]


def _rows(n: NodeDesc, view: LoopView) -> list[TensorType]:
    """Return the types of one element of each stacked output."""
    row_types = map(n.result, range(len(view.memories), len(view.memories) + len(view.rows)))
    return [type_.with_shape(type_.shape[1:]) for type_ in row_types]


def _length(n: NodeDesc, view: LoopView) -> Size:
    if view.slices:
        return _array(n.g, view.slices[0].source).shape[0]
    assert view.length is not None
    return view.length


def _scan(n: NodeDesc, view: LoopView, length: int, write: Write) -> OutputNames:
    """Export a loop with a known positive trip count; the index is one more scanned input."""
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
        (loop_if.value_info(names[param], types[param]) for param in order),
        (loop_if.value_info(*output) for output in outputs),
    )
    scan_count, rows, direction = len(view.slices) + 1, len(view.rows), int(view.reverse)
    scan_results = g.several(
        "Scan",
        *(g.name(memory.init) for memory in view.memories),
        index,
        *(g.name(slice_.source) for slice_ in view.slices),
        count=len(results),
        body=body,
        num_scan_inputs=scan_count,
        scan_input_directions=[direction] * scan_count,
        scan_output_directions=[direction] * rows or None,
    )
    finals = len(view.memories)
    return view.bound(scan_results[:finals], scan_results[finals:], count)


def _counted(n: NodeDesc, view: LoopView, write: Write) -> OutputNames:
    """Export a loop whose trip count is the size of an axis, maybe 0."""
    g, rows = n.g, _rows(n, view)
    length = _length(n, view)
    count = g.number(length)
    sources = [g.name(slice_.source) for slice_ in view.slices]

    def step(inner: OnnxGraph, index: str, carried: list[str]) -> IterationResult:
        position = loop_if.reversed_index(inner, count, index) if view.reverse else index
        slices_ = [loop_if.take_index(inner, source, position) for source in sources]
        outputs = write(inner, view.body, [position, *carried, *slices_])
        return IterationResult(outputs[: len(carried)], outputs[len(carried) :])

    inits = [g.name(memory.init) for memory in view.memories]
    outputs = loop_if.loop(g, n.label, inits, _memories(view), step, count=count, rows=rows)
    stacked = zip(outputs.rows, rows, strict=True)
    return view.bound(
        outputs.carried,
        [loop_if.stacked_output(g, name, length, row, view.reverse) for name, row in stacked],
        count,
    )


def _while(n: NodeDesc, view: LoopView, write: Write) -> OutputNames:
    """Export a loop with a data-dependent trip count, which it counts."""
    g, cond = n.g, view.cond
    limit, goes_on = "", ""
    if view.count is not None:
        limit = widths.cast_value(g, g.name(view.count), _array(g, view.count).dtype, INT64)
    elif view.max_trips is not None:
        limit = g.constant(view.max_trips, INT64)
    inits = [g.name(memory.init) for memory in view.memories]
    if cond is not None:
        (goes_on,) = write(g.beside(f"{n.label}/first"), cond, inits)

    def step(inner: OnnxGraph, index: str, carried: list[str]) -> IterationResult:
        position = loop_if.reversed_index(inner, limit, index) if view.reverse else index
        after = write(inner, view.body, [position, *carried[:-1]])
        trips = inner.op("Add", index, inner.constant(1, INT64))
        if cond is None:
            return IterationResult([*after, trips])
        (next_condition,) = write(inner.beside("cond"), cond, after)
        return IterationResult([*after, trips], goes_on=next_condition)

    start = g.constant(0, INT64)
    types = [*_memories(view), loop_if.SCALAR]
    outputs = loop_if.loop(
        g, n.label, [*inits, start], types, step, count=limit, goes_on=goes_on
    )
    return view.bound(outputs.carried[:-1], (), outputs.carried[-1])


ConstructRule: TypeAlias = "Callable[[NodeDesc, Write], OutputNames]"

CONSTRUCTS: Mapping[str, ConstructRule] = {
    "block": function,
    "loop": loop,
    "partition": partition,
    "switch": switch,
}
