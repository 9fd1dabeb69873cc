"""Blocks of a pattern beside those of a program, and the variables that they see.

    def before(x, xs):                                    y = loop(init=x, sliced=xs) {
        return br.scan(lambda h, row: h + row, x, xs)       body (h, row) { add(x=h, y=row) } }

A level is a block of the pattern with the block of the program that it is compared with. The
outermost level is the pattern itself, beside the block in which it is searched for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from braces.dtypes import Type
from braces.ir.records import Body, Op, VarInfo
from braces.ir.walk import producers
from braces.passes.core.rewrite import InsertionPoint


class Found(NamedTuple):
    """An operator, and the level of its block."""

    op: Op
    level: Level


@dataclass(frozen=True, eq=False)
class Level:
    """A block of a pattern beside a block of a program.

    Attributes:
        likes: The operators of the pattern's block, by the names that they bind.
        infos: The variables of that block.
        results: Its results.
        place: The block of the program in which the pattern is searched for.
        body: The block of the program; `None` at the outermost level, which is `place`.
        outer: The level around; `None` at the outermost one.
        prefix: Prefix of the names of this level in a state of the search.
    """

    likes: dict[str, Op]
    infos: dict[str, VarInfo]
    results: tuple[str, ...]
    place: InsertionPoint
    body: Body | None = None
    outer: Level | None = field(default=None, repr=False)
    prefix: str = ""

    def inner(self, like: Op, label: str, wanted: Body, body: Body) -> Level:
        """Return the level of a block of an operator of this one."""
        prefix = f"{self.prefix}{like.name}/{label} "
        likes, infos = producers(wanted.ops), dict(wanted.vars)
        return Level(likes, infos, wanted.results, self.place, body, self, prefix)

    def of(self, wanted: str) -> Level:
        """Return the level that binds a variable of the pattern."""
        level = self
        while wanted not in level.infos and level.outer is not None:
            level = level.outer
        return level

    def maker(self, name: str) -> Found | None:
        """Return the operator that computes a visible variable of the program.

        Its level is the outermost one, too, if it is in a block around the match.
        """
        if self.body is None or self.outer is None:
            op = self.place.maker(name)
            return None if op is None else Found(op, self)
        if name not in self.body.vars:
            return self.outer.maker(name)
        op = self._makers.get(name)
        return None if op is None else Found(op, self)

    def binds(self, name: str) -> bool:
        """Return whether the block of the program binds a variable."""
        return name in (self.place.table.vars if self.body is None else self.body.vars)

    def is_inside(self, name: str) -> bool:
        """Return whether a block within the match binds a variable."""
        if self.body is None or self.outer is None:
            return False
        return name in self.body.vars or self.outer.is_inside(name)

    def type_of(self, name: str) -> Type:
        """Return the type of a visible variable of the program."""
        if self.body is None or self.outer is None:
            return self.place.table.type_of(name)
        if name not in self.body.vars:
            return self.outer.type_of(name)
        return self.body.vars[name].type.map_sizes(self.place.table.unifier.resolve)

    @cached_property
    def used(self) -> set[str]:
        """The variables that the block of the pattern reads or returns."""
        return {name for op in self.likes.values() for name in op.reads()} | {*self.results}

    @cached_property
    def _makers(self) -> dict[str, Op]:
        return {} if self.body is None else producers(self.body.ops)
