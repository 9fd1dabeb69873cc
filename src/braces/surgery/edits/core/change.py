"""Result of one edit, and the lineage by which handles of earlier versions are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from braces.builder.builder import Builder
from braces.ir.paths import Located, locate_again, unknown_path
from braces.ir.places import Chain, Place
from braces.ir.records import ProgramDef
from braces.passes.core.rewrite import InsertionPoint
from braces.surgery.handles import Handle

P = TypeVar("P", bound=Builder)
Address: TypeAlias = "tuple[Chain, str]"
"""The blocks around an operator or a variable, and its name."""
Key: TypeAlias = "tuple[str, Chain, str]"
"""Kind, blocks and name: `Handle.key`."""
Move: TypeAlias = "Callable[[Key], Key]"
"""From the key of a handle before an edit to the one after it."""


@dataclass(frozen=True)
class EditResult(Generic[P]):
    """Result of one edit, before types are inferred again.

    Attributes:
        program: The new program.
        label: The edit and its place, for messages.
        variables: Variables whose types have changed.
        operators: Operators whose types must be inferred again.
        move: New keys of operators and variables that the edit renamed or moved.
        renames: Whether the edit changes names only.
        readers: Variables of the main block that readers of others read now, by the names of
            these.
    """

    program: P
    label: str
    variables: Iterable[Address] = ()
    operators: Iterable[Address] = ()
    move: Move | None = None
    renames: bool = False
    readers: Mapping[str, str] = field(default_factory=dict[str, str])


Edit: TypeAlias = "Callable[[P], EditResult[P]]"


def chain_of(place: InsertionPoint) -> Chain:
    """Return the owners and labels of the blocks around a place of the rewriting walk."""
    if place.outer is None or place.owner is None:
        return ()
    return (*chain_of(place.outer), (place.owner.name, place.label))


# ---- lineage ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lineage:
    """The earlier versions of a program, with the changes of keys from each to the next.

    It is cached with the program, and not part of copies and files.
    """

    steps: tuple[tuple[ProgramDef, Move | None], ...] = field(default=())

    @staticmethod
    def of(program: Builder) -> Lineage:
        """Return the lineage of a program; empty if no edit has returned it."""
        lineage: Any = program.built.get(Lineage)
        return lineage if isinstance(lineage, Lineage) else Lineage()

    def then(self, before: ProgramDef, move: Move | None) -> Lineage:
        """Return the lineage after one more edit."""
        return Lineage((*self.steps, (before, move)))

    def follow(self, handle: Handle) -> Key:
        """Return the current key of a handle of this or an earlier version."""
        key = handle.key
        for at, (version, _) in enumerate(self.steps):
            if version is handle.place.definition:
                for _, move in self.steps[at:]:
                    key = move(key) if move else key
                break
        return key


def resolve_again(program: Builder, main: Place, handle: Handle) -> Handle:
    """Return a handle in the current version of a program.

    Raises:
        UnknownNameError: If an edit has removed the operator, variable or block.
    """
    located = find_again(program, main, handle)
    if located is None:
        raise unknown_path(main, handle.path, handle.kind)
    return Handle(*located)


def find_again(program: Builder, main: Place, handle: Handle) -> Located | None:
    """Return the place of a handle in the current version; `None` if an edit removed it."""
    return locate_again(main, Lineage.of(program).follow(handle))
