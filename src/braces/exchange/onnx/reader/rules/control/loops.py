"""Rules of loops.

A loop becomes a counted one if its trip count is known from sizes or is one data-dependent
number; else it becomes a `While`. Both are differentiable. Sequences that it carries become
lists of the program, unless the loop is unrolled and their lengths stay known. A loop whose
carries change their sizes is unrolled too, if its trip count is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braces.errors import ProgramError, ShapeError
from braces.exchange.common.model.unsupported import FIX_SIZE
from braces.exchange.common.rules.elementwise import scalar
from braces.exchange.common.values.constants import Constant, Value
from braces.exchange.onnx.reader.file.dtypes import array_of
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.graph.sequences import (
    common_type,
    counted_loop,
    declared_element,
    element_of,
    forget_inner_sizes,
    is_list,
    lift_as,
    list_of,
)
from braces.exchange.onnx.reader.rules.control.if_else import branch
from braces.exchange.onnx.reader.rules.tensor.scatter import reverse_prefix
from braces.extend import functions as ops
from braces.extend.building import INDEX_TYPE, Var, current_program
from braces.extend.constructs import LoopView, build_block, build_loop_around, create_while
from braces.extend.types import INT64, Dim, Size, TensorType, Type

LONGEST_UNROLLED = 256
"""The largest trip count of a loop over sequences that is unrolled."""
MOST_UNROLLED = 2048
"""The largest number of nodes that unrolling creates."""


# ---- loops -----------------------------------------------------------------------------------


def loop(node: OnnxNode) -> tuple[Value, ...]:
    """Convert a loop with a trip count, a condition, or both."""
    body = node.attr("body")
    carried = [node.value(at) for at in range(2, node.count)]
    trips = _trip_count(node, body)
    if _should_unroll(body, carried, trips):
        return _unroll(node, body, carried, trips)
    results, tried = None, node.names.runner.tried
    if isinstance(trips, int) and trips <= LONGEST_UNROLLED and not node.names.runner.trying:
        results = tried(lambda: _build_loop(node, body, carried, trips))
        if results is None:  # sizes may change between iterations, which a loop does not allow
            results = tried(lambda: _unroll(node, body, carried, trips))
    if results is not None:
        return results
    try:
        return _build_loop(node, body, carried, trips)
    except ShapeError as error:
        raise ProgramError(
            "a loop with a carry of varying type requires a static number of iterations, at "
            f"most {LONGEST_UNROLLED}.",
            given=error.given,
            fix="Make the number of iterations static by sizes= or inputs=.",
        ) from None


def _build_loop(
    node: OnnxNode, body: Any, carried: Sequence[Value], trips: Size | None
) -> tuple[Value, ...]:
    """Build a loop operator with one body."""
    init = _init(node, body, carried)
    if trips is not None:
        return _counted_loop(node, body, init, trips)
    if _is_counted_only(node, body, len(init)):
        return _counted_at_run_time(node, body, init)
    return _while_loop(node, body, init)


def _should_unroll(body: Any, carried: Sequence[Value], trips: Size | None) -> bool:
    """Return whether to unroll the loop, so that lengths of sequences stay known."""
    if any(value is None for value in carried):
        return True
    if not any(isinstance(value, list) for value in carried) or not isinstance(trips, int):
        return False
    return trips <= LONGEST_UNROLLED and trips * len(body.node) <= MOST_UNROLLED


def _trip_count(node: OnnxNode, body: Any) -> Size | None:
    """Return the trip count if it is known and the condition never ends the loop."""
    start, count = node.maybe_known(1), node.maybe_known(0)
    if start is not None and not start.numbers().ravel()[0]:
        return 0
    if count is None or (node.has(1) and start is None) or not _always_continues(node, body):
        return None
    limit = count.items()[0]
    return limit if isinstance(limit, Dim) else max(int(limit), 0)


def _always_continues(node: OnnxNode, body: Any) -> bool:
    """Return whether an iteration returns a true condition, or the one that it received."""
    producers = {name: proto for proto in body.node for name in proto.output}
    name = body.output[0].name
    while name in producers and producers[name].op_type in ("Identity", "Cast"):
        name = producers[name].input[0]
    if name == body.input[1].name:
        return True
    constants = {tensor.name: tensor for tensor in body.initializer}
    if name in constants:
        return bool(np.any(array_of(constants[name])))
    if name not in producers or producers[name].op_type != "Constant":
        return False
    constant = OnnxNode.of(node.names, producers[name]).tensor("value")
    return constant is not None and bool(np.any(constant.array))


def _init(node: OnnxNode, body: Any, carried: Sequence[Value]) -> list[Var]:
    """Return the initial carries; sequences become lists."""
    runner = node.names.runner
    elements = _elements(node, body, carried)
    return [
        list_of(runner, value, elements[at]) if isinstance(value, list) else runner.lift(value)
        for at, value in enumerate(carried)
    ]


def _elements(node: OnnxNode, body: Any, carried: Sequence[Value]) -> dict[int, TensorType]:
    """Return the element types of carried sequences: actual, declared, or inferred."""
    element_types, unknown = dict[int, TensorType](), list[int]()
    for at, value in enumerate(carried):
        if isinstance(value, list):
            declared = declared_element(body.input[2 + at])
            if value:
                element_types[at] = common_type(node.names.runner, value)
            elif declared is not None:
                element_types[at] = declared
            else:
                unknown.append(at)
    return element_types | (_infer_elements(node, body, carried, unknown) if unknown else {})


def _infer_elements(
    node: OnnxNode, body: Any, carried: Sequence[Value], positions_: Sequence[int]
) -> dict[int, TensorType]:
    """Infer the element types of empty sequences from a trial read of the first iteration."""
    runner = node.names.runner

    def first() -> dict[int, TensorType]:
        start = [runner.lift(Constant.of(one_value)) for one_value in (np.int64(0), np.True_)]
        outputs = node.names.runner.graph(node.names, body, [*start, *carried])[1:]
        types = dict[int, TensorType]()
        for at in positions_:
            value = outputs[at]
            if is_list(value):
                types[at] = element_of(value)
            elif isinstance(value, list) and value:
                types[at] = common_type(runner, value)
        return types

    types = runner.trial(first) or {}
    missing = [body.input[2 + at].name for at in positions_ if at not in types]
    if missing:
        raise ProgramError(
            f"unknown element type of the sequence `{missing[0]:.80}`.",
            fix="Declare the type and rank of its elements in the body of the loop.",
        )
    return {at: forget_inner_sizes(type_) for at, type_ in types.items()}


def _read_iteration(
    node: OnnxNode, body: Any, inputs: Sequence[Value], types: Sequence[Type], first: int
) -> list[Var]:
    """Read one iteration; return its outputs from index `first` on, carries in their types."""
    runner = node.names.runner
    outputs = runner.graph(node.names, body, inputs)[first:]
    before = 1 - first
    return [
        lift_as(runner, value, types[at - before])
        if before <= at < len(types) + before
        else runner.lift(value)
        for at, value in enumerate(outputs)
    ]


def _types(init: Sequence[Var]) -> list[Type]:
    return [var.type for var in init]


def _counted_loop(
    node: OnnxNode, body: Any, init: Sequence[Var], trips: Size
) -> tuple[Var, ...]:
    """Build a loop with a known trip count."""
    true, types = Constant.of(np.True_), _types(init)

    def step(arguments: list[Var]) -> list[Var]:
        current_program().current.trip_index = arguments[0].name
        return _read_iteration(node, body, [arguments[0], true, *arguments[1:]], types, 1)

    block = build_block([INDEX_TYPE, *types], step)
    loop_ = build_loop_around(replace(LoopView.around(block, len(init)), length=trips), init)
    return *loop_.finals, *loop_.rows


def _is_counted_only(node: OnnxNode, body: Any, memories: int) -> bool:
    """Return whether only a number ends the loop, and it stacks no outputs."""
    start = node.maybe_known(1)
    never_ends_early = not node.has(1) or (
        start is not None and bool(start.numbers().ravel()[0])
    )
    only_carries = 0 < memories == len(body.output) - 1
    return only_carries and node.has(0) and never_ends_early and _always_continues(node, body)


def _counted_at_run_time(node: OnnxNode, body: Any, init: Sequence[Var]) -> tuple[Var, ...]:
    """Build a loop with a data-dependent trip count."""
    true, types = Constant.of(np.True_), _types(init)

    def step(index: Var, memories: list[Var]) -> list[Var]:
        return _read_iteration(node, body, [index, true, *memories], types, 1)

    return counted_loop(ops.cast(scalar(node.var(0)), INT64), init, step)


def _while_loop(node: OnnxNode, body: Any, init: Sequence[Var]) -> tuple[Var, ...]:
    """Build a `While`; the condition and the iteration number are additional memories."""
    lift = node.names.runner.lift
    limit = ops.cast(scalar(node.var(0)), INT64) if node.has(0) else None
    start = scalar(node.var(1)) if node.has(1) else lift(Constant.of(np.True_))
    while_ = create_while()
    with while_.block() as block:
        trip = block.add_memory(init=lift(Constant.of(np.int64(0))))
        condition = block.add_memory(init=start)
        memories = [block.add_memory(init=value) for value in init]
        keep_going = condition if limit is None else ops.logical_and(condition, trip < limit)
        block.set_condition(keep_going)
        current = [memory.pre() for memory in (trip, condition, *memories)]
        next_condition, *after = _read_iteration(node, body, current, _types(init), 0)
        condition.update(scalar(next_condition))
        trip.update(trip + 1)
        for memory, value in zip(memories, after, strict=False):
            memory.update(value)
        rows = after[len(memories) :]
        if rows:
            block.add_output(*(ops.identity(row) for row in rows))
    return *map(while_.final, memories), *while_.rows


def _unroll(
    node: OnnxNode, body: Any, carried: list[Value], trips: Size | None
) -> tuple[Value, ...]:
    """Unroll a loop that carries sequences; their lengths may change."""
    if not isinstance(trips, int) or trips > LONGEST_UNROLLED:
        raise ProgramError(
            "a loop with an empty optional as carry requires a static number of iterations, at "
            f"most {LONGEST_UNROLLED}.",
            fix="Make the number of iterations static by sizes= or inputs=.",
        )
    carry_count = len(carried)
    rows: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - carry_count)]
    for trip in range(trips):
        arguments = [Constant.of(np.int64(trip)), Constant.of(np.True_), *carried]
        outputs = node.names.runner.graph(node.names, body, arguments)
        carried = outputs[1 : 1 + carry_count]
        for row, value in zip(rows, outputs[1 + carry_count :], strict=True):
            row.append(value)
    lift = node.names.runner.lift
    return *carried, *(ops.stack([lift(v) for v in row]) for row in rows)


# ---- scans -----------------------------------------------------------------------------------


def scan(node: OnnxNode) -> tuple[Var, ...]:
    """Convert a scan: a counted loop over slices of arrays."""
    if node.version < 9:
        return _batched_scan(node)
    inputs = node.attr("num_scan_inputs")
    values = node.vars()
    return build_scan(node, values[: len(values) - inputs], values[len(values) - inputs :])


def _batched_scan(node: OnnxNode) -> tuple[Var, ...]:
    """Convert the first version, with a loop per batch element."""
    lengths = node.maybe(0)
    inputs = node.attr("num_scan_inputs")
    values = [node.var(at) for at in range(1, node.count)]
    batch = values[0].shape[0]
    if not isinstance(batch, int):
        node.refuse("unsupported symbolic batch size", FIX_SIZE)
    split = len(values) - inputs
    per_example = [
        build_scan(
            node,
            [v[i] for v in values[:split]],
            [v[i] for v in values[split:]],
            None if lengths is None else ops.cast(lengths[i], INT64),
        )
        for i in range(batch)
    ]
    return tuple(ops.stack(list(rows)) for rows in zip(*per_example, strict=True))


def build_scan(
    node: OnnxNode, init: Sequence[Var], inputs: Sequence[Var], length: Var | None = None
) -> tuple[Var, ...]:
    """Build the loop of a scan; return the final carries and the stacked outputs.

    Args:
        node: The scan.
        init: The initial carries.
        inputs: The scanned inputs.
        length: The number of active iterations; the outputs of the others are zeros.
    """
    body, count = node.attr("body"), len(inputs)
    rows = len(body.output) - len(init)
    axes, reversed_axes = _axes_and_directions(node, "scan_input", count)
    scanned_inputs = [
        _first_axis(x, axis, back, length)
        for x, axis, back in zip(inputs, axes, reversed_axes, strict=True)
    ]
    types = [*_types(init), *(TensorType(x.dtype, x.shape[1:]) for x in scanned_inputs)]

    def step(inputs: list[Var]) -> list[Var]:
        current_program().current.trip_index = inputs[0].name
        loop_outputs = node.names.runner.graph(node.names, body, inputs[1:])
        after = [node.names.runner.lift(value) for value in loop_outputs]
        if length is None:
            return after
        before = [*inputs[1 : 1 + len(init)], *(ops.zeros_like(x) for x in after[len(init) :])]
        is_active = inputs[0] < length
        return [ops.where(is_active, x, y) for x, y in zip(after, before, strict=True)]

    block = build_block([INDEX_TYPE, *types], step)
    view = LoopView.around(block, len(init), count)
    loop_outputs = build_loop_around(
        replace(view, length=scanned_inputs[0].shape[0]), init, scanned_inputs
    )
    axes, reversed_axes = _axes_and_directions(node, "scan_output", rows)
    stacked = [
        _from_first_axis(x, axis, back)
        for x, axis, back in zip(loop_outputs.rows, axes, reversed_axes, strict=True)
    ]
    return *loop_outputs.finals, *stacked


def _axes_and_directions(node: OnnxNode, of: str, count: int) -> tuple[list[int], list[int]]:
    """Return the axis and the direction of each scanned input or stacked output."""
    axes, directions = (node.attr(f"{of}_{word}") for word in ("axes", "directions"))
    if node.version < 9 and of == "scan_input":
        directions = node.attr("directions")
    return list(axes or [0] * count), list(directions or [0] * count)


def _first_axis(x: Var, axis: int, back: int, length: Var | None) -> Var:
    if back and length is not None:
        return reverse_prefix(x, length, axis)
    x = ops.flip(x, axis=axis) if back else x
    return ops.moveaxis(x, axis, 0) if axis % x.ndim else x


def _from_first_axis(x: Var, axis: int, back: int) -> Var:
    x = ops.flip(x, axis=0) if back else x
    return ops.moveaxis(x, 0, axis) if axis % x.ndim else x


CONTROL: Mapping[str, Rule] = {"If": branch, "Loop": loop, "Scan": scan}
