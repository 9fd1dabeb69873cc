"""Interface of operators that own sub-blocks (structured control flow).

Each such operator is a final class with the same methods in the same order: `interface`,
`infer_blocks`, `interpret`, `lower`, `trim`, `reached`, `build_gradient`, `build_jvp`. The
executor and the passes pass in their side as protocols: `Frame`, `Lowering`, and
`VjpContext` and `JvpContext` of `differentiation.py`. So nothing here imports a layer above.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from braces.define.decorator import Attrs, OpDef, Types
from braces.define.type_inference import InferenceContext
from braces.dims import Size
from braces.dtypes import Type
from braces.ir.records import Body, Op
from braces.ops.control.core.differentiation import JvpContext, VjpContext

Value: TypeAlias = Any
"""A JAX array, or a list in the representation of the executor."""
State: TypeAlias = Any
"""Run state of compiled code: a pytree carried through loops and branches."""
BoundCall: TypeAlias = tuple[Callable[..., list[Value]], tuple[Value, ...]]
"""A JAX function, the same object in each run, and its arguments."""
Carry = TypeVar("Carry")
Pieces = TypeVar("Pieces")
T = TypeVar("T")


class Frame(Protocol):
    """An operator under interpretation: its values, and methods to run its blocks."""

    @property
    def op(self) -> Op:
        """The operator."""
        ...

    def once(self, make: Callable[[Op], T]) -> T:
        """Return `make(op)`, computed in the first run only; an operator has one such value."""
        ...

    def read(self, name: str) -> Value:
        """Return the value of a visible variable."""
        ...

    def size(self, size: Size) -> int:
        """Return a size as a number."""
        ...

    def run(self, label: str, body: Body, arguments: Sequence[Value]) -> list[Value]:
        """Run a sub-block in a separate scope and return its results."""
        ...

    def run_between(
        self, label: str, body: Body, before: BoundCall, after: BoundCall
    ) -> list[Value]:
        """Run a sub-block between two functions; return the results of the second.

        The first function computes the arguments of the block. The second is called with the
        results of the block, followed by its own values.
        """
        ...

    def compute(self, function: Callable[..., T], *values: Value) -> T:
        """Call a JAX function, compiled for the types of its arguments."""
        ...

    def set_size(self, size: Size, value: int) -> None:
        """Bind a dimension of the sub-blocks to a number."""
        ...


class Lowering(Protocol):
    """An operator being lowered to JAX."""

    op: Op

    def read(self, name: str) -> Value:
        """Return the value of a visible variable."""
        ...

    def size(self, size: Size) -> int:
        """Return a size as a number."""
        ...

    def run(
        self,
        label: str,
        body: Body,
        arguments: Sequence[Value],
        state: State,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[list[Value], State]:
        """Lower a sub-block; return its results and the run state after it.

        `sizes` are dimensions that belong to this run of the block.
        """
        ...

    def type_of(self, name: str) -> Type:
        """Return the type of a visible variable."""
        ...

    def cut_by(self, name: str) -> str | None:
        """Return the size along which a variable is sharded by rows over devices, or `None`."""
        ...

    def in_parts(
        self,
        cut: str,
        rows: Collection[str],
        outs: int,
        run: Callable[[Lowering], list[Value]],
    ) -> list[Value]:
        """Run a function on each device for its shard of the rows.

        Args:
            cut: The size along which the rows are sharded.
            rows: The sharded inputs of the operator; the others are replicated.
            outs: How many results are rows; the others are summed over the devices.
            run: The function, called with the operator's lowering on that device.
        """
        ...

    def capacities(self, rows: int) -> list[int]:
        """Return the capacities below `rows` that the target compiles partitions for."""
        ...

    def is_little(self, work: float) -> bool:
        """Return whether this much work costs less than compiling it for several capacities."""
        ...

    def run_if(self, wanted: Value, function: Callable[[Value], Value], values: Value) -> Value:
        """Return `function(values)` where `wanted` holds, else the tree of values unchanged."""
        ...

    def inline(self, label: str, body: Body) -> list[Any]:
        """Lower a sub-block that runs once, in the place of its owner; return its results."""
        ...

    def lower_isolated(
        self, label: str, body: Body, arguments: Mapping[str, Value]
    ) -> list[Value]:
        """Lower a sub-block outside of the run, with all values that it reads passed by name.

        Its failures are not reported.
        """
        ...

    def repeat(
        self,
        check: Callable[[Carry], Value],
        step: Callable[[Carry], Carry],
        carry: Carry,
        endless: bool,
    ) -> Carry:
        """Run `step` while `check` holds; carry: iteration index, any pytree, run state.

        A cancelled run leaves the loop. `endless` means that the trip count is unknown when the
        loop begins.
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
        """`lax.scan`, with the run state as part of the carry."""
        ...

    def state(self, *labels: str) -> State:
        """Return the run state on entry to these sub-blocks, a pytree that loops carry."""
        ...

    def leave(self, state: State) -> None:
        """Continue with the run state on exit from the sub-blocks."""
        ...

    def running(self, state: State) -> Value:
        """Return whether no check has failed so far; loops stop after a failure."""
        ...

    def flag(self, state: State, wrong: Value) -> State:
        """Return the state with a failure of this operator recorded where `wrong` holds."""
        ...


@dataclass(frozen=True)
class Interface:
    """Signature that the owner of a sub-block requires of it.

    Attributes:
        params: The types of the arguments, in the order of the parameters.
        results: The number of results that the owner reads.
    """

    params: tuple[Type, ...]
    results: int


ForwardDependence: TypeAlias = Callable[[Body, Set[str]], set[str]]
"""Forward dependence: all names of a block that depend on the given names, including these."""
DeadCodeElimination: TypeAlias = Callable[[Body, Sequence[str]], Body]
"""Dead code elimination: the block reduced to the operators that some results need."""


class BlockOp(OpDef, ABC):
    """An operator that owns sub-blocks."""

    @abstractmethod
    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """Return the required signature of each sub-block by label, for these input types.

        Raises:
            BracesError: If attributes, inputs or blocks violate a requirement of the operator.
        """

    @abstractmethod
    def infer_blocks(
        self,
        context: InferenceContext,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Check the blocks against the inputs; return the types of the outputs by slot."""

    @abstractmethod
    def interpret(self, frame: Frame) -> Mapping[str, Value]:
        """Run the operator; return its outputs by name."""

    @abstractmethod
    def lower(self, lowering: Lowering) -> Mapping[str, Value]:
        """Lower the operator to JAX; return its outputs by name."""

    @abstractmethod
    def trim(self, op: Op, live: frozenset[str], eliminate: DeadCodeElimination) -> Op | None:
        """Dead code elimination: return the operator reduced to the live outputs, or `None`."""

    @abstractmethod
    def reached(self, op: Op, active: Set[str], follow: ForwardDependence) -> set[str]:
        """Return the outputs that depend on active names, for differentiation."""

    @abstractmethod
    def build_gradient(self, d: VjpContext) -> None:
        """Build the gradient (VJP) as a program, and add to the cotangents of the inputs."""

    @abstractmethod
    def build_jvp(self, d: JvpContext) -> None:
        """Build the directional derivative (JVP) as a program; set the outputs' tangents."""


def result_types(
    body: Body, outer: Mapping[str, Type], context: InferenceContext
) -> tuple[Type, ...]:
    """Return the types of a block's results, bound or captured."""
    types = [body.vars[n].type if n in body.vars else outer[n] for n in body.results]
    return tuple(t.map_sizes(context.unifier.resolve) for t in types)
