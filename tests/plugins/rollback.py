"""Every program that is rolled back equals its earlier state, bookkeeping included.

Programs go back by cutting to lengths and by undoing the few other changes. While tests run, a
full copy is taken at each moment too, and what the program went back to is held against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from braces.extend.building import Builder, SymbolTable

Methods = dict[tuple[type, str], Callable[..., Any]]
_BUILDER, _TABLE = Builder.snapshot, SymbolTable.mark
_RESTORE, _REWIND = Builder.restore, SymbolTable.rewind


def _copying_snapshot(self: Builder) -> Any:
    return _BUILDER(self), whole(self)


def _held_restore(self: Builder, given: Any) -> None:
    moment, copy = given
    _RESTORE(self, moment)
    assert whole(self) == copy


def _copying_mark(self: SymbolTable) -> Any:
    return _TABLE(self), content(self), shared(self)


def _held_rewind(self: SymbolTable, given: Any) -> None:
    moment, copy, names = given
    _REWIND(self, moment)
    assert (content(self), shared(self)) == (copy, names)


WATCHED: Methods = {
    (Builder, "snapshot"): _copying_snapshot,
    (Builder, "restore"): _held_restore,
    (SymbolTable, "mark"): _copying_mark,
    (SymbolTable, "rewind"): _held_rewind,
}
PLAIN: Methods = {
    (Builder, "snapshot"): _BUILDER,
    (Builder, "restore"): _RESTORE,
    (SymbolTable, "mark"): _TABLE,
    (SymbolTable, "rewind"): _REWIND,
}
"""For tests that count what building costs; nothing may stay open across the change."""


@contextmanager
def watching(methods: Methods = WATCHED) -> Generator[None]:
    """Inside, what goes back is held against what it was."""
    with ExitStack() as stack:
        for (owner, name), method in methods.items():
            stack.enter_context(mock.patch.object(owner, name, method))
        yield


def whole(program: Builder) -> Any:
    """All that a program is while it is being written, its startup program aside."""
    tables = [content(table) for table in program.current.chain()]
    updates = Ordered(program.updates), program.results
    return id(program.current), tables, shared(program.table), updates


def content(table: SymbolTable) -> Any:
    """Return the contents of a block, in order."""
    lists = list(table.params), Ordered(table.vars), list(map(id, table.ops))
    return *lists, list(table.read_outside), list(table.shown)


def shared(table: SymbolTable) -> Any:
    """The names and dimensions of a whole program."""
    names, unifier = table.names, table.unifier
    known = Ordered(unifier.known), unifier.count
    return Ordered(names.taken), Counter(names.counts), list(names.blocks), known


class Ordered(dict[Any, Any]):
    """A copy that is equal to what has the same items in the same order."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and list(self.items()) == list(other.items())
