"""Sequences of data-dependent length: lists of the program.

    SequenceEmpty -> s             nothing; s is known: no values
    Loop(n, s) -> t                t: list<f32[4]> = loop(init=[list_empty()])

A sequence of known length is a Python list of its values, which may be of several types. It
becomes a list of the program as a loop carry, or as the result of branches with different
lengths. All values of a list have one type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from braces.errors import DTypeError, ProgramError
from braces.exchange.common.values.constants import Value
from braces.exchange.onnx.reader.file.dtypes import dtype_named
from braces.exchange.onnx.reader.graph.node import NodeReader
from braces.extend import lists
from braces.extend.building import (
    EMPTY,
    INDEX_TYPE,
    Var,
    append_stack,
    apply,
    current_program,
    emit,
    list_attrs,
    tensor_type,
)
from braces.extend.constructs import LoopView, build_block, build_loop_around
from braces.extend.types import Dim, ListType, Shape, Size, TensorType, Type, unifies


def is_list(value: Value) -> TypeGuard[Var]:
    """Return whether a value is a list of the program."""
    return isinstance(value, Var) and isinstance(value.type, ListType)


def is_sequence(value: Value) -> TypeGuard[Var | list[Value]]:
    """Return whether a value is a sequence, of known length or not."""
    return isinstance(value, list) or is_list(value)


def element_of(xs: Var) -> TensorType:
    """Return the element type of a list."""
    list_type = xs.type
    assert isinstance(list_type, ListType)
    return list_type.element


def common_type(runner: NodeReader, values: Sequence[Value]) -> TensorType:
    """Return the common type of the values of a sequence that is not empty.

    Raises:
        DTypeError: If the values differ in type.
    """
    types = [tensor_type(runner.lift(value)) for value in values]
    unifier = current_program().current.unifier
    if not all(unifies(types[0], other, unifier) for other in types[1:]):
        raise DTypeError(
            "type mismatch: a sequence of data-dependent length requires elements of one type.",
            given=", ".join(map(str, dict.fromkeys(types))),
            fix="Make the number of iterations static by sizes= or inputs=.",
        )
    return types[0]


def declared_element(entry: Any) -> TensorType | None:
    """Return the declared element type of a sequence that is an input or output of a graph.

    Sizes without a number are fresh: they are unified with those of the elements.
    """
    tensor_type_ = entry.type.sequence_type.elem_type.tensor_type
    if not tensor_type_.elem_type or not tensor_type_.HasField("shape"):
        return None
    fresh = current_program().current.unifier.fresh

    def size(axis: Any) -> Size:
        return axis.dim_value if axis.HasField("dim_value") else fresh()

    shape: Shape = tuple(map(size, tensor_type_.shape.dim))
    return TensorType(dtype_named(tensor_type_.elem_type), shape)


def lift_as(runner: NodeReader, value: Value, type_: Type) -> Var:
    """Return a value as a variable: an array, or a list if the type is one.

    Raises:
        ProgramError: If the value is a sequence and the type an array, or the reverse.
    """
    if not isinstance(type_, ListType):
        return runner.lift(value)
    if isinstance(value, list):
        return list_of(runner, value, type_.element)
    if not is_list(value):
        raise ProgramError("expected a sequence, got an array.")
    return value


def list_of(runner: NodeReader, values: Sequence[Value], element: TensorType) -> Var:
    """Return a list of known values."""
    list_name = current_program().current.names.unique("sequence")
    xs = apply(EMPTY, {}, list_attrs(element, list_name))["out"][0]
    for value in values:
        xs = append_value(xs, runner.lift(value))
    return xs


def append_value(xs: Var, value: Var) -> Var:
    """Append a value to a list."""
    return lists.append(xs, _unify_element(xs, value))


def insert_value(xs: Var, place: Var, value: Var) -> Var:
    """Insert a value into a list."""
    return emit("list_insert", xs, place, _unify_element(xs, value))


def stack_list(runner: NodeReader, xs: Var) -> Var:
    """Stack a list; lists of equal length get the same size.

    Raises:
        ProgramError: If the list is in a loop, where the size would differ between iterations.
    """
    size = runner.lengths.size(xs)
    if size in runner.lengths.named.values():
        lists.refuse_in_loops(xs)
    return append_stack(xs, size)


def forget_inner_sizes(type_: TensorType) -> TensorType:
    """Replace the sizes of a type that are not visible outside by unnamed sizes."""
    table = current_program().current
    visible_names = {
        name
        for one_table in table.chain()
        for info in one_table.vars.values()
        for size in _shape(info.type)
        if isinstance(size, Dim)
        for name in size.names()
    }

    def visible_size(size: Size) -> Size:
        is_inner = isinstance(size, Dim) and not size.names() <= visible_names
        return table.unifier.fresh() if is_inner else size

    return type_.map_sizes(visible_size)


def _shape(type_: Type) -> Shape:
    return type_.element.shape if isinstance(type_, ListType) else type_.shape


def counted_loop(
    count: Var, init: Sequence[Var], build: Callable[[Var, list[Var]], Sequence[Var]]
) -> tuple[Var, ...]:
    """Build a loop with a data-dependent trip count; return the final carries."""

    def step(arguments: list[Var]) -> Sequence[Var]:
        current_program().current.trip_index = arguments[0].name
        return build(arguments[0], arguments[1:])

    block = build_block([INDEX_TYPE, *(var.type for var in init)], step)
    view = replace(LoopView.around(block, len(init)), count=count.name)
    return build_loop_around(view, init).finals


def _unify_element(xs: Var, value: Var) -> Var:
    """Unify the sizes of a list's elements with those of a value."""
    unifies(element_of(xs), value.type, value.table.unifier)
    return value
