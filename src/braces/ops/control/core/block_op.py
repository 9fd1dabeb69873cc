"""What every operator that owns sub-blocks can do.

Such an operator is a final class with the same methods in the same order: `interface`,
`infer_blocks`, `interpret`, `lower`, `trim`, `reached`, `build_gradient`, `build_jvp`. The
executor and the passes hand in what belongs to them (`Frame`, `Lowering`; `Differentiation` and
`Pushing` of `derivatives`), so that nothing here imports a layer above.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from braces.define.decorator import Attrs, OpDef, Types
from braces.define.type_inference import Context
from braces.dims import Size
from braces.dtypes import Type
from braces.ir.records import Body, Op
from braces.ops.control.core.differentiation import Differentiation, Pushing

Value: TypeAlias = Any
"""An array of JAX, or a list as the executor holds it."""
State: TypeAlias = Any
"""What a compiled run knows of itself: a pytree that loops and branches carry."""
Call: TypeAlias = tuple[Callable[..., list[Value]], tuple[Value, ...]]
"""A function of JAX, the same one each time, and what it is called with."""
Carry = TypeVar("Carry")
Pieces = TypeVar("Pieces")
T = TypeVar("T")


class Frame(Protocol):
    """An operator being interpreted: its values, and a way to run its blocks."""

    @property
    def op(self) -> Op:
        """The operator."""
        ...

    def once(self, make: Callable[[Op], T]) -> T:
        """What is made of the operator, once for all runs of it; an operator has one such."""
        ...

    def read(self, name: str) -> Value:
        """The value of a visible variable."""
        ...

    def size(self, size: Size) -> int:
        """A size as a number."""
        ...

    def run(self, label: str, body: Body, arguments: Sequence[Value]) -> list[Value]:
        """Run a sub-block in a scope of its own and return its results."""
        ...

    def run_between(self, label: str, body: Body, before: Call, after: Call) -> list[Value]:
        """Run a sub-block between two functions; what the second gives.

        The first gives the arguments of the block; the second is called with the results of the
        block and its own values.
        """
        ...

    def compute(self, function: Callable[..., T], *values: Value) -> T:
        """Call a function of JAX, which is compiled for what it is given."""
        ...

    def set_size(self, size: Size, value: int) -> None:
        """Say what a dimension of the sub-blocks is."""
        ...


class Lowering(Protocol):
    """An operator being lowered to JAX."""

    op: Op

    def read(self, name: str) -> Value:
        """The value of a visible variable."""
        ...

    def size(self, size: Size) -> int:
        """A size as a number."""
        ...

    def run(
        self,
        label: str,
        body: Body,
        arguments: Sequence[Value],
        state: State,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[list[Value], State]:
        """Lower a sub-block: its results, and the state of the run after it.

        `sizes` are dimensions that belong to this run of the block.
        """
        ...

    def type_of(self, name: str) -> Type:
        """The type of a visible variable."""
        ...

    def cut_by(self, name: str) -> str | None:
        """The size by which devices have parts of the rows of a variable; `None` for none."""
        ...

    def in_parts(
        self,
        cut: str,
        rows: Collection[str],
        outs: int,
        run: Callable[[Lowering], list[Value]],
    ) -> list[Value]:
        """Let each device run something for the rows that it has.

        Args:
            cut: The size by which they have parts.
            rows: What of the inputs of the operator is rows; each device has the others whole.
            outs: How many of the results are rows; the others are added up.
            run: What each runs, in the operator as it is there.
        """
        ...

    def capacities(self, rows: int) -> list[int]:
        """Numbers of rows below all that the target has what runs on some compiled for."""
        ...

    def is_little(self, work: float) -> bool:
        """Whether so much is computed sooner than compiled for several numbers of rows."""
        ...

    def run_if(self, wanted: Value, function: Callable[[Value], Value], values: Value) -> Value:
        """Return what a function makes of a tree of values, or the values as they are."""
        ...

    def inline(self, label: str, body: Body) -> list[Any]:
        """Lower a sub-block that runs just once, where its owner stands; its results."""
        ...

    def apart(self, label: str, body: Body, given: Mapping[str, Value]) -> list[Value]:
        """Lower a sub-block for another time, where all that it reads is given by name.

        What fails in it is told to nobody.
        """
        ...

    def repeat(
        self,
        check: Callable[[Carry], Value],
        step: Callable[[Carry], Carry],
        carry: Carry,
        endless: bool,
    ) -> Carry:
        """`step` while `check` holds; carried are the trip, anything, and the run's state.

        A run that is ended from outside leaves the loop. `endless` says that the number of
        trips is not known when the loop begins.
        """
        ...

    def scan(
        self,
        step: Callable[[Carry, Pieces], tuple[Carry, Pieces]],
        carry: Carry,
        xs: Pieces,
        length: int,
        reverse: bool,
    ) -> tuple[Carry, Pieces]:
        """`lax.scan`; carried are anything and the run's state."""
        ...

    def state(self, *labels: str) -> State:
        """The state of the run that enters these sub-blocks, a pytree for loops to carry."""
        ...

    def leave(self, state: State) -> None:
        """Take over the state of the run that left the sub-blocks."""
        ...

    def running(self, state: State) -> Value:
        """Whether nothing has failed so far; loops stop where something has."""
        ...

    def flag(self, state: State, wrong: Value) -> State:
        """The state with a failure of this operator noted where `wrong` holds."""
        ...


@dataclass(frozen=True)
class Interface:
    """What the owner of a sub-block asks of it.

    Attributes:
        params: The types of the values that it binds, in the order of the parameters.
        results: How many results it reads.
    """

    params: tuple[Type, ...]
    results: int


Follow: TypeAlias = Callable[[Body, Set[str]], set[str]]
"""Says what in a block depends on active names, which are part of the answer."""
Eliminate: TypeAlias = Callable[[Body, Sequence[str]], Body]
"""Gives a block with only what some of its results need."""


class BlockOp(OpDef, ABC):
    """An operator that owns sub-blocks."""

    @abstractmethod
    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """What is asked of each sub-block, by its label, where inputs have these types.

        Raises:
            BracesError: The operator asks more of its attributes, inputs or blocks, and does
                not get it.
        """

    @abstractmethod
    def infer_blocks(
        self,
        context: Context,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Check the blocks against the inputs; the types of the outputs by slot."""

    @abstractmethod
    def interpret(self, frame: Frame) -> Mapping[str, Value]:
        """Run; the outputs by name."""

    @abstractmethod
    def lower(self, lowering: Lowering) -> Mapping[str, Value]:
        """Lower to JAX; the outputs by name."""

    @abstractmethod
    def trim(self, op: Op, live: frozenset[str], eliminate: Eliminate) -> Op | None:
        """The operator without what no live output needs."""

    @abstractmethod
    def reached(self, op: Op, active: Set[str], follow: Follow) -> set[str]:
        """The outputs that depend on active names, as gradients follow them."""

    @abstractmethod
    def build_gradient(self, d: Differentiation) -> None:
        """Build the gradient as a program, and say the inputs' cotangents."""

    @abstractmethod
    def build_jvp(self, d: Pushing) -> None:
        """Build the directional derivative as a program, and say the outputs' tangents."""


def result_types(body: Body, outer: Mapping[str, Type], context: Context) -> tuple[Type, ...]:
    """The types of a block's results, which it binds or captures."""
    found = [body.vars[n].type if n in body.vars else outer[n] for n in body.results]
    return tuple(t.map_sizes(context.unifier.resolve) for t in found)
