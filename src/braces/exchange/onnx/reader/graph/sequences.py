"""Sequences whose length only a run knows: lists of the program.

    SequenceEmpty -> s             nothing; s is known: no values
    Loop(n, s) -> t                t: list<f32[4]> = loop(init=[list_empty()])

A sequence whose length is known while the model is read is a Python list of its values, which
may be of several types. A loop that carries one, or branches that give different ones, make a
list of it, all of whose values have one type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from braces.builder.append import apply, one
from braces.builder.builder import current_program
from braces.builder.var import Var, tensor_type
from braces.dims import Dim, Shape, Size
from braces.dtypes import ListType, TensorType, Type, unifies
from braces.errors import DTypeError, ProgramError
from braces.exchange.common.values.constants import Value
from braces.exchange.onnx.reader.file.dtypes import dtype_named
from braces.exchange.onnx.reader.graph.node import Runner
from braces.frontend.control import lists
from braces.ir.views import LoopView
from braces.ops.control.construct.build import build_block, build_loop_around
from braces.ops.lists.list_to_array import stack
from braces.ops.lists.stack import EMPTY, INDEX_TYPE, list_attrs


def is_list(value: Value) -> TypeGuard[Var]:
    """Whether a value is a list of the program."""
    return isinstance(value, Var) and isinstance(value.type, ListType)


def is_sequence(value: Value) -> TypeGuard[Var | list[Value]]:
    """Whether a value is a sequence, of a known length or not."""
    return isinstance(value, list) or is_list(value)


def element_of(xs: Var) -> TensorType:
    """The type of the values of a list."""
    found = xs.type
    assert isinstance(found, ListType)
    return found.element


def common_type(runner: Runner, values: Sequence[Value]) -> TensorType:
    """The one type of the values of a sequence, of which there are some.

    Raises:
        DTypeError: They are of several types.
    """
    types = [tensor_type(runner.lift(value)) for value in values]
    unifier = current_program().current.unifier
    if not all(unifies(types[0], other, unifier) for other in types[1:]):
        raise DTypeError(
            "A sequence whose length only a run knows holds values of one type.",
            given=", ".join(map(str, dict.fromkeys(types))),
            fix="Fix sizes that the number of trips follows from: sizes= or inputs=.",
        )
    return types[0]


def declared_element(entry: Any) -> TensorType | None:
    """The type of the values of a sequence, as far as a graph says it of an input or output.

    Sizes without a number turn out to be those of what is put in.
    """
    found = entry.type.sequence_type.elem_type.tensor_type
    if not found.elem_type or not found.HasField("shape"):
        return None
    fresh = current_program().current.unifier.fresh

    def size(axis: Any) -> Size:
        return axis.dim_value if axis.HasField("dim_value") else fresh()

    shape: Shape = tuple(map(size, found.shape.dim))
    return TensorType(dtype_named(found.elem_type), shape)


def settled(runner: Runner, value: Value, type_: Type) -> Var:
    """A value as a variable of a kind: an array, or a list, which a sequence becomes.

    Raises:
        ProgramError: A sequence stands for an array, or an array for a sequence.
    """
    if not isinstance(type_, ListType):
        return runner.lift(value)
    if isinstance(value, list):
        return list_of(runner, value, type_.element)
    if not is_list(value):
        raise ProgramError("A sequence is read, and an array is given.")
    return value


def list_of(runner: Runner, values: Sequence[Value], element: TensorType) -> Var:
    """A list of known values."""
    history = current_program().current.names.unique("sequence")
    found = apply(EMPTY, {}, list_attrs(element, history))["out"][0]
    for value in values:
        found = grown(found, runner.lift(value))
    return found


def grown(xs: Var, value: Var) -> Var:
    """A list with one more value at its end."""
    return lists.list_append(xs, _fitted(xs, value))


def inserted(xs: Var, place: Var, value: Var) -> Var:
    """A list with one more value at a place."""
    return one("list_insert", xs, place, _fitted(xs, value))


def stacked(runner: Runner, xs: Var) -> Var:
    """A list as an array; those that are as long as one another have the same size.

    Raises:
        ProgramError: It is in a loop, each trip of which would have another size.
    """
    size = runner.lengths.size(xs)
    if size in runner.lengths.named.values():
        lists.refuse_in_loops(xs)
    return stack(xs, size)


def lost_sizes(type_: TensorType) -> TensorType:
    """A type with unnamed sizes in place of those that nothing outside knows any more."""
    table = current_program().current
    known = {
        name
        for one_table in table.chain()
        for info in one_table.vars.values()
        for size in _shape(info.type)
        if isinstance(size, Dim)
        for name in size.names()
    }

    def kept(size: Size) -> Size:
        inner = isinstance(size, Dim) and not size.names() <= known
        return table.unifier.fresh() if inner else size

    return type_.map_sizes(kept)


def _shape(type_: Type) -> Shape:
    return type_.element.shape if isinstance(type_, ListType) else type_.shape


def repeated(
    count: Var, init: Sequence[Var], build: Callable[[Var, list[Var]], Sequence[Var]]
) -> tuple[Var, ...]:
    """A loop of a number of trips that a run tells: the last values of what it carries."""

    def trip(given: list[Var]) -> Sequence[Var]:
        current_program().current.trip_index = given[0].name
        return build(given[0], given[1:])

    block = build_block([INDEX_TYPE, *(var.type for var in init)], trip)
    view = replace(LoopView.around(block, len(init)), count=count.name)
    return build_loop_around(view, init).finals


def _fitted(xs: Var, value: Var) -> Var:
    """A value for a list, whose sizes may turn out to be those of the value."""
    unifies(element_of(xs), value.type, value.table.unifier)
    return value
