"""One pass of the rewriting walk that changes chosen operators, for the edits that build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

from braces.builder.builder import Builder
from braces.builder.user_functions import located
from braces.ir.places import Chain
from braces.ir.records import Op
from braces.passes.core.initial_values import transform
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite
from braces.surgery.edits.core.change import Address
from braces.surgery.row_draws import complete_rows

P = TypeVar("P", bound=Builder)
Action: TypeAlias = "Callable[[Op, InsertionPoint], Replacement]"
Entry: TypeAlias = "Callable[[InsertionPoint], None]"


class EditWalk:
    """A rule that applies an action at each of some operators.

    Attributes:
        label: The edit, for messages.
        actions: The actions, by the addresses of operators.
        entries: What is built at the beginning of blocks.
        variables: Variables whose types the actions have changed.
        operators: Operators whose types must be inferred again.
        readers: Variables of the main block that readers of others read afterwards.
    """

    def __init__(
        self,
        label: str,
        actions: Mapping[Address, Action],
        entries: Mapping[Chain, Entry] | None = None,
    ) -> None:
        self.label = label
        self.actions = actions
        self.entries = entries or {}
        self.variables: list[Address] = []
        self.operators: list[Address] = []
        self.readers: Mapping[str, str] = {}
        chains = {chain for chain, _ in actions} | {*self.entries}
        self._entered = {chain[:end] for chain in chains for end in range(1, len(chain) + 1)}

    def __call__(self, op: Op, point: InsertionPoint) -> Replacement:
        """Return the replacement of an operator; the rule of the walk."""
        chain = point.chain
        if any((*chain, (op.name, label)) in self._entered for label in op.bodies()):
            op = self.complete_rows(op, point)
        action = self.actions.get((chain, op.name))
        return op if action is None else action(op, point)

    def complete_rows(self, op: Op, point: InsertionPoint) -> Op:
        """Return an operator whose blocks have new operators; see `row_draws`."""
        with located(self.label):
            return complete_rows(op, point)

    def enter(self, point: InsertionPoint) -> None:
        """Build at the beginning of a block."""
        if point.outer is None:
            self.readers = point.names
        entry = self.entries.get(point.chain)
        if entry is not None:
            entry(point)

    def has_retyped(self, point: InsertionPoint, names: Iterable[str]) -> None:
        """Record variables of a block whose types have changed."""
        self.variables += [(point.chain, name) for name in names]

    def apply(self, program: P) -> P:
        """Return the new program, with initial values of the parameters that were built."""
        return transform(program, partial(rewrite, rule=self))
