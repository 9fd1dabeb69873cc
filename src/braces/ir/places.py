"""Blocks of one immutable definition at their places, with indices of makers and readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from braces.ir.lineage import Chain
from braces.ir.records import ARGUMENT, CAPTURES, Body, Op, ProgramDef

Readers: TypeAlias = "dict[str, list[tuple[Place, Op]]]"
"""The operators that read each name, with their blocks."""


@dataclass(frozen=True, eq=False)
class Place:
    """A block of a program at its place.

    Attributes:
        definition: The program.
        body: The block.
        path: Path of the block, as `loop_0/body`; empty for block 0.
        outer: The enclosing block; `None` for block 0.
        owner: The operator of the enclosing block that owns this block; `None` for block 0.
        label: Label of the block in its owner, as `body` or `cases[0]`.
    """

    definition: ProgramDef
    body: Body
    path: str = ""
    outer: Place | None = None
    owner: Op | None = None
    label: str = ""

    @staticmethod
    def main(program: ProgramDef | Place) -> Place:
        """Return block 0 of a program; itself, with its indices, if it is a place already."""
        return program if isinstance(program, Place) else Place(program, program.main)

    @cached_property
    def chain(self) -> Chain:
        """Names of the owners and labels of the blocks around, outermost first."""
        return tuple((owner.name, label) for _, owner, label in self.around())[::-1]

    @cached_property
    def position(self) -> tuple[int, ...]:
        """Position in program order: the index of each owner and of its block."""
        if self.outer is None or self.owner is None:
            return ()
        label = list(self.owner.bodies()).index(self.label)
        return (*self.outer.position, self.outer.order[self.owner.name], label)

    def path_of(self, name: str) -> str:
        """Return the path of an operator or a variable of this block."""
        return f"{self.path}/{name}" if self.path else name

    def around(self) -> Iterator[tuple[Place, Op, str]]:
        """Yield block, operator and label of each owner around this block, innermost first."""
        if self.outer is not None and self.owner is not None:
            yield self.outer, self.owner, self.label
            yield from self.outer.around()

    # ---- blocks ------------------------------------------------------------------------------

    @cached_property
    def _entered(self) -> dict[str, Mapping[str, Place]]:
        return {}

    def inner(self, op: Op) -> Mapping[str, Place]:
        """Return the blocks of an operator of this block, by label."""
        places = self._entered.get(op.name)
        if places is None:
            at = self.path_of(op.name)
            places = self._entered[op.name] = {
                label: Place(self.definition, body, f"{at}/{label}", self, op, label)
                for label, body in op.bodies().items()
            }
        return places

    def walk(self) -> Iterator[Place]:
        """Yield this block and all blocks in it, in program order."""
        yield self
        for op in self.owners.values():
            for place in self.inner(op).values():
                yield from place.walk()

    # ---- indices -----------------------------------------------------------------------------

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The index of each operator of this block, by name."""
        return {op.name: index for index, op in enumerate(self.body.ops)}

    @cached_property
    def owners(self) -> Mapping[str, Op]:
        """The operators of this block that own blocks, by name."""
        return {op.name: op for op in self.body.ops if op.attrs and op.bodies()}

    @cached_property
    def var_order(self) -> Mapping[str, int]:
        """The index of each variable of this block, by name."""
        return {name: index for index, name in enumerate(self.body.vars)}

    @cached_property
    def makers(self) -> Mapping[str, Op]:
        """The operator of this block that binds each name."""
        return {name: op for op in self.body.ops for name in op.binds()}

    def op(self, name: str) -> Op | None:
        """Return the operator of this name in this block; `None` if there is none."""
        index = self.order.get(name)
        return None if index is None else self.body.ops[index]

    def maker(self, name: str) -> tuple[Place, Op] | None:
        """Return the operator that binds a variable of this block: for an argument, the owner.

        `None` for data and persistable variables.
        """
        if name in self.makers:
            return self, self.makers[name]
        if self.outer is None or self.owner is None or self.body.vars[name].kind != ARGUMENT:
            return None
        return self.outer, self.owner

    def binder(self, name: str) -> Place | None:
        """Return the innermost block that binds a visible name; `None` if none does."""
        place: Place | None = self
        while place is not None and name not in place.body.vars:
            place = place.outer
        return place

    @cached_property
    def readers(self) -> Readers:
        """The operators that read each name, in blocks of this block too, in program order.

        An owner reads the results of its blocks. It does not count for names that only its
        blocks read.
        """
        readers: Readers = {}
        owners = self.owners
        for op in self.body.ops:
            if op.name not in owners:
                for name in dict.fromkeys(op.reads()):
                    readers.setdefault(name, []).append((self, op))
                continue
            for name in _own_reads(op):
                readers.setdefault(name, []).append((self, op))
            for place in self.inner(op).values():
                place.add_free_readers(readers, (self, op))
        return readers

    def add_free_readers(self, readers: Readers, owner: tuple[Place, Op]) -> None:
        """Add the readers of outer names to those of the enclosing block."""
        for name, ops in self.readers.items():
            if name not in self.body.vars:
                readers.setdefault(name, []).extend(ops)
        for name in self.body.results:
            if name not in self.body.vars:
                _add_once(readers.setdefault(name, []), owner)

    def users(self, name: str) -> list[tuple[Place, Op]]:
        """Return the operators that read a variable of this block.

        The owner of the block counts for a result of the block.
        """
        users = list(self.readers.get(name, ()))
        if self.outer is not None and self.owner is not None and name in self.body.results:
            users.append((self.outer, self.owner))
        return users


def _own_reads(op: Op) -> dict[str, None]:
    """Return the names that an operator with blocks reads itself."""
    return {n: None for slot, names in op.inputs.items() if slot != CAPTURES for n in names}


def _add_once(readers: list[tuple[Place, Op]], reader: tuple[Place, Op]) -> None:
    if all(op is not reader[1] for _, op in readers):
        readers.append(reader)
