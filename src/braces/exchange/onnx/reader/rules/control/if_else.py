"""Rules of branches.

A known condition selects its branch at import time. The outputs of both branches are brought to
one type. Sequences of different lengths become lists, and so do arrays with different numbers
of rows, which are data-dependent afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from braces.exchange.common.values.constants import Constant, Value
from braces.exchange.onnx.reader.graph.node import GraphScope, OnnxNode
from braces.exchange.onnx.reader.graph.sequences import (
    common_type,
    is_list,
    is_sequence,
    lift_as,
    stack_list,
)
from braces.exchange.onnx.reader.rules.control.row_wise_branch import match_row_wise
from braces.extend import functions as ops, lists
from braces.extend.building import (
    SymbolTable,
    Var,
    current_program,
    emit,
    tensor_type,
    visible_var,
)
from braces.extend.constructs import build_switch, close_block
from braces.extend.types import ListType, Size, TensorType, Type, unifies

Pair: TypeAlias = "tuple[Value, Value]"
GRAPHS = ("else_branch", "then_branch")
"""The attributes with the graphs for false and for true."""
Joined: TypeAlias = "Callable[[list[Var]], Value]"
"""Assembles a value from the outputs of a switch that belong to it."""


def branch(node: OnnxNode) -> tuple[Value, ...]:
    """Convert `If`; a known condition selects one graph at import time."""
    condition = node.maybe_known(0)
    if condition is not None:
        chosen = "then_branch" if condition.numbers().ravel()[0] else "else_branch"
        return tuple(node.names.runner.in_place(node, node.attrs[chosen]))
    return match_row_wise(node) or _switch(node)


def _switch(node: OnnxNode) -> tuple[Value, ...]:
    """Build a switch of both graphs."""
    cases = _Cases(node)
    compared_sizes = _compared_sizes(node.names, node.proto.input[0])
    if cases.ranks[0] != cases.ranks[1]:
        if compared_sizes is not None:
            return _assume_equal_sizes(node, *compared_sizes)
        for name in GRAPHS:
            if _is_pass_through(node.attrs[name]):
                return _assume_pass_through(node, name)
    joins = [cases.add_pair(pair) for pair in zip(*cases.values, strict=True)]
    bodies = [
        close_block(table, lambda values=values: values)
        for table, values in zip(cases.tables, cases.given, strict=True)
    ]
    index = ops.cast(_condition(node), "int32")
    outputs = list(build_switch(index, bodies, total=True)) if cases.given[0] else []
    return tuple(join(outputs) for join in joins)


def _condition(node: OnnxNode) -> Var:
    """Return the condition, which may be an array of one bool, as a scalar."""
    condition = node.var(0)
    return ops.reshape(condition, ()) if condition.ndim else condition


class _Cases:
    """Both graphs, read into blocks that are still open.

    Attributes:
        tables: Their blocks.
        values: Their outputs.
        given: The outputs as variables of their blocks, of the same types.
    """

    def __init__(self, node: OnnxNode) -> None:
        self.node = node
        program = current_program()
        self.tables = [SymbolTable(parent=program.current) for _ in range(2)]
        self.values = list[list[Value]]()
        for table, name in zip(self.tables, GRAPHS, strict=True):
            with program.building(table):
                self.values.append(node.graph(name))
        self.given: list[list[Var]] = [[], []]

    @property
    def ranks(self) -> list[list[int | None]]:
        """The ranks of the outputs that are arrays."""
        return [list(map(self._rank, values)) for values in self.values]

    @staticmethod
    def _rank(value: Value) -> int | None:
        if isinstance(value, Constant):
            return value.array.ndim
        return value.ndim if isinstance(value, Var) and not is_list(value) else None

    def add_pair(self, pair: Sequence[Value]) -> Joined:
        """Add a pair of outputs to both blocks; return the function that reassembles it."""
        no, yes = pair
        if no is None and yes is None:
            return lambda made: None
        if isinstance(no, list) and isinstance(yes, list) and len(no) == len(yes):
            parts = [self.add_pair(values_at) for values_at in zip(no, yes, strict=True)]
            return lambda made: [part(made) for part in parts]
        if is_sequence(no) or is_sequence(yes):
            return self._output([self._of(ListType(self._element(pair)))] * 2, pair)
        lift = self.node.names.runner.lift
        variables = [
            self._build_output(at, lambda value=value: lift(value))
            for at, value in enumerate(pair)
        ]
        if _differ_in_rows(*map(tensor_type, variables)):
            listed = self._output([self._rows] * 2, variables)
            return lambda made: self._stacked(listed(made))
        return self._output([lift] * 2, variables)

    def _output(self, change: Sequence[Callable[[Any], Var]], pair: Sequence[Value]) -> Joined:
        place = len(self.given[0])
        for at, (make, value) in enumerate(zip(change, pair, strict=True)):
            self.given[at].append(
                self._build_output(at, lambda make=make, value=value: make(value))
            )
        return lambda made: made[place]

    def _build_output(self, at: int, build: Callable[[], Var]) -> Var:
        with current_program().building(self.tables[at]):
            return build()

    def _of(self, type_: Type) -> Callable[[Value], Var]:
        return lambda value: lift_as(self.node.names.runner, value, type_)

    def _element(self, pair: Sequence[Value]) -> TensorType:
        """Return the element type of a sequence, which one of the graphs determines."""
        for at, value in enumerate(pair):
            if is_list(value) and isinstance(value.type, ListType):
                return value.type.element
            if isinstance(value, list) and value:
                with current_program().building(self.tables[at]):
                    return common_type(self.node.names.runner, value)
        self.node.refuse("type mismatch of the branches: a sequence and an array")

    def _stacked(self, value: Value) -> Value:
        return stack_list(self.node.names.runner, value) if is_list(value) else value

    def _rows(self, x: Var) -> Var:
        """Return the rows of an array as a list: the list that was stacked, if there is one."""
        table = current_program().current
        maker = next((op for op in reversed(table.ops) if x.name in op.binds()), None)
        if maker is not None and maker.type == "list_stack":
            return visible_var(x.program, table, maker.inputs["list"][0])
        return lists.unstack(x)


def _differ_in_rows(no: TensorType, yes: TensorType) -> bool:
    """Return whether array types differ only in the number of rows."""
    if no.dtype != yes.dtype or no.rank != yes.rank or not no.rank:
        return False
    unifier = current_program().current.unifier
    if unifier.unify(no.shape[0], yes.shape[0]) is not None:
        return False
    first, second = (type_.with_shape(type_.shape[1:]) for type_ in (no, yes))
    return unifies(first, second, unifier)


def _compared_sizes(names: GraphScope, name: str) -> tuple[Size, Size] | None:
    """Return the two sizes whose equality a condition tests, or `None`."""
    definition = names.maker(name)
    while definition is not None and definition[1].op_type in ("Cast", "Identity"):
        definition = definition[0].maker(definition[1].input[0])
    if definition is None or definition[1].op_type != "Equal":
        return None
    compared = OnnxNode.of(definition[0], definition[1])
    operands = [compared.maybe_known(at) for at in range(compared.count)]
    items = [value.items() for value in operands if value is not None and value.array.size == 1]
    return (items[0][0], items[1][0]) if len(items) == 2 else None


def _assume_equal_sizes(node: OnnxNode, size: Size, other: Size) -> tuple[Var, ...]:
    """Read the graph for equal sizes; each run checks the equality first.

    The results of a switch cannot differ in rank. Exporters write `x.squeeze(axis)` as a branch
    on whether a size is 1, which holds in every valid run.
    """
    zeros = ops.broadcast_to(node.names.runner.lift(Constant.of(np.float32(0))), (size,))
    gate = ops.ensure_shape(zeros, (other,))
    then_values = map(node.names.runner.lift, node.graph("then_branch"))
    return tuple(emit("fence", gate, value) for value in then_values)


def _is_pass_through(graph: Any) -> bool:
    """Return whether a graph only returns values from outside."""
    return all(proto.op_type == "Identity" and not proto.domain for proto in graph.node)


def _assume_pass_through(node: OnnxNode, name: str) -> tuple[Var, ...]:
    """Read the graph that passes values on; a run that takes the other one fails.

    The results of a switch cannot differ in rank. The nodes after the branch read values of the
    original rank, so the other graph is never valid. Exporters leave it there by mistake, as
    that of scikit-learn's KNNImputer for columns without any number.
    """
    program, lift = current_program(), node.names.runner.lift
    table = SymbolTable(parent=program.current)
    with program.building(table):
        outputs = [ops.identity(lift(value)) for value in node.graph(name)]
    condition = _condition(node)
    other = condition if name == "else_branch" else ops.logical_not(condition)
    body = close_block(table, lambda: outputs)
    return tuple(build_switch(ops.cast(other, "int32"), [body], total=False))
