"""Lists as sequences: the history of loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from braces.dtypes import INT64, ListType, TensorType
from braces.exchange.onnx_out import loops, widths
from braces.exchange.onnx_out.graph import Graph, code_of
from braces.exchange.onnx_out.loops import Trip
from braces.exchange.onnx_out.node import Node, Rule
from braces.exchange.onnx_out.primitives.shapes import filled


def empty(n: Node) -> str:
    """A sequence of nothing."""
    return _empty(n.g, _element(n))


def push(n: Node) -> str:
    """One more value at the end."""
    return n.g.op("SequenceInsert", n.input("list"), n.input("value"))


def pop(n: Node) -> tuple[str, str]:
    """The last value, and the sequence without it."""
    last = n.g.constant(-1, INT64)
    sequence = n.input("list")
    return n.g.op("SequenceAt", sequence, last), n.g.op("SequenceErase", sequence, last)


def length(n: Node) -> str:
    """How many values there are."""
    return n.g.op("SequenceLength", n.input("list"))


def zeros(n: Node) -> str:
    """A zero in place of each value."""
    zero = partial(filled, number=0.0, type_=_element(n))

    def blank(g: Graph, value: str) -> str:
        del value
        return zero(g)

    return _mapped(n, (n.input("list"),), blank)


def added(n: Node) -> str:
    """The sums of values at the same place."""
    dtype = _element(n).dtype

    def plus(g: Graph, x: str, y: str) -> str:
        return widths.same(g, "Add", x, y, dtype=dtype)

    return _mapped(n, (n.input("x"), n.input("y")), plus)


def stacked(n: Node) -> str:
    """All values as one array; of none, one of as many axes."""
    g, type_ = n.g, n.result()
    sequence = n.input("list")
    some = g.op("Greater", g.op("SequenceLength", sequence), g.constant(0, INT64))
    row = type_.with_shape(type_.shape[1:])

    def joined(inner: Graph) -> Sequence[str]:
        return [inner.op("ConcatFromSequence", sequence, axis=0, new_axis=1)]

    def nothing(inner: Graph) -> Sequence[str]:
        return [filled(inner, 0, row.with_shape((0, *row.shape)))]

    return loops.branch(g, n.label, some, joined, nothing, [type_])[0]


def unstacked(n: Node) -> str:
    """The rows of an array, or the first of them, as a sequence."""
    g, element = n.g, _element(n)
    x = n.input("x")
    told = n.op.inputs.get("count", ())
    count = g.name(told[0]) if told else g.number(n.type("x").shape[0])
    return _repeated(n, count, lambda inner, index: loops.at(inner, x, index), element)


def repeated(n: Node) -> str:
    """So many zeros."""
    element = _element(n)
    count = widths.moved(n.g, n.input("length"), n.type("length").dtype, INT64)
    return _repeated(n, count, lambda inner, index: filled(inner, 0, element), element)


def _element(n: Node) -> TensorType:
    found = n.types[0]
    assert isinstance(found, ListType)
    return found.element


def _empty(g: Graph, element: TensorType) -> str:
    return g.op("SequenceEmpty", dtype=code_of(element.dtype))


def _mapped(n: Node, sequences: Sequence[str], change: Callable[..., str]) -> str:
    def value(g: Graph, index: str) -> str:
        return change(g, *(g.op("SequenceAt", one, index) for one in sequences))

    return _repeated(n, n.g.op("SequenceLength", sequences[0]), value, _element(n))


def _repeated(
    n: Node, count: str, value: Callable[[Graph, str], str], element: TensorType
) -> str:
    """A sequence of so many values."""

    def step(g: Graph, index: str, carried: list[str]) -> Trip:
        return Trip([g.op("SequenceInsert", carried[0], value(g, index))])

    init = _empty(n.g, element)
    made = loops.loop(n.g, n.label, [init], [ListType(element)], step, count=count)
    return made.carried[0]


LISTS: Mapping[str, Rule] = {
    "list_add": added,
    "list_empty": empty,
    "list_filled": repeated,
    "list_length": length,
    "list_pop": pop,
    "list_push": push,
    "list_stack": stacked,
    "list_unstack": unstacked,
    "list_zeros": zeros,
}
