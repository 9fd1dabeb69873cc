"""Rules of sequences, whose length is known while the model is read, and of optionals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from braces.builder.var import Var
from braces.exchange.onnx_in.known import Known, Value
from braces.exchange.onnx_in.node import Node, Rule
from braces.frontend import functions as ops


def sequence(node: Node, at: int = 0) -> list[Value]:
    """An input that is a sequence."""
    found = node.value(at)
    if not isinstance(found, list):
        node.refuse("is given an array in place of a sequence")
    return found


def place(node: Node, at: int, length: int, default: int) -> int:
    """A place in a sequence, from its end where it is negative."""
    found = int(node.number(at, "The position", default))
    found += length if found < 0 else 0
    if not 0 <= found <= length:
        node.refuse(f"has the position {found} in a sequence of {length}")
    return found


def take(node: Node) -> Value:
    """What stands at a place."""
    found = sequence(node)
    at = place(node, 1, len(found), 0)
    if at >= len(found):
        node.refuse(f"has the position {at} in a sequence of {len(found)}")
    return found[at]


def insert(node: Node) -> tuple[Value, ...]:
    """One more value, at a place or at the end."""
    found = list(sequence(node))
    found.insert(place(node, 2, len(found), len(found)), node.value(1))
    return (found,)


def erase(node: Node) -> tuple[Value, ...]:
    """Without the value at a place, or the last one."""
    found = list(sequence(node))
    at = place(node, 1, len(found), len(found) - 1)
    del found[at : at + 1]
    return (found,)


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
    parts = ops.split(x, sections=tuple(_parts(node, x, axis, sizes)), axis=axis)
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
    parts = [node.names.runner.lift(value) for value in sequence(node)]
    function: Callable[..., Var] = ops.stack if node.flag("new_axis") else ops.concat
    return function(parts, axis=node.attr("axis"))


def each(node: Node) -> tuple[Value, ...]:
    """What a graph gives of each value of sequences."""
    values = [node.value(at) for at in range(node.count)]
    made = [list[Value]() for _ in node.attr("body").output]
    for trip in range(len(sequence(node))):
        given = [value[trip] if isinstance(value, list) else value for value in values]
        for collected, value in zip(made, node.graph("body", given), strict=True):
            collected.append(value)
    return tuple(made)


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
    "SequenceLength": lambda node: Known.of(np.int64(len(sequence(node)))),
    "SequenceMap": each,
    "SplitToSequence": split_up,
}
