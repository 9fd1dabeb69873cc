"""Rules of loops.

A loop whose trips are known from sizes is a counted one, so is one that only a number ends that
a run tells, else it has a condition; its gradient is ours either way. Sequences that it carries
become lists of the program, unless their lengths are known because it is written out. So it is
where arrays that it carries change their sizes, if its trips are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import INT64, TensorType, Type
from braces.errors import ProgramError, ShapeError
from braces.exchange.common.rules.elementwise import scalar
from braces.exchange.common.values.constants import Known, Value
from braces.exchange.onnx.reader.file.dtypes import array_of
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.exchange.onnx.reader.graph.sequences import (
    common_type,
    declared_element,
    element_of,
    is_list,
    list_of,
    lost_sizes,
    repeated,
    settled,
)
from braces.exchange.onnx.reader.rules.control.if_else import branch
from braces.exchange.onnx.reader.rules.tensor.scatter import first_backwards
from braces.frontend.control.while_loop import create_while
from braces.frontend.core import functions as ops
from braces.ir.views import LoopView
from braces.ops.control.construct.build import build_block, build_loop_around
from braces.ops.lists.stack import INDEX_TYPE

LONGEST_UNROLLED = 256
"""Loops that carry sequences are written out, trip by trip, up to so many trips."""
MOST_UNROLLED = 2048
"""So many nodes at most are written for them."""


# ---- loops -----------------------------------------------------------------------------------


def loop(node: Node) -> tuple[Value, ...]:
    """A loop with a number of trips, a condition, or both."""
    body = node.attr("body")
    carried = [node.value(at) for at in range(2, node.count)]
    trips = _trips(node, body)
    if _written_out(body, carried, trips):
        return _unrolled(node, body, carried, trips)
    made, tried = None, node.names.runner.tried
    if isinstance(trips, int) and trips <= LONGEST_UNROLLED and not node.names.runner.trying:
        made = tried(lambda: _as_loop(node, body, carried, trips))
        if made is None:  # sizes may differ from trip to trip, which those of no loop do
            made = tried(lambda: _unrolled(node, body, carried, trips))
    if made is not None:
        return made
    try:
        return _as_loop(node, body, carried, trips)
    except ShapeError as error:
        raise ProgramError(
            "A loop must have a number of trips that is known when the model is read, and "
            f"{LONGEST_UNROLLED} at most, where what it carries changes its type.",
            given=error.given,
            fix="Fix what it follows from: sizes= or inputs=.",
        ) from None


def _as_loop(
    node: Node, body: Any, carried: Sequence[Value], trips: Size | None
) -> tuple[Value, ...]:
    """A loop whose trips have one body."""
    init = _init(node, body, carried)
    if trips is not None:
        return _counted(node, body, init, trips)
    if _ended_by_count(node, body, len(init)):
        return _as_many(node, body, init)
    return _asking(node, body, init)


def _written_out(body: Any, carried: Sequence[Value], trips: Size | None) -> bool:
    """Whether each trip is written for itself, so that lengths of sequences stay known."""
    if any(value is None for value in carried):
        return True
    if not any(isinstance(value, list) for value in carried) or not isinstance(trips, int):
        return False
    return trips <= LONGEST_UNROLLED and trips * len(body.node) <= MOST_UNROLLED


def _trips(node: Node, body: Any) -> Size | None:
    """How many trips there are, where that is known: the condition never ends it."""
    start, count = node.maybe_known(1), node.maybe_known(0)
    if start is not None and not start.numbers().ravel()[0]:
        return 0
    if count is None or (node.has(1) and start is None) or not _goes_on(node, body):
        return None
    found = count.items()[0]
    return found if isinstance(found, Dim) else max(int(found), 0)


def _goes_on(node: Node, body: Any) -> bool:
    """Whether the condition that a trip gives is always true, or the one that it was given."""
    made = {name: proto for proto in body.node for name in proto.output}
    name = body.output[0].name
    while name in made and made[name].op_type in ("Identity", "Cast"):
        name = made[name].input[0]
    if name == body.input[1].name:
        return True
    constants = {tensor.name: tensor for tensor in body.initializer}
    if name in constants:
        return bool(np.any(array_of(constants[name])))
    if name not in made or made[name].op_type != "Constant":
        return False
    written = Node.of(node.names, made[name]).tensor("value")
    return written is not None and bool(np.any(written.array))


def _init(node: Node, body: Any, carried: Sequence[Value]) -> list[Var]:
    """What a loop carries at first; sequences as lists."""
    runner = node.names.runner
    elements = _elements(node, body, carried)
    return [
        list_of(runner, value, elements[at]) if isinstance(value, list) else runner.lift(value)
        for at, value in enumerate(carried)
    ]


def _elements(node: Node, body: Any, carried: Sequence[Value]) -> dict[int, TensorType]:
    """The types of the values of sequences: as they are, as they are declared, or tried."""
    found, unknown = dict[int, TensorType](), list[int]()
    for at, value in enumerate(carried):
        if isinstance(value, list):
            declared = declared_element(body.input[2 + at])
            if value:
                found[at] = common_type(node.names.runner, value)
            elif declared is not None:
                found[at] = declared
            else:
                unknown.append(at)
    return found | (_tried(node, body, carried, unknown) if unknown else {})


def _tried(
    node: Node, body: Any, carried: Sequence[Value], wanted: Sequence[int]
) -> dict[int, TensorType]:
    """The types of what the first trip puts into sequences that are empty before it."""
    runner = node.names.runner

    def first() -> dict[int, TensorType]:
        start = [runner.lift(Known.of(one_value)) for one_value in (np.int64(0), np.True_)]
        made = node.names.runner.graph(node.names, body, [*start, *carried])[1:]
        types = dict[int, TensorType]()
        for at in wanted:
            value = made[at]
            if is_list(value):
                types[at] = element_of(value)
            elif isinstance(value, list) and value:
                types[at] = common_type(runner, value)
        return types

    types = runner.trial(first) or {}
    missing = [body.input[2 + at].name for at in wanted if at not in types]
    if missing:
        raise ProgramError(
            f"Nothing says what the sequence `{missing[0]:.80}` holds.",
            fix="Declare the type of its values in the graph of the loop, with their axes.",
        )
    return {at: lost_sizes(type_) for at, type_ in types.items()}


def _after(
    node: Node, body: Any, given: Sequence[Value], types: Sequence[Type], first: int
) -> list[Var]:
    """What a trip gives from the output on of this number; what is carried in its type."""
    runner = node.names.runner
    made = runner.graph(node.names, body, given)[first:]
    before = 1 - first
    return [
        settled(runner, value, types[at - before])
        if before <= at < len(types) + before
        else runner.lift(value)
        for at, value in enumerate(made)
    ]


def _types(init: Sequence[Var]) -> list[Type]:
    return [var.type for var in init]


def _counted(node: Node, body: Any, init: Sequence[Var], trips: Size) -> tuple[Var, ...]:
    """A loop of a number of trips that is known beforehand."""
    true, types = Known.of(np.True_), _types(init)

    def trip(given: list[Var]) -> list[Var]:
        current_program().current.trip_index = given[0].name
        return _after(node, body, [given[0], true, *given[1:]], types, 1)

    block = build_block([INDEX_TYPE, *types], trip)
    made = build_loop_around(replace(LoopView.around(block, len(init)), length=trips), init)
    return *made.finals, *made.rows


def _ended_by_count(node: Node, body: Any, memories: int) -> bool:
    """Whether only a number ends it, and it collects nothing."""
    start = node.maybe_known(1)
    never = not node.has(1) or (start is not None and bool(start.numbers().ravel()[0]))
    plain = 0 < memories == len(body.output) - 1
    return plain and node.has(0) and never and _goes_on(node, body)


def _as_many(node: Node, body: Any, init: Sequence[Var]) -> tuple[Var, ...]:
    """A loop of a number of trips that a run tells."""
    true, types = Known.of(np.True_), _types(init)

    def trip(index: Var, memories: list[Var]) -> list[Var]:
        return _after(node, body, [index, true, *memories], types, 1)

    return repeated(ops.cast(scalar(node.var(0)), INT64), init, trip)


def _asking(node: Node, body: Any, init: Sequence[Var]) -> tuple[Var, ...]:
    """A loop with a condition, which is one more memory; so is the number of the trip."""
    lift = node.names.runner.lift
    limit = ops.cast(scalar(node.var(0)), INT64) if node.has(0) else None
    start = scalar(node.var(1)) if node.has(1) else lift(Known.of(np.True_))
    made = create_while()
    with made.block() as block:
        trip = block.add_memory(init=lift(Known.of(np.int64(0))))
        condition = block.add_memory(init=start)
        memories = [block.add_memory(init=value) for value in init]
        going = condition if limit is None else ops.logical_and(condition, trip < limit)
        block.set_condition(going)
        given = [memory.pre() for memory in (trip, condition, *memories)]
        again, *after = _after(node, body, given, _types(init), 0)
        condition.update(scalar(again))
        trip.update(trip + 1)
        for memory, value in zip(memories, after, strict=False):
            memory.update(value)
        rows = after[len(memories) :]
        if rows:
            block.add_output(*(ops.identity(row) for row in rows))
    return *map(made.final, memories), *made.rows


def _unrolled(
    node: Node, body: Any, carried: list[Value], trips: Size | None
) -> tuple[Value, ...]:
    """A loop that carries sequences, trip by trip; their lengths may change on the way."""
    if not isinstance(trips, int) or trips > LONGEST_UNROLLED:
        raise ProgramError(
            "A loop that carries an optional without a value must have a number of trips that "
            f"is known when the model is read, and {LONGEST_UNROLLED} at most.",
            fix="Fix what it follows from: sizes= or inputs=.",
        )
    kept = len(carried)
    rows: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - kept)]
    for trip in range(trips):
        given = [Known.of(np.int64(trip)), Known.of(np.True_), *carried]
        made = node.names.runner.graph(node.names, body, given)
        carried = made[1 : 1 + kept]
        for row, value in zip(rows, made[1 + kept :], strict=True):
            row.append(value)
    lift = node.names.runner.lift
    return *carried, *(ops.stack([lift(v) for v in row]) for row in rows)


# ---- scans -----------------------------------------------------------------------------------


def scan(node: Node) -> tuple[Var, ...]:
    """A counted loop over slices of arrays."""
    if node.version < 9:
        return _batched_scan(node)
    inputs = node.attr("num_scan_inputs")
    values = node.vars()
    return scanned(node, values[: len(values) - inputs], values[len(values) - inputs :])


def _batched_scan(node: Node) -> tuple[Var, ...]:
    """The first version, whose first axis is that of examples, each with a loop of its own."""
    lengths = node.maybe(0)
    inputs = node.attr("num_scan_inputs")
    values = [node.var(at) for at in range(1, node.count)]
    batch = values[0].shape[0]
    if not isinstance(batch, int):
        node.refuse("has a symbolic number of examples", "Fix it: sizes=.")
    split = len(values) - inputs
    made = [
        scanned(
            node,
            [v[i] for v in values[:split]],
            [v[i] for v in values[split:]],
            None if lengths is None else ops.cast(lengths[i], INT64),
        )
        for i in range(batch)
    ]
    return tuple(ops.stack(list(rows)) for rows in zip(*made, strict=True))


def scanned(
    node: Node, init: Sequence[Var], given: Sequence[Var], length: Var | None = None
) -> tuple[Var, ...]:
    """The loop: what it carries at the end, and what it collects.

    Args:
        node: The scan.
        init: What it carries at first.
        given: What it cuts into slices.
        length: How many trips count, of those that there are; the rows of others are zeros.
    """
    body, count = node.attr("body"), len(given)
    rows = len(body.output) - len(init)
    axes, turned = _places(node, "scan_input", count)
    sliced = [
        _first_axis(x, axis, back, length)
        for x, axis, back in zip(given, axes, turned, strict=True)
    ]
    types = [*_types(init), *(TensorType(x.dtype, x.shape[1:]) for x in sliced)]

    def trip(given: list[Var]) -> list[Var]:
        current_program().current.trip_index = given[0].name
        made = node.names.runner.graph(node.names, body, given[1:])
        after = [node.names.runner.lift(value) for value in made]
        if length is None:
            return after
        before = [*given[1 : 1 + len(init)], *(ops.zeros_like(x) for x in after[len(init) :])]
        counts = given[0] < length
        return [ops.where(counts, x, y) for x, y in zip(after, before, strict=True)]

    block = build_block([INDEX_TYPE, *types], trip)
    view = LoopView.around(block, len(init), count)
    made = build_loop_around(replace(view, length=sliced[0].shape[0]), init, sliced)
    axes, turned = _places(node, "scan_output", rows)
    stacked = [
        _from_first_axis(x, axis, back)
        for x, axis, back in zip(made.rows, axes, turned, strict=True)
    ]
    return *made.finals, *stacked


def _places(node: Node, of: str, count: int) -> tuple[list[int], list[int]]:
    """The axis and the direction of each array that a scan cuts or collects."""
    axes, turned = (node.attr(f"{of}_{word}") for word in ("axes", "directions"))
    if node.version < 9 and of == "scan_input":
        turned = node.attr("directions")
    return list(axes or [0] * count), list(turned or [0] * count)


def _first_axis(x: Var, axis: int, back: int, length: Var | None) -> Var:
    if back and length is not None:
        return first_backwards(x, length, axis)
    x = ops.flip(x, axis=axis) if back else x
    return ops.moveaxis(x, axis, 0) if axis % x.ndim else x


def _from_first_axis(x: Var, axis: int, back: int) -> Var:
    x = ops.flip(x, axis=0) if back else x
    return ops.moveaxis(x, 0, axis) if axis % x.ndim else x


CONTROL: Mapping[str, Rule] = {"If": branch, "Loop": loop, "Scan": scan}
