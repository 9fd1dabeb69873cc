"""From the operators of a program of Paddle to operators of the current block.

    elementwise_add(X=a, Y=w, axis=1) -> b      b = add(a, reshape(w))
    while(Condition=c, X=..., Out=[i, s])       a loop; i and s are its memories, and so is c
    increment(X=i) -> i                         i stands for another variable from here on

Names may be written again, by blocks inside too: what a name stands for changes while operators
are read in order. What cannot be read is noted with its operator, and so the rest is read all
the same: a user learns of everything at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.dims import product
from braces.dtypes import is_float
from braces.errors import BracesError, ProgramError, ShapeError, did_you_mean
from braces.exchange.common.model.names import cleaned, give, rename_made
from braces.exchange.common.model.unsupported import Missing, Problem
from braces.exchange.common.model.weights import persistable
from braces.exchange.common.values.constants import Array, Known, written
from braces.exchange.common.values.speculative_read import (
    Lifted,
    attempt,
    names_lifted,
    sensible,
)
from braces.exchange.paddle.graph.constant_folding import fold
from braces.exchange.paddle.graph.environment import Case, Held, Names, Rows, T, Value, is_list
from braces.exchange.paddle.graph.node import Node, Results
from braces.exchange.paddle.graph.program_desc import Block, Operator
from braces.exchange.paddle.rules import ALONG, EACH_ROW, OF_SEQUENCES, RULES
from braces.exchange.paddle.rules.control import resolved
from braces.frontend.core import functions as ops
from braces.ir.records import PARAMETER, STATE, Source

MOST_OPERATORS = 1 << 17
"""What a program has at most, those of a block counted each time that it is read."""
DEEPEST = 48
"""Blocks within blocks."""
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)')
_FOREIGN = re.compile(r"<|[/\\](site|dist)-packages[/\\]")
"""Files that are no code of a user: Paddle's own, and what it calls them by."""


class Endless(ProgramError):
    """So many operators, or so deep, that reading them would take forever."""


