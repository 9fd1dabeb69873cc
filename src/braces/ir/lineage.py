"""Lineage of a program: by it, handles of earlier versions follow renamed and moved operators.

    version a --rename--> version b --dce--> b --wrap--> version c

A change of names or places begins a new version; all other passes and edits keep the version of
their input, because `ProgramDef.with_` does. Earlier versions are referenced weakly: when no
definition of the first ones remains, no handle of them exists, and their changes are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias
from weakref import ref

Chain: TypeAlias = "tuple[tuple[str, str], ...]"
"""The place of a block: the name of the owner and the label of the block, for each level."""
Key: TypeAlias = "tuple[str, Chain, str]"
"""Kind, blocks and name of an operator, a variable or a block."""
Move: TypeAlias = "Callable[[Key], Key]"
"""From the key before a change to the key after it."""


class VersionId:
    """Identity of a version."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Lineage:
    """A version of a program, with the changes of keys from earlier versions to it.

    Copies of a program share it; files and pickles do not have it.

    Attributes:
        version: This version.
        steps: Each earlier version, with the change of keys from it to the next one.
    """

    version: VersionId = field(default_factory=VersionId)
    steps: tuple[tuple[ref[VersionId], Move], ...] = ()

    @property
    def moves(self) -> tuple[Move, ...]:
        """All changes of keys, the earliest first."""
        return tuple(move for _, move in self.steps)

    def then(self, move: Move) -> Lineage:
        """Return the lineage of the next version, after a change of keys."""
        steps = (*self.steps, (ref(self.version), move))
        first = next(at for at, (version, _) in enumerate(steps) if version() is not None)
        return Lineage(steps=steps[first:])

    def follow(self, origin: Lineage, key: Key) -> Key:
        """Return the key in this version of a key in an earlier one; unrelated keys stay."""
        versions = (version() for version, _ in self.steps)
        first = next((at for at, v in enumerate(versions) if v is origin.version), None)
        for _, move in self.steps[first:] if first is not None else ():
            key = move(key)
        return key

    def __deepcopy__(self, memo: object) -> Lineage:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Lineage, ()


@dataclass(frozen=True, slots=True)
class Relocation:
    """Operators and variables of one block moved to another, with all blocks in them.

    Attributes:
        source: The block that had them.
        target: The block that has them.
        operators: The names of the operators, by their old names.
        variables: The names of the variables, by their old names.
        whole: Whether all others of the block are moved, too, under their names.
    """

    source: Chain
    target: Chain
    operators: Mapping[str, str]
    variables: Mapping[str, str]
    whole: bool = False

    def __call__(self, key: Key) -> Key:
        """Return the key of a handle after the move."""
        kind, chain, name = key
        depth = len(self.source)
        if chain[:depth] != self.source:
            return key
        if len(chain) > depth:
            owner, label = chain[depth]
            if not (self.whole or owner in self.operators):
                return key
            inner = (self.operators.get(owner, owner), label)
            return kind, (*self.target, inner, *chain[depth + 1 :]), name
        names = {"operator": self.operators, "variable": self.variables}.get(kind)
        if names is None or not (self.whole or name in names):
            return key
        return kind, self.target, names.get(name, name)


def all_of(moves: Sequence[Move]) -> Move:
    """Return the change that makes several, one after the other."""
    return lambda key: reduce(lambda moved, move: move(moved), moves, key)
