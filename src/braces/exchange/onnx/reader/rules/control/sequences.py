"""Rules of sequences and of optionals.

A sequence whose length is known while the model is read is a Python list; nothing of it is
computed in a run. Any other is a list of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from braces.builder.append import one
from braces.builder.var import Var, tensor_type
from braces.dtypes import TensorType
from braces.exchange.common.values.constants import Known, Value
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.exchange.onnx.reader.graph.sequences import (
    common_type,
    grown,
    inserted,
    is_list,
    is_sequence,
    list_of,
    lost_sizes,
    repeated,
    stacked,
)
from braces.frontend.core import functions as ops

LAST = -1


def sequence(node: Node, at: int = 0) -> Var | list[Value]:
    """An input that is a sequence."""
    found = node.value(at)
    if not is_sequence(found):
        node.refuse("is given an array in place of a sequence")
    return found


def known_sequence(node: Node, place: int) -> Var | list[Value]:
    """The first input; as a list of the program where only a run tells the place in it."""
    found = sequence(node)
    if not isinstance(found, list) or not node.has(place):
        return found
    return found if node.maybe_known(place) is not None else _listed(node, found)


def _listed(node: Node, found: Value) -> Var:
    """A sequence as a list of the program."""
    if is_list(found):
        return found
    if not isinstance(found, list) or not found:
        node.refuse("is given a sequence without values")
    runner = node.names.runner
    return list_of(runner, found, common_type(runner, found))


def place(node: Node, at: int, length: int, default: int) -> int:
    """A place in a sequence, from its end where it is negative."""
    found = int(node.number(at, "The position", default))
    found += length if found < 0 else 0
    if not 0 <= found <= length:
        node.refuse(f"has the position {found} in a sequence of {length}")
    return found


def told_place(node: Node, at: int) -> Var:
    """A place in a list."""
    found = node.var(at)
    return ops.reshape(found, ()) if found.ndim else found


def take(node: Node) -> Value:
    """What stands at a place."""
    found = known_sequence(node, 1)
    if not isinstance(found, list):
        return one("list_get", found, told_place(node, 1))
    at = place(node, 1, len(found), 0)
    if at >= len(found):
        node.refuse(f"has the position {at} in a sequence of {len(found)}")
    return found[at]


def insert(node: Node) -> tuple[Value, ...]:
    """One more value, at a place or at the end."""
    found = known_sequence(node, 2)
    if not isinstance(found, list):
        value = node.var(1)
        if not node.has(2):
            return (grown(found, value),)
        return (inserted(found, told_place(node, 2), value),)
    made = list(found)
    made.insert(place(node, 2, len(made), len(made)), node.value(1))
    return (made,)


def erase(node: Node) -> tuple[Value, ...]:
    """Without the value at a place, or the last one."""
    found = known_sequence(node, 1)
    if not isinstance(found, list):
        return (one("list_erase", found, told_place(node, 1) if node.has(1) else LAST),)
    made = list(found)
    at = place(node, 1, len(made), len(made) - 1)
    del made[at : at + 1]
    return (made,)


def length(node: Node) -> Value:
    """How many values there are."""
    found = sequence(node)
    if isinstance(found, list):
        return Known.of(np.int64(len(found)))
    return one("list_length", found)


def split_up(node: Node) -> tuple[Value, ...]:
    """Parts of an array as a sequence."""
    x = node.var(0)
    axis = node.axis("axis", 0, x.ndim)
    sizes = node.maybe_known(1)
    if sizes is None:
        size = x.shape[axis]
        if node.has(1) or not isinstance(size, int):
            node.refuse("has a length that follows from a symbolic size", "Fix it: sizes=.")
        ones = ops.split(x, sections=(1,) * size, axis=axis)
        if node.flag("keepdims", default=True):
            return (list[Value](ones),)
        return ([ops.squeeze(part, axis=axis) for part in ones],)
    sections = tuple(_parts(node, x, axis, sizes))
    if not isinstance(x.shape[axis], int):  # a run looks whether the parts make it up
        whole = (*x.shape[:axis], sum(sections), *x.shape[axis + 1 :])
        x = ops.ensure_shape(x, whole)
    parts = ops.split(x, sections=sections, axis=axis)
    return (list[Value](parts),)


def _parts(node: Node, x: Var, axis: int, sizes: Known) -> list[int]:
    found = [int(n) for n in sizes.numbers().ravel()]
    if sizes.array.ndim:
        return found
    whole, (part,) = x.shape[axis], found
    if not isinstance(whole, int):
        node.refuse("has a length that follows from a symbolic size", "Fix it: sizes=.")
    rest = whole % part
    return [part] * (whole // part) + ([rest] if rest else [])


def joined(node: Node) -> Var:
    """All of a sequence as one array, along an axis or a new one."""
    found, axis = sequence(node), node.attr("axis")
    if not isinstance(found, list):
        rows = stacked(node.names.runner, found)
        return _joined_rows(rows, axis, node.flag("new_axis"))
    parts = [node.names.runner.lift(value) for value in found]
    function: Callable[..., Var] = ops.stack if node.flag("new_axis") else ops.concat
    return function(parts, axis=axis)


def _joined_rows(rows: Var, axis: int, new: bool) -> Var:
    """Rows along another axis, which is their own or goes on in one of theirs."""
    axis %= rows.ndim if new else rows.ndim - 1
    moved = ops.moveaxis(rows, 0, axis) if axis else rows
    if new:
        return moved
    count, size = moved.shape[axis : axis + 2]
    return ops.reshape(moved, (*moved.shape[:axis], count * size, *moved.shape[axis + 2 :]))


# ---- maps ------------------------------------------------------------------------------------


def each(node: Node) -> tuple[Value, ...]:
    """What a graph gives of each value of sequences."""
    values = [node.value(at) for at in range(node.count)]
    if any(is_list(value) for value in values):
        return _each_of_lists(node, values)
    made = [list[Value]() for _ in node.attr("body").output]
    first = sequence(node)
    assert isinstance(first, list)
    for trip in range(len(first)):
        given = [value[trip] if isinstance(value, list) else value for value in values]
        for collected, value in zip(made, node.graph("body", given), strict=True):
            collected.append(value)
    return tuple(made)


def _each_of_lists(node: Node, values: Sequence[Value]) -> tuple[Value, ...]:
    """The same of lists of the program: a loop that gives lists."""
    runner = node.names.runner
    given = [_listed(node, value) if is_sequence(value) else value for value in values]
    first = next(value for value in given if is_list(value))

    def at(index: Var) -> list[Var]:
        pieces = [one("list_get", v, index) if is_list(v) else v for v in given]
        return [runner.lift(value) for value in node.graph("body", pieces)]

    def trip(index: Var, before: list[Var]) -> list[Var]:
        return [grown(xs, value) for xs, value in zip(before, at(index), strict=True)]

    def types() -> list[TensorType]:
        start = runner.lift(Known.of(np.int64(0)))
        return [tensor_type(value) for value in at(start)]

    elements = runner.trial(types)
    if elements is None:
        node.refuse("has a graph that cannot be read")
    init = [list_of(runner, (), lost_sizes(element)) for element in elements]
    return repeated(one("list_length", first), init, trip)


def optional(node: Node) -> tuple[Value, ...]:
    """A value that may be missing."""
    return (node.value(0) if node.count else None,)


def content(node: Node) -> tuple[Value, ...]:
    """The value of an optional."""
    if not node.has(0):
        node.refuse("is given an optional without a value")
    return (node.value(0),)


SEQUENCES: Mapping[str, Rule] = {
    "ConcatFromSequence": joined,
    "Optional": optional,
    "OptionalGetElement": content,
    "OptionalHasElement": lambda node: Known.of(np.bool_(node.count > 0 and node.has(0))),
    "SequenceAt": take,
    "SequenceConstruct": lambda node: ([node.value(at) for at in range(node.count)],),
    "SequenceEmpty": lambda node: ([],),
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SequenceMap": each,
    "SplitToSequence": split_up,
}
