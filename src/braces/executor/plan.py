"""What one run computes: a program cut down to its fetches and updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from braces.errors import UnknownNameError, suggest
from braces.ir.records import DATA, Body, ProgramDef, VarInfo
from braces.passes.draws import random_states
from braces.passes.prune import eliminate


@dataclass(frozen=True)
class Plan:
    """A program and what is fetched from it.

    Attributes:
        definition: The whole program.
        fetches: Names, in order.
        body: Only what the fetches and all updates need.
    """

    definition: ProgramDef
    fetches: tuple[str, ...]
    body: Body

    @staticmethod
    def of(definition: ProgramDef, fetches: Iterable[str]) -> Plan:
        """Cut a program down.

        Raises:
            UnknownNameError: A fetch does not exist.
        """
        names = tuple(fetches)
        for name in names:
            if name not in definition.main.vars:
                raise UnknownNameError(
                    f"There is no variable `{name}` to fetch in the main block.",
                    fix=suggest(name, definition.main.vars),
                )
        results = (*names, *definition.updates.values())
        return Plan(definition, names, eliminate(definition.main, results))

    @cached_property
    def reads(self) -> dict[str, VarInfo]:
        """What the run reads and does not compute."""
        bound = {name for op in self.body.ops for name in op.binds()}
        read = dict.fromkeys(name for op in self.body.ops for name in op.reads())
        read |= dict.fromkeys(self.body.results)
        infos = self.definition.main.vars
        return {name: infos[name] for name in read if name not in bound}

    @cached_property
    def feeds(self) -> dict[str, VarInfo]:
        """The data that the run needs."""
        return {name: info for name, info in self.reads.items() if info.kind == DATA}

    @cached_property
    def states(self) -> dict[str, VarInfo]:
        """The persistable variables that the run reads."""
        return {name: info for name, info in self.reads.items() if info.persistable}

    @cached_property
    def random_states(self) -> set[str]:
        """The persistable variables that draws follow from."""
        return random_states(self.body)

    @cached_property
    def data(self) -> dict[str, VarInfo]:
        """All data variables of the program."""
        infos = self.definition.main.vars
        return {name: info for name, info in infos.items() if info.kind == DATA}

    @property
    def updates(self) -> Mapping[str, str]:
        """Persistable name to the variable with its next value."""
        return self.definition.updates
