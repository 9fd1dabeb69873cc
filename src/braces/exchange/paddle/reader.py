"""Convert the operators of a Paddle program to operators of the current block.

    elementwise_add(X=a, Y=w, axis=1) -> b      b = add(a, reshape(w))
    while(Condition=c, X=..., Out=[i, s])       a loop; c, i and s are its memories
    increment(X=i) -> i                         i is another variable from here on

Names may be reassigned, also by nested blocks: the value of a name changes while operators are
read in order. Errors are collected per operator and reading continues, so that one message
lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from braces.errors import BracesError, ProgramError, ShapeError, did_you_mean
from braces.exchange.common.model.names import clean_name, fetch_as, rename_result
from braces.exchange.common.model.source_lines import own_sources, sources_in
from braces.exchange.common.model.unsupported import MissingValue, UnsupportedNode
from braces.exchange.common.model.weights import add_persistable
from braces.exchange.common.values.constants import Array, Constant, write_constant
from braces.exchange.common.values.speculative_read import (
    Lifted,
    names_lifted,
    read_transaction,
    reporting_invalid_operator,
)
from braces.exchange.paddle.graph.constant_folding import fold_operator
from braces.exchange.paddle.graph.environment import (
    BlockScope,
    ConditionalResult,
    Held,
    RaggedSequences,
    T,
    Value,
    is_list,
)
from braces.exchange.paddle.graph.node import PaddleOp, Results
from braces.exchange.paddle.graph.program_desc import Operator, PaddleBlock
from braces.exchange.paddle.rules import HAVE_AXES, OF_SEQUENCES, ROW_WISE, RULES
from braces.exchange.paddle.rules.control import resolve_cases
from braces.extend import functions as ops
from braces.extend.building import Builder, Var
from braces.extend.programs import PARAMETER, STATE, Source
from braces.extend.types import is_float, product

MOST_OPERATORS = 1 << 17
"""The largest number of operators, where a block counts each time that it is read."""
DEEPEST = 48
"""The deepest nesting of blocks."""


class TooManyOperators(ProgramError):
    """Too many operators, or too deep a nesting."""


@dataclass(eq=False)
class PaddleReader:
    """Reads the operators of one program.

    Attributes:
        program: The program that is built.
        file: The name of the file, for messages.
        blocks: The blocks of the file.
        inputs: The values of the feeds, by name.
        states: The names of arrays without gradients.
        frozen: The names of parameters for which Paddle computes no gradient.
        parameters: The values of persistable variables.
        problems: The unsupported operators.
        chosen: Memoized results of selections, by the names in scope and the values; with both,
            which keeps them alive.
        fetched: The fetches by index: a name and its value.
    """

    program: Builder
    file: str
    blocks: Sequence[PaddleBlock]
    inputs: Mapping[str, Held]
    states: Collection[str] = ()
    frozen: Collection[str] = ()
    parameters: dict[str, Array] = field(default_factory=dict)
    problems: list[UnsupportedNode] = field(default_factory=list)
    chosen: dict[tuple[int, ...], tuple[Var, Sequence[object]]] = field(default_factory=dict)
    fetched: dict[int, tuple[str, Value]] = field(default_factory=dict)
    _lifted: dict[tuple[int, int], Lifted[Constant | ConditionalResult]] = field(
        default_factory=dict
    )
    _count: int = 0
    _depth: int = 0

    def block(self, at: int) -> PaddleBlock:
        """Return a block of the program."""
        return self.blocks[at]

    # ---- operators ---------------------------------------------------------------------------

    def run(self, names: BlockScope, block: int) -> None:
        """Read the operators of a block in order."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooManyOperators(
                f"{self.file} exceeds the maximum depth {DEEPEST} of blocks."
            )
        try:
            operators = self.blocks[block].operators
            names.variables = self.blocks[block].variables
            for at, op in enumerate(operators):
                self._count += 1
                if self._count > MOST_OPERATORS:
                    raise TooManyOperators(
                        f"{self.file} has more than {MOST_OPERATORS} operators."
                    )
                with self.program.at(_source(op) or Source(self.file, self._count)):
                    self._read_node(PaddleOp(names, op, operators[at + 1 :]))
        finally:
            self._depth -= 1

    def _read_node(self, node: PaddleOp) -> None:
        problems = len(self.problems)
        try:
            with self._attempt(), _sensible(node):
                values = self._node_results(node)
                if len(self.problems) > problems:
                    raise MissingValue
        except TooManyOperators:
            raise
        except (BracesError, MissingValue) as error:
            if len(self.problems) == problems:
                self._note_unknown(node.op)
            if isinstance(error, BracesError):
                self._note(node, error)
            node.names.values.update(dict.fromkeys(node.op.output_names(), MissingValue))
            return
        node.names.values.update(values)

    def _note(self, node: PaddleOp, error: BracesError) -> None:
        line = str(_source(node.op) or "")
        self.problems.append(UnsupportedNode(node.type[:80], str(node), error, line))

    def _note_unknown(self, op: Operator, depth: int = 0) -> None:
        """Note the unsupported operators in the blocks of an operator that was not read."""
        blocks = [self.blocks[at] for inner in op.blocks.values() for at in inner]
        for inner in (inner for block in blocks for inner in block.operators):
            if inner.type not in RULES:
                self._note(PaddleOp(BlockScope(self), inner, ()), _unknown(inner.type))
            if depth < DEEPEST:
                self._note_unknown(inner, depth + 1)

    def _attempt(self) -> AbstractContextManager[None]:
        """Return a transaction that an exception rolls back."""
        return read_transaction(self.program, self.parameters, self._lifted, self.chosen)

    def tried(self, build: Callable[[], T]) -> T:
        """Build speculatively, roll back, and return the result."""
        results, problems = list[T](), len(self.problems)
        with suppress(MissingValue), self._attempt():
            results.append(build())
            raise MissingValue
        del self.problems[problems:]
        if not results:
            raise MissingValue
        return results[0]

    def _node_results(self, node: PaddleOp) -> dict[str, Value]:
        """Return the results of an operator by name."""
        if node.type not in RULES:
            raise _unknown(node.type)
        operands = [
            node.names.find(name) for names in node.op.inputs.values() for name in names
        ]
        folded = fold_operator(node, operands)
        if folded is not None:
            return self._bound(node, folded)
        if (
            any(isinstance(value, RaggedSequences) for value in operands)
            and node.type not in OF_SEQUENCES
        ):
            return self._by_rows(node)
        return self._by_rule(node)

    def _by_rule(self, node: PaddleOp) -> dict[str, Value]:
        table = self.program.current
        before, lifted = len(table.ops), len(self._lifted)
        first = next((name for name in node.output_names(node.main)), node.type)
        path = f"{node.names.path}{clean_name(first)}"
        with table.naming(f"{path}/"):
            results = RULES[node.type](node)
        lifted_names = names_lifted(self._lifted, lifted)
        if isinstance(results, Var):
            results = self._as_said(node, first, results)
            results = rename_result(table, before, results, path, lifted_names)
        elif isinstance(results, RaggedSequences):
            flat = rename_result(table, before, results.flat, path, lifted_names)
            results = results.like(flat)
        return self._bound(node, results)

    @staticmethod
    def _as_said(node: PaddleOp, name: str, var: Var) -> Var:
        """Reshape a single number to the declared shape: older versions give it an axis."""
        declaration = node.names.declared(name)
        if (
            declaration is None
            or is_list(var)
            or any(n != 1 for n in (*var.shape, *declaration.dims))
        ):
            return var
        return var if var.ndim == len(declaration.dims) else ops.reshape(var, declaration.dims)

    def _by_rows(self, node: PaddleOp) -> dict[str, Value]:
        """Apply a row-wise operator to the rows of all sequences."""
        if node.type not in ROW_WISE or (node.type in HAVE_AXES and _along_rows(node)):
            node.refuse(
                "unsupported operand with LoD: the operator is not row-wise",
                "Use a sequence operator.",
            )
        names = node.names.inner()
        sequences = list[RaggedSequences]()
        for name in (name for slot_names in node.op.inputs.values() for name in slot_names):
            value = node.names.value(name)
            if isinstance(value, RaggedSequences):
                sequences.append(value)
                value = value.flat
            names.values[name] = value
        like = sequences[0]
        results = self._by_rule(PaddleOp(names, node.op, node.later))
        return {name: self._as_rows(node, like, value) for name, value in results.items()}

    @staticmethod
    def _as_rows(node: PaddleOp, like: RaggedSequences, value: Value) -> Value:
        if not isinstance(value, Var):
            return value
        if not value.ndim or value.shape[0] != product((like.batch, like.time)):
            node.refuse("the result does not keep the rows of its operand with LoD")
        return like.like(value)

    @staticmethod
    def _bound(node: PaddleOp, results: Results) -> dict[str, Value]:
        """Return the values by the output names of the operator."""
        if not isinstance(results, Mapping):
            results = {node.main: results}
        bound = dict[str, Value]()
        for slot, values in results.items():
            slot_values = cast(
                "Sequence[Value]", values if isinstance(values, list) else [values]
            )
            bound.update(zip(node.output_names(slot), slot_values, strict=False))
        return bound

    # ---- values ------------------------------------------------------------------------------

    def lift(self, value: Value) -> Var:
        """Return a value as a variable; a constant is created in the block that reads it."""
        if isinstance(value, Var):
            return value
        if not isinstance(value, Constant | ConditionalResult):
            what = "an array with LoD" if isinstance(value, RaggedSequences) else "no value"
            raise ProgramError(f"expected an array, got {what}.")
        weight = isinstance(value, Constant) and bool(value.weight)
        table = self.program.table if weight else self.program.current
        key = id(value), id(table)
        entry = self._lifted.get(key)
        if entry is None:
            lifted = (
                {value: self._lift(value)}
                if isinstance(value, Constant)
                else resolve_cases(value)
            )
            for one_value, var in lifted.items():
                self._lifted[id(one_value), id(table)] = Lifted(one_value, table, var)
            entry = self._lifted[key]
        return entry.var

    def _lift(self, value: Constant) -> Var:
        if value.weight:
            return self._weight(value)
        return write_constant(self.program, self.parameters, value)

    def _weight(self, value: Constant) -> Var:
        name = value.weight
        state = name in self.states or not is_float(value.dtype)
        return add_persistable(
            self.program, self.parameters, clean_name(name), value.array,
            STATE if state else PARAMETER, frozen=name in self.frozen,
        )  # fmt: skip

    # ---- inputs and outputs ------------------------------------------------------------------

    def feed(self, name: str) -> Value:
        """Return an input of the program.

        Raises:
            Missing: If the input could not be declared.
            ProgramError: If the program has no variable of this name.
        """
        if name not in self.inputs:
            raise ProgramError(f"unknown fed array `{name:.80}`.")
        value_ = self.inputs[name]
        if isinstance(value_, type):
            raise MissingValue(name)
        return value_

    def fetch(self, at: int, name: str, value: Value) -> None:
        """Make a value the output of the program with this index."""
        self.fetched[at] = name, value

    def give(self) -> None:
        """Fetch the outputs; those of sequences with their lengths."""
        for _, (name, value) in sorted(self.fetched.items(), key=lambda entry: entry[0]):
            output_name = clean_name(name, "output")
            if isinstance(value, RaggedSequences):
                fetch_as(self.program, value.masked(), output_name)
                fetch_as(self.program, ops.identity(value.lengths), f"{output_name}.lengths")
            else:
                fetch_as(self.program, self.lift(value), output_name)


def _unknown(op_type: str) -> ProgramError:
    """Return the error of an operator without a rule."""
    return ProgramError("unsupported operator.", fix=did_you_mean(op_type, RULES) or None)


def _along_rows(node: PaddleOp) -> bool:
    """Return whether an operator works along the first axis."""
    axes = [n for name in ("axis", "axes", "dim") for n in node.many(name)]
    return node.type not in ("transpose", "transpose2") and 0 in axes


def _source(op: Operator) -> Source | None:
    """Return the source line of an operator, if the file contains it."""
    stack: Any = op.attrs.get("op_callstack")
    lines = cast("list[Any]", stack) if isinstance(stack, list) else []
    sources = sources_in("\n".join(map(str, lines)))
    own = own_sources(sources) or sources
    return own[-1] if own else None


@contextmanager
def _sensible(node: PaddleOp) -> Generator[None]:
    """Report exceptions of an invalid operator as errors of that operator.

    Attributes may have any type and value. Rules expect those that Paddle writes, and raise on
    others.
    """
    sizes = "Pass the shapes of inputs: shapes={'x': [1, 3, 224, 224]}."
    with reporting_invalid_operator(node.type, sizes, kind=ShapeError):
        yield
