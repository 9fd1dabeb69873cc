"""Numbers of blocks and operators of a program, as the page counts them."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, final

from braces.ir.paths import VARIABLE, find_path, unknown_path
from braces.ir.places import Place
from braces.ir.records import Op
from braces.ir.views import LoopView, view_of


class Site(NamedTuple):
    """An operator: the number of its block, and its index in the block."""

    block: int
    op: int


class VariableKey(NamedTuple):
    """A variable: the number of the block that binds it, and its name."""

    block: int
    name: str


@final
class Sites:
    """The blocks of a program by number, and its operators by block and index.

    Blocks are numbered in program order, block 0 first, as in the payload of the page.

    Attributes:
        places: The blocks by number.
    """

    def __init__(self, main: Place) -> None:
        self.places: list[Place] = list(main.walk())
        self._numbers = {place.path: number for number, place in enumerate(self.places)}

    @cached_property
    def depths(self) -> list[int]:
        """The nesting depth of each block; 0 for block 0."""
        return [len(place.chain) for place in self.places]

    @cached_property
    def loops(self) -> frozenset[int]:
        """The numbers of the blocks of loops, which have iterations."""
        owned = ((i, place.owner) for i, place in enumerate(self.places) if place.owner)
        return frozenset(i for i, owner in owned if isinstance(view_of(owner), LoopView))

    def number_of(self, place: Place) -> int:
        """Return the number of a block."""
        return self._numbers[place.path]

    def inner(self, block: int, owner: str, label: str) -> int | None:
        """Return the number of a block of an operator; `None` if there is none."""
        return self._numbers.get(f"{self.places[block].path_of(owner)}/{label}")

    def has(self, site: Site) -> bool:
        """Return whether there is such an operator."""
        is_block = 0 <= site.block < len(self.places)
        return is_block and 0 <= site.op < len(self.places[site.block].body.ops)

    def op_at(self, site: Site) -> Op:
        """Return an operator."""
        return self.places[site.block].body.ops[site.op]

    def index_of(self, block: int, op: Op) -> int | None:
        """Return the index of an operator in its block; `None` if there is none."""
        return self.places[block].order.get(op.name)

    def path_of(self, site: Site) -> str:
        """Return the path of an operator."""
        return self.places[site.block].path_of(self.op_at(site).name)

    def binder(self, block: int, name: str) -> VariableKey | None:
        """Return the variable of a name that is visible in a block; `None` if unknown."""
        place = self.places[block].binder(name)
        return None if place is None else VariableKey(self.number_of(place), name)

    def operator(self, path: str) -> Site:
        """Return the operator at a path, or the one that binds the variable at it.

        Raises:
            UnknownNameError: If there is none; the message has similar paths.
        """
        located = find_path(self.places[0], path)
        if located is not None and isinstance(located.content, Op):
            return Site(self.number_of(located.place), located.place.order[located.name])
        maker = located.place.makers.get(located.name) if located is not None else None
        if located is None or maker is None:
            raise unknown_path(self.places[0], path, "operator")
        return Site(self.number_of(located.place), located.place.order[maker.name])

    def variable(self, path: str) -> VariableKey:
        """Return the variable at a path; for the path of an operator, its first output.

        Raises:
            UnknownNameError: If there is none; the message has similar paths.
        """
        located = find_path(self.places[0], path, VARIABLE)
        if located is not None:
            return VariableKey(self.number_of(located.place), located.name)
        site = self.operator(path)
        name = next(iter(self.op_at(site).binds()), None)
        if name is None:
            raise unknown_path(self.places[0], path, VARIABLE)
        return VariableKey(site.block, name)
