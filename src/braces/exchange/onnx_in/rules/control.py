"""Rules of branches and loops.

A condition that is known takes its branch alone. A loop whose trips are known from sizes is a
counted one, else it has a condition; its gradient is ours either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braces.builder.append import one
from braces.builder.var import Var, tensor_type
from braces.dims import Dim, Size
from braces.dtypes import INT64, TensorType
from braces.errors import ProgramError
from braces.exchange.onnx_in.dtypes import array_of
from braces.exchange.onnx_in.known import Known, Value
from braces.exchange.onnx_in.node import Names, Node, Rule
from braces.frontend import functions as ops
from braces.frontend.while_blocks import create_while
from braces.ir.records import Body
from braces.ir.views import LoopView
from braces.ops.control.building import build_block, build_loop_around, build_switch

LONGEST_UNROLLED = 256
"""Loops that carry sequences are written out, trip by trip, up to so many trips."""


def scalar(x: Var) -> Var:
    """The one number of an array."""
    return ops.reshape(x, ()) if x.ndim else x


# ---- branches --------------------------------------------------------------------------------


def branch(node: Node) -> tuple[Value, ...]:
    """One of two graphs; the one alone where the condition is known."""
    known = node.maybe_known(0)
    if known is not None:
        taken = "then_branch" if known.numbers().ravel()[0] else "else_branch"
        return tuple(node.names.runner.in_place(node, node.attrs[taken]))
    return _switch(node)


def _switch(node: Node) -> tuple[Var, ...]:
    """A switch of both graphs, which give the same types."""
    lift = node.names.runner.lift

    def case(name: str) -> Body:
        return build_block((), lambda _: [lift(value) for value in node.graph(name)])

    bodies = [case("else_branch"), case("then_branch")]
    asked = _asked_sizes(node.names, node.proto.input[0])
    if asked is not None and _ranks(bodies[0]) != _ranks(bodies[1]):
        return _agreeing(node, *asked)
    index = ops.cast(scalar(node.var(0)), "int32")
    return build_switch(index, bodies, total=True)


def _ranks(body: Body) -> list[int | None]:
    types = [body.vars[name].type for name in body.results]
    return [type_.rank if isinstance(type_, TensorType) else None for type_ in types]


def _asked_sizes(names: Names, name: str) -> tuple[Size, Size] | None:
    """The two sizes that a condition compares, where it is whether they are equal."""
    made = names.maker(name)
    while made is not None and made[1].op_type in ("Cast", "Identity"):
        made = made[0].maker(made[1].input[0])
    if made is None or made[1].op_type != "Equal":
        return None
    compared = Node.of(made[0], made[1])
    found = [compared.maybe_known(at) for at in range(compared.count)]
    items = [value.items() for value in found if value is not None and value.array.size == 1]
    return (items[0][0], items[1][0]) if len(items) == 2 else None


def _agreeing(node: Node, size: Size, other: Size) -> tuple[Var, ...]:
    """The graph for sizes that are equal, which a run looks at before it computes.

    No program has results of different ranks. Exporters write `x.squeeze(axis)` so: a branch
    on whether a size is 1, which it is in every run that makes sense.
    """
    zeros = ops.broadcast_to(node.names.runner.lift(Known.of(np.float32(0))), (size,))
    gate = ops.ensure_shape(zeros, (other,))
    given = map(node.names.runner.lift, node.graph("then_branch"))
    return tuple(one("fence", gate, value) for value in given)


# ---- loops -----------------------------------------------------------------------------------


def loop(node: Node) -> tuple[Value, ...]:
    """A loop with a number of trips, a condition, or both."""
    body = node.attr("body")
    carried = [node.value(at) for at in range(2, node.count)]
    trips = _trips(node, body)
    if any(not isinstance(value, Var | Known) for value in carried):
        return _unrolled(node, body, carried, trips)
    init = [node.names.runner.lift(value) for value in carried]
    if trips is None:
        return _asking(node, body, init)
    return _counted(node, body, init, trips)


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


def _body(node: Node, body: Any, given: Sequence[Value], first: int) -> list[Var]:
    """What a trip gives from the output on of this number."""
    made = node.names.runner.graph(node.names, body, given)
    return [node.names.runner.lift(value) for value in made[first:]]


def _types(init: Sequence[Var]) -> list[TensorType]:
    return [TensorType(INT64, ()), *map(tensor_type, init)]


def _counted(node: Node, body: Any, init: Sequence[Var], trips: Size) -> tuple[Var, ...]:
    """A loop of a number of trips that is known beforehand."""
    true = Known.of(np.True_)
    block = build_block(_types(init), lambda p: _body(node, body, [p[0], true, *p[1:]], 1))
    made = build_loop_around(replace(LoopView.around(block, len(init)), length=trips), init)
    return *made.finals, *made.rows


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
        again, *after = _body(node, body, [trip, condition, *memories], 0)
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
            "A loop that carries a sequence must have a number of trips that is known when the "
            f"model is read, and {LONGEST_UNROLLED} at most.",
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
    if node.has(0):
        node.refuse("has a length for each example")
    inputs = node.attr("num_scan_inputs")
    values = [node.var(at) for at in range(1, node.count)]
    batch = values[0].shape[0]
    if not isinstance(batch, int):
        node.refuse("has a symbolic number of examples", "Fix it: sizes=.")
    split = len(values) - inputs
    made = [
        scanned(node, [v[i] for v in values[:split]], [v[i] for v in values[split:]])
        for i in range(batch)
    ]
    return tuple(ops.stack(list(rows)) for rows in zip(*made, strict=True))


def scanned(node: Node, init: Sequence[Var], given: Sequence[Var]) -> tuple[Var, ...]:
    """The loop: what it carries at the end, and what it collects."""
    body, count = node.attr("body"), len(given)
    rows = len(body.output) - len(init)
    axes, turned = _places(node, "scan_input", count)
    sliced = [
        _first_axis(x, axis, back) for x, axis, back in zip(given, axes, turned, strict=True)
    ]
    types = [TensorType(x.dtype, x.shape[1:]) for x in sliced]
    block = build_block([*_types(init), *types], lambda p: _body(node, body, p[1:], 0))
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
    return list(axes or [0] * count), list(turned or [0] * count)


def _first_axis(x: Var, axis: int, back: int) -> Var:
    x = ops.flip(x, axis=axis) if back else x
    return ops.moveaxis(x, axis, 0) if axis % x.ndim else x


def _from_first_axis(x: Var, axis: int, back: int) -> Var:
    x = ops.flip(x, axis=0) if back else x
    return ops.moveaxis(x, 0, axis) if axis % x.ndim else x


CONTROL: Mapping[str, Rule] = {"If": branch, "Loop": loop, "Scan": scan}
