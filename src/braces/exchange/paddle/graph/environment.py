"""The values of names in a program, block by block: arrays, sequences, and cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

from braces.errors import ProgramError
from braces.exchange.common.model.names import defining_scope
from braces.exchange.common.model.unsupported import MissingValue
from braces.exchange.common.values.constants import Constant
from braces.exchange.paddle.graph.program_desc import PaddleBlock, VarDeclaration
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.types import ListType, Size, product

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class RaggedSequences:
    """Ragged sequences, which Paddle concatenates without padding (a LoD of one level).

    Here they are padded to the longest one, with their lengths. The values of the padding are
    undefined.

    Attributes:
        flat: The rows of all sequences, including the padding: `[batch * time, ...]`.
        batch: The number of sequences.
        time: The maximal length.
        lengths: The length of each, `[batch]`.
    """

    flat: Var
    batch: Size
    time: Size
    lengths: Var

    @staticmethod
    def of(padded: Var, lengths: Var) -> RaggedSequences:
        """Return the sequences of an array `[batch, time, ...]`."""
        batch, time, *features = padded.shape
        return RaggedSequences(
            ops.reshape(padded, (product((batch, time)), *features)), batch, time, lengths
        )

    def padded(self) -> Var:
        """Return the array `[batch, time, ...]`."""
        return ops.reshape(self.flat, (self.batch, self.time, *self.flat.shape[1:]))

    def like(self, flat: Var) -> RaggedSequences:
        """Return other rows with the same lengths."""
        return RaggedSequences(flat, self.batch, self.time, self.lengths)

    def inside(self) -> Var:
        """Return the mask of rows that are not padding, `[batch, time]`."""
        steps = ops.function_of("arange")(stop=self.time)
        lengths = ops.cast(self.lengths, steps.dtype)
        return ops.expand_dims(steps, axis=0) < ops.expand_dims(lengths, axis=1)

    def masked(self, outside: float = 0.0) -> Var:
        """Return the array `[batch, time, ...]`, with a constant in the padding."""
        padded_rows = self.padded()
        inside = ops.reshape(
            self.inside(), (self.batch, self.time, *[1] * (padded_rows.ndim - 2))
        )
        return ops.where(inside, padded_rows, ops.full_like(padded_rows, outside))


@dataclass(frozen=True, eq=False)
class ConditionalResult:
    """A result of a conditional block; the block is built when its readers are known.

    Attributes:
        names: The names visible to the block, at its position.
        block: The index of the block.
        name: The name of the result.
        asked: The condition.
        before: The previous value of the name; `None` if it exists only if the condition holds.
        beside: All results of the block, including this one.
    """

    names: BlockScope
    block: int
    name: str
    asked: Var
    before: Value = None
    beside: Sequence[ConditionalResult] = ()


def is_list(value: Value) -> bool:
    """Return whether a value is a tensor array."""
    return isinstance(value, Var) and isinstance(value.type, ListType)


Value: TypeAlias = "Var | Constant | RaggedSequences | ConditionalResult | None"
Held: TypeAlias = "Value | type[MissingValue]"


class OperatorReader(Protocol):
    """Reads operators into the block that is being built.

    Attributes:
        chosen: Memoized results of selections, by the names in scope and the values; with both,
            which keeps them alive.
    """

    chosen: dict[tuple[int, ...], tuple[Var, Sequence[object]]]

    def lift(self, value: Value) -> Var:
        """Return a value as a variable."""
        ...

    def run(self, names: BlockScope, block: int) -> None:
        """Read the operators of a block."""
        ...

    def tried(self, build: Callable[[], T]) -> T:
        """Build speculatively, roll back, and return the result."""
        ...

    def feed(self, name: str) -> Value:
        """Return an input of the program."""
        ...

    def fetch(self, at: int, name: str, value: Value) -> None:
        """Make a value the output of the program with this index."""
        ...

    def block(self, at: int) -> PaddleBlock:
        """Return a block of the program."""
        ...


@dataclass(eq=False)
class BlockScope:
    """The names visible to the operators of one block.

    Attributes:
        runner: The reader of the operators.
        outer: The names of the enclosing block.
        path: The prefix of operator names.
        values: The current value of each name; a name may be written again.
        variables: The declarations of the block.
    """

    runner: OperatorReader
    outer: BlockScope | None = None
    path: str = ""
    values: dict[str, Held] = field(default_factory=dict)
    variables: Mapping[str, VarDeclaration] = field(default_factory=dict[str, VarDeclaration])

    def declared(self, name: str) -> VarDeclaration | None:
        """Return the innermost declaration of a name."""
        names: BlockScope | None = self
        while names is not None and name not in names.variables:
            names = names.outer
        return None if names is None else names.variables[name]

    def find(self, name: str) -> Held:
        """Return the current value of a name, or `None`."""
        scope = defining_scope(self, name)
        return None if scope is None else scope.values[name]

    def value(self, name: str) -> Value:
        """Return the current value of a name.

        Raises:
            Missing: If the operator that writes it could not be read.
            ProgramError: If the name is read before it is written.
        """
        current = self.find(name)
        if current is None:
            raise ProgramError(f"`{name:.80}` is used before it is defined.")
        if isinstance(current, type):
            raise MissingValue(name)
        return current

    def inner(self, path: str = "") -> BlockScope:
        """Return an empty scope for a nested block."""
        return BlockScope(self.runner, self, path or self.path)

    def frozen(self) -> BlockScope:
        """Return a snapshot of these names."""
        outer = None if self.outer is None else self.outer.frozen()
        return BlockScope(self.runner, outer, self.path, dict(self.values), self.variables)
