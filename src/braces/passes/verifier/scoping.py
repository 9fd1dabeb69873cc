"""Scoping: names that are visible at one place of a program."""

from __future__ import annotations

from braces.dtypes import Type
from braces.ir.records import VALUE, Body, VarInfo


class ScopeChain:
    """Scope chain: a partly verified block and its enclosing blocks.

    Attributes:
        body: The block.
        around: The enclosing block at the operator that owns this one.
        ready: The names of this block that are bound so far.
    """

    def __init__(self, body: Body, around: ScopeChain | None) -> None:
        self.body = body
        self.around = around
        self.ready = {name for name, info in body.vars.items() if info.kind != VALUE}

    def owner(self, name: str) -> ScopeChain | None:
        """Return the innermost block, from here outwards, that declares a name."""
        block: ScopeChain | None = self
        while block is not None and name not in block.body.vars:
            block = block.around
        return block

    def info(self, name: str) -> VarInfo | None:
        """Return the declaration of a name, from here or an enclosing block."""
        owner = self.owner(name)
        return owner.body.vars[name] if owner else None

    def types(self, names: tuple[str, ...]) -> tuple[Type, ...]:
        """Return the types of names that are known to be visible."""
        return tuple(info.type for name in names if (info := self.info(name)))

    def names(self) -> list[str]:
        """Return all names that are bound here and in enclosing blocks."""
        return [*self.ready, *(self.around.names() if self.around else ())]
