"""Rules of sequences and of optionals.

A sequence of known length is a Python list that does not exist at run time. Any other is a list
of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from braces.exchange.common.model.unsupported import FIX_SIZE
from braces.exchange.common.values.constants import Constant, Value
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.graph.sequences import (
    append_value,
    common_type,
    counted_loop,
    forget_inner_sizes,
    insert_value,
    is_list,
    is_sequence,
    list_of,
    stack_list,
)
from braces.extend import functions as ops
from braces.extend.building import Var, emit, tensor_type
from braces.extend.types import TensorType

LAST = -1


def sequence(node: OnnxNode, at: int = 0) -> Var | list[Value]:
    """Return an input that is a sequence."""
    sequence_value = node.value(at)
    if not is_sequence(sequence_value):
        node.refuse("expected a sequence, got an array")
    return sequence_value


def known_sequence(node: OnnxNode, place: int) -> Var | list[Value]:
    """Return the first input; as a list of the program if the index is not known."""
    value = sequence(node)
    if not isinstance(value, list) or not node.has(place):
        return value
    return value if node.maybe_known(place) is not None else _listed(node, value)


def _listed(node: OnnxNode, value: Value) -> Var:
    """Return a sequence as a list of the program."""
    if is_list(value):
        return value
    if not isinstance(value, list) or not value:
        node.refuse("unsupported empty sequence")
    runner = node.names.runner
    return list_of(runner, value, common_type(runner, value))


def sequence_index(node: OnnxNode, at: int, length: int, default: int) -> int:
    """Return an index into a sequence; negative ones count from the end."""
    index = int(node.number(at, "The position", default))
    index += length if index < 0 else 0
    if not 0 <= index <= length:
        node.refuse(f"position {index} is out of range for a sequence of length {length}")
    return index


def run_time_index(node: OnnxNode, at: int) -> Var:
    """Return a run-time index into a list."""
    index = node.var(at)
    return ops.reshape(index, ()) if index.ndim else index


def take(node: OnnxNode) -> Value:
    """Convert `SequenceAt`."""
    values = known_sequence(node, 1)
    if not isinstance(values, list):
        return emit("list_get", values, run_time_index(node, 1))
    at = sequence_index(node, 1, len(values), 0)
    if at >= len(values):
        node.refuse(f"position {at} is out of range for a sequence of length {len(values)}")
    return values[at]


def insert(node: OnnxNode) -> tuple[Value, ...]:
    """Insert a value, at an index or at the end."""
    values = known_sequence(node, 2)
    if not isinstance(values, list):
        value = node.var(1)
        if not node.has(2):
            return (append_value(values, value),)
        return (insert_value(values, run_time_index(node, 2), value),)
    extended = list(values)
    extended.insert(sequence_index(node, 2, len(extended), len(extended)), node.value(1))
    return (extended,)


def erase(node: OnnxNode) -> tuple[Value, ...]:
    """Remove the value at an index, or the last one."""
    values = known_sequence(node, 1)
    if not isinstance(values, list):
        return (emit("list_erase", values, run_time_index(node, 1) if node.has(1) else LAST),)
    remaining = list(values)
    at = sequence_index(node, 1, len(remaining), len(remaining) - 1)
    del remaining[at : at + 1]
    return (remaining,)


def length(node: OnnxNode) -> Value:
    """Return the length of a sequence."""
    values = sequence(node)
    if isinstance(values, list):
        return Constant.of(np.int64(len(values)))
    return emit("list_length", values)


def split_up(node: OnnxNode) -> tuple[Value, ...]:
    """Split an array into a sequence."""
    x = node.var(0)
    axis = node.axis("axis", 0, x.ndim)
    sizes = node.maybe_known(1)
    if sizes is None:
        size = x.shape[axis]
        if node.has(1) or not isinstance(size, int):
            node.refuse("the length of the sequence depends on a symbolic size", FIX_SIZE)
        singles = ops.split(x, sections=(1,) * size, axis=axis)
        if node.flag("keepdims", default=True):
            return (list[Value](singles),)
        return ([ops.squeeze(part, axis=axis) for part in singles],)
    sections = tuple(_section_lengths(node, x, axis, sizes))
    if not isinstance(x.shape[axis], int):  # each run checks that the parts add up
        checked_shape = (*x.shape[:axis], sum(sections), *x.shape[axis + 1 :])
        x = ops.ensure_shape(x, checked_shape)
    parts = ops.split(x, sections=sections, axis=axis)
    return (list[Value](parts),)


def _section_lengths(node: OnnxNode, x: Var, axis: int, sizes: Constant) -> list[int]:
    lengths = [int(n) for n in sizes.numbers().ravel()]
    if sizes.array.ndim:
        return lengths
    total, (part,) = x.shape[axis], lengths
    if not isinstance(total, int):
        node.refuse("the length of the sequence depends on a symbolic size", FIX_SIZE)
    remainder = total % part
    return [part] * (total // part) + ([remainder] if remainder else [])


def concat_from_sequence(node: OnnxNode) -> Var:
    """Concatenate or stack a sequence."""
    values, axis = sequence(node), node.attr("axis")
    if not isinstance(values, list):
        rows = stack_list(node.names.runner, values)
        return _merge_rows(rows, axis, node.flag("new_axis"))
    parts = [node.names.runner.lift(value) for value in values]
    function: Callable[..., Var] = ops.stack if node.flag("new_axis") else ops.concat
    return function(parts, axis=axis)


def _merge_rows(rows: Var, axis: int, new: bool) -> Var:
    """Merge the stacked rows of a list along another axis, or as a new axis."""
    axis %= rows.ndim if new else rows.ndim - 1
    reordered = ops.moveaxis(rows, 0, axis) if axis else rows
    if new:
        return reordered
    count, size = reordered.shape[axis : axis + 2]
    return ops.reshape(
        reordered, (*reordered.shape[:axis], count * size, *reordered.shape[axis + 2 :])
    )


# ---- maps ------------------------------------------------------------------------------------


def sequence_map(node: OnnxNode) -> tuple[Value, ...]:
    """Map a graph over the values of sequences."""
    values = [node.value(at) for at in range(node.count)]
    if any(is_list(value) for value in values):
        return _map_lists(node, values)
    results = [list[Value]() for _ in node.attr("body").output]
    first = sequence(node)
    assert isinstance(first, list)
    for index in range(len(first)):
        operands = [value[index] if isinstance(value, list) else value for value in values]
        for collected, value in zip(results, node.graph("body", operands), strict=True):
            collected.append(value)
    return tuple(results)


def _map_lists(node: OnnxNode, values: Sequence[Value]) -> tuple[Value, ...]:
    """Map a graph over lists of the program, by a loop."""
    runner = node.names.runner
    operands = [_listed(node, value) if is_sequence(value) else value for value in values]
    first = next(value for value in operands if is_list(value))

    def at(index: Var) -> list[Var]:
        elements_at = [emit("list_get", v, index) if is_list(v) else v for v in operands]
        return [runner.lift(value) for value in node.graph("body", elements_at)]

    def append_results(index: Var, before: list[Var]) -> list[Var]:
        return [append_value(xs, value) for xs, value in zip(before, at(index), strict=True)]

    def types() -> list[TensorType]:
        start = runner.lift(Constant.of(np.int64(0)))
        return [tensor_type(value) for value in at(start)]

    elements = runner.trial(types)
    if elements is None:
        node.refuse("unsupported body")
    init = [list_of(runner, (), forget_inner_sizes(element)) for element in elements]
    return counted_loop(emit("list_length", first), init, append_results)


def optional(node: OnnxNode) -> tuple[Value, ...]:
    """Convert `Optional`: a value that may be missing."""
    return (node.value(0) if node.count else None,)


def content(node: OnnxNode) -> tuple[Value, ...]:
    """Return the value of an optional."""
    if not node.has(0):
        node.refuse("unsupported empty optional")
    return (node.value(0),)


SEQUENCES: Mapping[str, Rule] = {
    "ConcatFromSequence": concat_from_sequence,
    "Optional": optional,
    "OptionalGetElement": content,
    "OptionalHasElement": lambda node: Constant.of(np.bool_(node.count > 0 and node.has(0))),
    "SequenceAt": take,
    "SequenceConstruct": lambda node: ([node.value(at) for at in range(node.count)],),
    "SequenceEmpty": lambda node: ([],),
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SequenceMap": sequence_map,
    "SplitToSequence": split_up,
}