@dataclass(eq=False)
class Reader:
    """Reads the operators of one program.

    Attributes:
        program: What is built.
        file: What messages call it.
        blocks: What the file says.
        inputs: What the feeds of the program stand for, by name.
        states: The names of arrays that no gradient moves.
        frozen: The names of parameters that Paddle gives no gradient.
        parameters: What the persistables of the program hold.
        problems: What could not be read.
        chosen: What was chosen of several values, by the names that are seen and the values;
            with the values.
        fetched: What the program gives, by place: a name, and what it stands for.
    """

    program: Builder
    file: str
    blocks: Sequence[Block]
    inputs: Mapping[str, Held]
    states: Collection[str] = ()
    frozen: Collection[str] = ()
    parameters: dict[str, Array] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    chosen: dict[tuple[int, ...], tuple[Var, Sequence[Value]]] = field(default_factory=dict)
    fetched: dict[int, tuple[str, Value]] = field(default_factory=dict)
    _lifted: dict[tuple[int, int], Lifted[Known | Case]] = field(default_factory=dict)
    _count: int = 0
    _depth: int = 0

    def block(self, at: int) -> Block:
        """A block of the program."""
        return self.blocks[at]

    # ---- operators ---------------------------------------------------------------------------

    def run(self, names: Names, block: int) -> None:
        """Read the operators of a block, in order."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise Endless(f"Blocks of {self.file} nest deeper than {DEEPEST}.")
        try:
            operators = self.blocks[block].operators
            names.variables = self.blocks[block].variables
            for at, op in enumerate(operators):
                self._count += 1
                if self._count > MOST_OPERATORS:
                    raise Endless(f"{self.file} has more than {MOST_OPERATORS} operators.")
                with self.program.at(_source(op) or Source(self.file, self._count)):
                    self._read(Node(names, op, operators[at + 1 :]))
        finally:
            self._depth -= 1

    def _read(self, node: Node) -> None:
        problems = len(self.problems)
        try:
            with self._attempt(), _sensible(node):
                made = self._made(node)
                if len(self.problems) > problems:
                    raise Missing
        except Endless:
            raise
        except (BracesError, Missing) as error:
            if isinstance(error, BracesError):
                self.problems.append(Problem(node.type[:80], str(node), error))
            node.names.values.update(dict.fromkeys(node.op.made(), Missing))
            return
        node.names.values.update(made)

    def _attempt(self) -> AbstractContextManager[None]:
        """Where an exception leaves, nothing was built."""
        return attempt(self.program, self.parameters, self._lifted, self.chosen)

    def tried(self, build: Callable[[], T]) -> T:
        """What is found by building something, of which nothing is left."""
        found, problems = list[T](), len(self.problems)
        with suppress(Missing), self._attempt():
            found.append(build())
            raise Missing
        del self.problems[problems:]
        if not found:
            raise Missing
        return found[0]

    def _made(self, node: Node) -> dict[str, Value]:
        """What an operator gives, by name."""
        if node.type not in RULES:
            near = did_you_mean(node.type, RULES)
            raise ProgramError("It is an operator that cannot be read.", fix=near or None)
        given = [node.names.find(name) for names in node.op.inputs.values() for name in names]
        folded = fold(node, given)
        if folded is not None:
            return self._bound(node, folded)
        if any(isinstance(value, Rows) for value in given) and node.type not in OF_SEQUENCES:
            return self._by_rows(node)
        return self._by_rule(node)

    def _by_rule(self, node: Node) -> dict[str, Value]:
        table = self.program.current
        before, lifted = len(table.ops), len(self._lifted)
        first = next((name for name in node.made(node.main)), node.type)
        path = f"{node.names.path}{cleaned(first)}"
        with table.naming(f"{path}/"):
            made = RULES[node.type](node)
        kept = names_lifted(self._lifted, lifted)
        if isinstance(made, Var):
            made = self._as_said(node, first, made)
            made = rename_made(table, before, made, path, kept)
        elif isinstance(made, Rows):
            made = made.like(rename_made(table, before, made.flat, path, kept))
        return self._bound(node, made)

    @staticmethod
    def _as_said(node: Node, name: str, made: Var) -> Var:
        """One number in the shape that the file says: older versions give it an axis."""
        said = node.names.declared(name)
        if said is None or is_list(made) or any(n != 1 for n in (*made.shape, *said.dims)):
            return made
        return made if made.ndim == len(said.dims) else ops.reshape(made, said.dims)

    def _by_rows(self, node: Node) -> dict[str, Value]:
        """An operator that computes row by row, on the rows of all sequences."""
        if node.type not in EACH_ROW or (node.type in ALONG and _along_rows(node)):
            node.refuse(
                "is given sequences, and is not known to compute row by row",
                "Only operators of sequences mix their rows.",
            )
        names = node.names.inner()
        sequences = list[Rows]()
        for name in (name for found in node.op.inputs.values() for name in found):
            value = node.names.value(name)
            if isinstance(value, Rows):
                sequences.append(value)
                value = value.flat
            names.values[name] = value
        like = sequences[0]
        made = self._by_rule(Node(names, node.op, node.later))
        return {name: self._as_rows(node, like, value) for name, value in made.items()}

    @staticmethod
    def _as_rows(node: Node, like: Rows, value: Value) -> Value:
        if not isinstance(value, Var):
            return value
        if not value.ndim or value.shape[0] != product((like.batch, like.time)):
            node.refuse("mixes the rows of sequences")
        return like.like(value)

    @staticmethod
    def _bound(node: Node, made: Results) -> dict[str, Value]:
        """Values by the names that the operator gives them."""
        if not isinstance(made, Mapping):
            made = {node.main: made}
        bound = dict[str, Value]()
        for slot, values in made.items():
            each = cast("Sequence[Value]", values if isinstance(values, list) else [values])
            bound.update(zip(node.made(slot), each, strict=False))
        return bound

    # ---- values ------------------------------------------------------------------------------

    def lift(self, value: Value) -> Var:
        """A value as a variable; a constant becomes one where it is read."""
        if isinstance(value, Var):
            return value
        if not isinstance(value, Known | Case):
            what = "sequences are" if isinstance(value, Rows) else "nothing is"
            raise ProgramError(f"An array is read, and {what} given.")
        weight = isinstance(value, Known) and bool(value.weight)
        table = self.program.table if weight else self.program.current
        key = id(value), id(table)
        found = self._lifted.get(key)
        if found is None:
            made = {value: self._lift(value)} if isinstance(value, Known) else resolved(value)
            for one_value, var in made.items():
                self._lifted[id(one_value), id(table)] = Lifted(one_value, table, var)
            found = self._lifted[key]
        return found.var

    def _lift(self, value: Known) -> Var:
        if value.weight:
            return self._weight(value)
        return written(self.program, self.parameters, value)

    def _weight(self, value: Known) -> Var:
        name = value.weight
        state = name in self.states or not is_float(value.dtype)
        return persistable(
            self.program, self.parameters, cleaned(name), value.array,
            STATE if state else PARAMETER, frozen=name in self.frozen,
        )  # fmt: skip

    # ---- inputs and outputs ------------------------------------------------------------------

    def feed(self, name: str) -> Value:
        """An input of the program.

        Raises:
            Missing: It could not be declared.
            ProgramError: The program has no such variable.
        """
        if name not in self.inputs:
            raise ProgramError(f"`{name:.80}` is fed, and no array of the program.")
        found = self.inputs[name]
        if isinstance(found, type):
            raise Missing(name)
        return found

    def fetch(self, at: int, name: str, value: Value) -> None:
        """Make a value an output of the program, at a place among others."""
        self.fetched[at] = name, value

    def give(self) -> None:
        """Make what is fetched what the program gives; of sequences their lengths, too."""
        for _, (name, value) in sorted(self.fetched.items(), key=lambda entry: entry[0]):
            called = cleaned(name, "output")
            if isinstance(value, Rows):
                give(self.program, value.masked(), called)
                give(self.program, ops.identity(value.lengths), f"{called}.lengths")
            else:
                give(self.program, self.lift(value), called)


def _along_rows(node: Node) -> bool:
    """Whether an operator says that it goes along the first axis."""
    axes = [n for name in ("axis", "axes", "dim") for n in node.many(name)]
    return node.type not in ("transpose", "transpose2") and 0 in axes


def _source(op: Operator) -> Source | None:
    """The line that made an operator, where the file still says it."""
    stack: Any = op.attrs.get("op_callstack")
    lines = cast("list[Any]", stack) if isinstance(stack, list) else []
    frames = (_FRAME.match(str(line)) for line in lines)
    found = [frame for frame in frames if frame is not None]
    own = [frame for frame in found if not _FOREIGN.search(frame[1])] or found
    return Source(own[-1][1], int(own[-1][2])) if own else None


@contextmanager
def _sensible(node: Node) -> Generator[None]:
    """Inside, what only an operator that makes no sense leads to is said of the operator.

    Attributes are what the file says, of any type and value; rules take them as Paddle writes
    them, and trip over others.
    """
    sizes = "Say the shapes of inputs: shapes={'x': [1, 3, 224, 224]}."
    with sensible(node.type, sizes, kind=ShapeError):
        yield
