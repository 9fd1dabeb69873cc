"""Export lists as sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from braces.exchange.onnx.writer.graph import dtype_widening as widths, loop_if
from braces.exchange.onnx.writer.graph.graph import OnnxGraph, code_of
from braces.exchange.onnx.writer.graph.loop_if import IterationResult
from braces.exchange.onnx.writer.graph.node import NodeDesc, Rule
from braces.exchange.onnx.writer.primitives.shape import fill_type
from braces.extend.types import INT64, ListType, TensorType


def empty(n: NodeDesc) -> str:
    """An empty sequence."""
    return _empty(n.g, _element(n))


def push(n: NodeDesc) -> str:
    """Append a value."""
    return n.g.op("SequenceInsert", n.input("list"), n.input("value"))


def pop(n: NodeDesc) -> tuple[str, str]:
    """The last value, and the sequence without it."""
    last = n.g.constant(-1, INT64)
    sequence = n.input("list")
    return n.g.op("SequenceAt", sequence, last), n.g.op("SequenceErase", sequence, last)


def get_at(n: NodeDesc) -> str:
    """The value at an index."""
    return n.g.op("SequenceAt", n.input("list"), _as_int64(n, "index"))


def erase_at(n: NodeDesc) -> str:
    """Remove the value at an index."""
    return n.g.op("SequenceErase", n.input("list"), _as_int64(n, "index"))


def insert_at(n: NodeDesc) -> str:
    """Insert a value at an index."""
    return n.g.op("SequenceInsert", n.input("list"), n.input("value"), _as_int64(n, "index"))


def replace_at(n: NodeDesc) -> str:
    """Replace the value at an index."""
    return _replace_element(n, _from_front(n), n.input("value"))


def add_to_element(n: NodeDesc) -> str:
    """Add to the value at an index."""
    index = _from_front(n)
    before = n.g.op("SequenceAt", n.input("list"), index)
    value = widths.widened_op(n.g, "Add", before, n.input("value"), dtype=_element(n).dtype)
    return _replace_element(n, index, value)


def resize_list(n: NodeDesc) -> tuple[str, str]:
    """Resize a sequence; new values are zeros."""
    sequence, element = n.input("list"), _element(n)
    before = n.g.op("SequenceLength", sequence)

    def value(g: OnnxGraph, index: str) -> str:
        exists = g.op("Less", index, before)
        return loop_if.branch(
            g,
            n.label,
            exists,
            lambda inner: [inner.op("SequenceAt", sequence, index)],
            lambda inner: [fill_type(inner, 0, element)],
            [element],
        )[0]

    return _collect_values(n, _as_int64(n, "length"), value, element), before


def _as_int64(n: NodeDesc, slot: str) -> str:
    return widths.cast_value(n.g, n.input(slot), n.type(slot).dtype, INT64)


def _from_front(n: NodeDesc) -> str:
    """Return an index counted from the front; negative ones count from the end."""
    g, index = n.g, _as_int64(n, "index")
    from_end = g.op("Add", index, g.op("SequenceLength", n.input("list")))
    return g.op("Where", g.op("Less", index, g.constant(0, INT64)), from_end, index)


def _replace_element(n: NodeDesc, place: str, value: str) -> str:
    remaining = n.g.op("SequenceErase", n.input("list"), place)
    return n.g.op("SequenceInsert", remaining, value, place)


def length(n: NodeDesc) -> str:
    """The length of a sequence."""
    return n.g.op("SequenceLength", n.input("list"))


def zeros(n: NodeDesc) -> str:
    """A sequence of zeros of the same length."""
    element, count = _element(n), n.g.op("SequenceLength", n.input("list"))
    return _collect_values(n, count, lambda inner, index: fill_type(inner, 0, element), element)


def extend_list(n: NodeDesc) -> str:
    """Append the values of another sequence."""
    sequence, element = n.input("values"), _element(n)

    def step(g: OnnxGraph, index: str, carried: list[str]) -> IterationResult:
        return IterationResult(
            [g.op("SequenceInsert", carried[0], g.op("SequenceAt", sequence, index))]
        )

    inits, count = [n.input("list")], n.g.op("SequenceLength", sequence)
    return loop_if.loop(n.g, n.label, inits, [ListType(element)], step, count=count).carried[0]


def split_list(n: NodeDesc) -> tuple[str, str]:
    """Split off the last values of a sequence."""
    sequence, element = n.input("list"), _element(n)
    count, last = _as_int64(n, "count"), n.g.constant(-1, INT64)
    first_index = n.g.op("Sub", n.g.op("SequenceLength", sequence), count)

    def value(g: OnnxGraph, index: str) -> str:
        return g.op("SequenceAt", sequence, g.op("Add", first_index, index))

    def shorter(g: OnnxGraph, index: str, carried: list[str]) -> IterationResult:
        del index
        return IterationResult([g.op("SequenceErase", carried[0], last)])

    values = _collect_values(n, count, value, element)
    types = [ListType(element)]
    return values, loop_if.loop(n.g, n.label, [sequence], types, shorter, count=count).carried[
        0
    ]


def add_lists(n: NodeDesc) -> str:
    """Elementwise addition of two sequences."""
    dtype = _element(n).dtype

    def plus(g: OnnxGraph, x: str, y: str) -> str:
        return widths.widened_op(g, "Add", x, y, dtype=dtype)

    return _map_values(n, (n.input("x"), n.input("y")), plus)


def stack_list(n: NodeDesc) -> str:
    """Stack a sequence; an empty one gives an array with the same rank."""
    g, type_ = n.g, n.result()
    sequence = n.input("list")
    is_nonempty = g.op("Greater", g.op("SequenceLength", sequence), g.constant(0, INT64))
    element_type = type_.with_shape(type_.shape[1:])

    def stack_values(inner: OnnxGraph) -> Sequence[str]:
        return [inner.op("ConcatFromSequence", sequence, axis=0, new_axis=1)]

    def empty_stack(inner: OnnxGraph) -> Sequence[str]:
        return [fill_type(inner, 0, element_type.with_shape((0, *element_type.shape)))]

    return loop_if.branch(g, n.label, is_nonempty, stack_values, empty_stack, [type_])[0]


def unstack_array(n: NodeDesc) -> str:
    """The rows of an array, or the first of them, as a sequence."""
    g, element = n.g, _element(n)
    x = n.input("x")
    count_names = n.op.inputs.get("count", ())
    count = g.name(count_names[0]) if count_names else g.number(n.type("x").shape[0])
    return _collect_values(
        n, count, lambda inner, index: loop_if.take_index(inner, x, index), element
    )


def filled_list(n: NodeDesc) -> str:
    """A sequence of zeros."""
    element = _element(n)
    count = widths.cast_value(n.g, n.input("length"), n.type("length").dtype, INT64)
    return _collect_values(n, count, lambda inner, index: fill_type(inner, 0, element), element)


def _element(n: NodeDesc) -> TensorType:
    list_type = n.types[0]
    assert isinstance(list_type, ListType)
    return list_type.element


def _empty(g: OnnxGraph, element: TensorType) -> str:
    return g.op("SequenceEmpty", dtype=code_of(element.dtype))


def _map_values(n: NodeDesc, sequences: Sequence[str], change: Callable[..., str]) -> str:
    def value(g: OnnxGraph, index: str) -> str:
        return change(g, *(g.op("SequenceAt", sequence, index) for sequence in sequences))

    return _collect_values(n, n.g.op("SequenceLength", sequences[0]), value, _element(n))


def _collect_values(
    n: NodeDesc, count: str, value: Callable[[OnnxGraph, str], str], element: TensorType
) -> str:
    """Build a sequence of computed values."""

    def step(g: OnnxGraph, index: str, carried: list[str]) -> IterationResult:
        return IterationResult([g.op("SequenceInsert", carried[0], value(g, index))])

    init = _empty(n.g, element)
    outputs = loop_if.loop(n.g, n.label, [init], [ListType(element)], step, count=count)
    return outputs.carried[0]


LISTS: Mapping[str, Rule] = {
    "list_add": add_lists,
    "list_add_at": add_to_element,
    "list_empty": empty,
    "list_erase": erase_at,
    "list_extend": extend_list,
    "list_filled": filled_list,
    "list_get": get_at,
    "list_insert": insert_at,
    "list_length": length,
    "list_pop": pop,
    "list_push": push,
    "list_resize": resize_list,
    "list_set": replace_at,
    "list_split": split_list,
    "list_stack": stack_list,
    "list_unstack": unstack_array,
    "list_zeros": zeros,
}
