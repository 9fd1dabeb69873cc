"""Interface between automatic differentiation and operators that own blocks.

A pass differentiates a program. At an operator that owns blocks it passes one of these contexts
to the operator's definition. The definition builds the derivative and reports cotangents or
tangents. All changes of the program go through these methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.dtypes import TensorType
from braces.ir.records import Body, Op
from braces.ops.control.core.residuals import ResidualListTable


class AutodiffContext(Protocol):
    """Context of an operator that owns blocks under differentiation in either mode."""

    @property
    def program(self) -> Builder:
        """The program under construction."""
        ...

    @property
    def host(self) -> SymbolTable:
        """The block that contains the operator."""
        ...

    @property
    def op(self) -> Op:
        """The operator, in its present form."""
        ...

    def var(self, name: str) -> Var:
        """Return the handle of a variable that the operator reads or binds."""
        ...

    def reachable(self, body: Body, names: Set[str]) -> set[str]:
        """Return all names of a block that depend on the given ones, for differentiation."""
        ...

    def eliminate(self, body: Body, results: Sequence[str]) -> Body:
        """Dead code elimination: return the block reduced to these results."""
        ...

    def replace(self, op: Op) -> None:
        """Replace the operator; `op` is the replacement from then on."""
        ...


class VjpContext(AutodiffContext, Protocol):
    """Context of reverse mode (VJP) for an operator that owns blocks."""

    @property
    def grads(self) -> Mapping[str, Var]:
        """The cotangents of its outputs; outputs without dependents have none."""
        ...

    @property
    def lists(self) -> ResidualListTable:
        """The residual lists created so far."""
        ...

    def needs_grad(self, name: str) -> bool:
        """Return whether the cotangent of this input is needed."""
        ...

    def is_requested(self, name: str) -> bool:
        """Return whether the cotangent of this output is itself a requested result."""
        ...

    def backprop(
        self, forward: SymbolTable, seeds: Mapping[str, Var], wanted: Set[str]
    ) -> dict[str, Var]:
        """Differentiate a block: return cotangents of `wanted`, given those of its results."""
        ...

    def accumulate(self, name: str, grad: Var) -> None:
        """Accumulate into the cotangent of an input."""
        ...

    def set_grad(self, name: str, grad: Var) -> None:
        """Set the complete cotangent of an output for which `is_requested` holds."""
        ...

    def zero_list(self, name: str) -> Var:
        """Return a list of zeros, as long as the given list."""
        ...

    def empty_list(self, element: TensorType, history: str, name: str = "") -> str:
        """Create an empty residual list for use by the next `replace`; return its name."""
        ...


class JvpContext(AutodiffContext, Protocol):
    """Context of forward mode (JVP) for an operator that owns blocks."""

    @property
    def tangents(self) -> Mapping[str, Var]:
        """The tangents of all active values before the operator."""
        ...

    @property
    def is_separate(self) -> bool:
        """Return whether the tangents belong in a separate operator.

        They do where an input tangent is computed from outputs of this operator, and where the
        operator stands in a block outside of the one under construction.
        """
        ...

    def jvp(self, body: SymbolTable, tangents: Mapping[str, Var]) -> dict[str, Var]:
        """Return the tangents of all active values in a block under construction."""
        ...

    def vjp(
        self, body: SymbolTable, seeds: Mapping[str, Var], wanted: Set[str]
    ) -> dict[str, Var]:
        """Differentiate a block: return cotangents of `wanted`, given those of its results."""
        ...

    def set_tangent(self, name: str, tangent: Var) -> None:
        """Set the tangent of an output."""
        ...

    def declare(self, name: str) -> str:
        """Declare a new output, the tangent of this output; return its name."""
        ...

    def widen(self, op: Op) -> None:
        """Insert the operator with tangents, in place of this one or as a separate operator."""
        ...
