"""What the gradient and the directional derivative of an operator with blocks may do.

A pass differentiates a program; at an operator that owns blocks it hands one of these to the
operator's definition, which builds what it needs and says what came of it. Nothing is changed
but through the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.dtypes import TensorType
from braces.ir.records import Body, Op
from braces.ops.control.core.residuals import Lists


class Derivative(Protocol):
    """An operator that owns blocks, while it is differentiated in either direction."""

    @property
    def program(self) -> Builder:
        """The program that is built."""
        ...

    @property
    def host(self) -> SymbolTable:
        """The block that the operator stands in."""
        ...

    @property
    def op(self) -> Op:
        """The operator, as it stands there now."""
        ...

    def var(self, name: str) -> Var:
        """The handle of a variable that the operator reads or binds."""
        ...

    def reachable(self, body: Body, names: Set[str]) -> set[str]:
        """All that depends on these names of a block, as gradients follow it."""
        ...

    def eliminate(self, body: Body, results: Sequence[str]) -> Body:
        """A block with only what these results need."""
        ...

    def replace(self, op: Op) -> None:
        """Put another operator in the place of this one, which is `op` from then on."""
        ...


class Differentiation(Derivative, Protocol):
    """An operator that owns blocks, as its gradient sees it."""

    @property
    def grads(self) -> Mapping[str, Var]:
        """The cotangents of its outputs; those that nothing depends on have none."""
        ...

    @property
    def lists(self) -> Lists:
        """The histories that were made so far."""
        ...

    def wants(self, name: str) -> bool:
        """Whether the cotangent of this input is wanted."""
        ...

    def asked_for(self, name: str) -> bool:
        """Whether the cotangent of this output is one that the whole is to give."""
        ...

    def backprop(
        self, forward: SymbolTable, seeds: Mapping[str, Var], wanted: Set[str]
    ) -> dict[str, Var]:
        """Differentiate a block: cotangents of `wanted`, from those of its results."""
        ...

    def give(self, name: str, grad: Var) -> None:
        """Add to the cotangent of an input."""
        ...

    def set_grad(self, name: str, grad: Var) -> None:
        """Say the whole cotangent of an output that was asked for."""
        ...

    def zero_list(self, name: str) -> Var:
        """Zeros in the length of a list."""
        ...

    def empty_list(self, element: TensorType, history: str, name: str = "") -> str:
        """An empty history, for what `replace` puts there next; returns its name."""
        ...


class Pushing(Derivative, Protocol):
    """An operator that owns blocks, as its directional derivative sees it."""

    @property
    def tangents(self) -> Mapping[str, Var]:
        """The tangents of all that moves before it."""
        ...

    @property
    def apart(self) -> bool:
        """Whether the tangents belong into an operator of their own.

        So it is where one of them is computed from what this operator binds, and where it
        stands in a block around the one that is being built.
        """
        ...

    def push(self, body: SymbolTable, tangents: Mapping[str, Var]) -> dict[str, Var]:
        """The tangents of all that moves in a block that is being built."""
        ...

    def pull(
        self, body: SymbolTable, seeds: Mapping[str, Var], wanted: Set[str]
    ) -> dict[str, Var]:
        """Differentiate a block: cotangents of `wanted`, from those of its results."""
        ...

    def give(self, name: str, tangent: Var) -> None:
        """Say the tangent of an output."""
        ...

    def declare(self, name: str) -> str:
        """A new output: the tangent of this output."""
        ...

    def widen(self, op: Op) -> None:
        """Put the operator with tangents in the place of this one, or apart beside it."""
        ...
