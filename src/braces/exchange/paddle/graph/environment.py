"""What names of a program stand for, block by block: arrays, sequences, and cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

from braces.builder.var import Var
from braces.dims import Size, product
from braces.dtypes import ListType
from braces.errors import ProgramError
from braces.exchange.common.model.names import holder
from braces.exchange.common.model.unsupported import Missing
from braces.exchange.common.values.constants import Known
from braces.exchange.paddle.graph.program_desc import Block, Variable
from braces.frontend.core import functions as ops

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Rows:
    """Sequences that Paddle keeps one behind the other, without padding (a LoD of one level).

    Here they are as long as the longest one, with their lengths beside them. What lies in the
    padding means nothing.

    Attributes:
        flat: The rows of all sequences, those of the padding included: `[batch * time, ...]`.
        batch: How many sequences there are.
        time: How long the longest one may be.
        lengths: How long each is, `[batch]`.
    """

    flat: Var
    batch: Size
    time: Size
    lengths: Var

    @staticmethod
    def of(padded: Var, lengths: Var) -> Rows:
        """The sequences of an array `[batch, time, ...]`."""
        batch, time, *rest = padded.shape
        return Rows(ops.reshape(padded, (product((batch, time)), *rest)), batch, time, lengths)

    def padded(self) -> Var:
        """The array `[batch, time, ...]`."""
        return ops.reshape(self.flat, (self.batch, self.time, *self.flat.shape[1:]))

    def like(self, flat: Var) -> Rows:
        """Other rows of the same sequences."""
        return Rows(flat, self.batch, self.time, self.lengths)

    def inside(self) -> Var:
        """Where a row is one of a sequence, `[batch, time]`."""
        steps = ops.function_of("arange")(stop=self.time)
        lengths = ops.cast(self.lengths, steps.dtype)
        return ops.expand_dims(steps, axis=0) < ops.expand_dims(lengths, axis=1)

    def masked(self, outside: float = 0.0) -> Var:
        """The array `[batch, time, ...]`, with one number in the padding."""
        whole = self.padded()
        inside = ops.reshape(self.inside(), (self.batch, self.time, *[1] * (whole.ndim - 2)))
        return ops.where(inside, whole, ops.full_like(whole, outside))


@dataclass(frozen=True, eq=False)
class Case:
    """What a block gives if a condition holds; it is built where that is known to be read.

    Attributes:
        names: What the block sees, as it was where the block stands.
        block: The number of the block.
        name: What of the block it is.
        asked: The condition.
        before: What the name stood for before; `None` where it is only there if it holds.
        beside: All that the block gives, this included.
    """

    names: Names
    block: int
    name: str
    asked: Var
    before: Value = None
    beside: Sequence[Case] = ()


def is_list(value: Value) -> bool:
    """Whether a value is an array of arrays."""
    return isinstance(value, Var) and isinstance(value.type, ListType)


Value: TypeAlias = "Var | Known | Rows | Case | None"
Held: TypeAlias = "Value | type[Missing]"


class Runner(Protocol):
    """What reads operators into the block that is being built.

    Attributes:
        chosen: What was chosen of several values, by the names that are seen and the values;
            with the values.
    """

    chosen: dict[tuple[int, ...], tuple[Var, Sequence[Value]]]

    def lift(self, value: Value) -> Var:
        """A value as a variable."""
        ...

    def run(self, names: Names, block: int) -> None:
        """Read the operators of a block."""
        ...

    def tried(self, build: Callable[[], T]) -> T:
        """What is found by building something, of which nothing is left."""
        ...

    def feed(self, name: str) -> Value:
        """An input of the program."""
        ...

    def fetch(self, at: int, name: str, value: Value) -> None:
        """Make a value an output of the program, at a place among others."""
        ...

    def block(self, at: int) -> Block:
        """A block of the program."""
        ...


@dataclass(eq=False)
class Names:
    """The names that operators of one block see, inner ones first.

    Attributes:
        runner: What reads the operators.
        outer: The names of the block around this one.
        path: What names of operators begin with.
        values: What each name stands for now; a name may be written again.
        variables: What the block says of its own names.
    """

    runner: Runner
    outer: Names | None = None
    path: str = ""
    values: dict[str, Held] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict[str, Variable])

    def declared(self, name: str) -> Variable | None:
        """What the innermost block that declares a name says of it."""
        names: Names | None = self
        while names is not None and name not in names.variables:
            names = names.outer
        return None if names is None else names.variables[name]

    def find(self, name: str) -> Held:
        """What a name stands for now; `None` where it stands for nothing."""
        found = holder(self, name)
        return None if found is None else found.values[name]

    def value(self, name: str) -> Value:
        """What a name stands for now.

        Raises:
            Missing: What makes it could not be read.
            ProgramError: Nothing makes it before it is read.
        """
        found = self.find(name)
        if found is None:
            raise ProgramError(f"`{name:.80}` is read before anything makes it.")
        if isinstance(found, type):
            raise Missing(name)
        return found

    def inner(self, path: str = "") -> Names:
        """The names of a block in this one."""
        return Names(self.runner, self, path or self.path)

    def frozen(self) -> Names:
        """These names as they are now, whatever is written later."""
        outer = None if self.outer is None else self.outer.frozen()
        return Names(self.runner, outer, self.path, dict(self.values), self.variables)
