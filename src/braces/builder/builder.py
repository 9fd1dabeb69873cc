"""Programs being written, and which one that is.

A `Builder` holds a main block, the `updates` that a run leaves in the scope, and the startup
program that sets every persistable variable. Its description is immutable and cached; building
goes through symbol tables, and passes make new programs. What users hold is a
`braces.program.Program`, a builder that does more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

from braces.builder.symbol_table import SymbolTable
from braces.errors import ProgramError
from braces.ir.records import ProgramDef, Source, VarInfo
from braces.ir.walk import all_bodies, resolve_body

_stack: ContextVar[tuple[Builder, ...]] = ContextVar("braces_programs", default=())
_default: ContextVar[Builder | None] = ContextVar("braces_default", default=None)


class Builder:
    """A program being written.

    Attributes:
        table: The symbol table of the main block.
        current: That of the block that operators are appended to.
        updates: Persistable name to the variable that holds its next value.
        results: What the program gives where no fetch is named.
        source: The line of the user's that operators are said to be made by; `None` looks.
        built: What functions that build once have built here, by function.
        origin: The program that this is a copy of, and the version of this one at that moment.
    """

    def __init__(self, definition: ProgramDef | None = None) -> None:
        self.table = SymbolTable()
        self.current = self.table
        self.updates: dict[str, str] = {}
        self.results: tuple[str, ...] = ()
        self.source: Source | None = None
        self.built: dict[object, Any] = {}
        self.origin: tuple[Self, tuple[int, int]] | None = None
        self._startup: Self | None = None
        self._unknown = b""
        self._frozen: tuple[int, int, ProgramDef] | None = None
        self._entered: list[tuple[Any, Any]] = []
        if definition is not None:
            self.adopt(definition)

    # ---- content -----------------------------------------------------------------------------

    @property
    def startup(self) -> Self:
        """The program that sets every persistable variable of this one."""
        if self._startup is None:
            self._startup = type(self)()
        return self._startup

    @startup.setter
    def startup(self, program: Self) -> None:
        self._startup = program

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever the program does."""
        return self.table.version, len(self.updates)

    @property
    def original(self) -> Self:
        """The program that this is a copy of, as long as nothing was added; else itself."""
        if self.origin is None or self.origin[1] != self.version:
            return self
        return self.origin[0]

    @property
    def definition(self) -> ProgramDef:
        """The program at this moment, immutable."""
        version = self.version
        if self._frozen is None or self._frozen[:2] != version:
            there, moved, given = self.table.vars, dict(self.updates), self.results
            if self.current is not self.table:  # what open blocks compute is not there yet
                moved = {name: value for name, value in moved.items() if value in there}
                given = tuple(name for name in given if name in there)
            body = self.table.freeze(given)
            if self.table.unifier.known:
                body = resolve_body(body, self.table.unifier.resolve)
            whole = ProgramDef(body, moved, self._unknown)
            self._frozen = (*version, whole)
        return self._frozen[2]

    def like(self, definition: ProgramDef) -> Self:
        """A new program of this kind, with this description."""
        return type(self)(definition)

    def adopt(self, definition: ProgramDef) -> Self:
        """Take over a description; this program must be empty."""
        for body, _ in all_bodies(definition.main):
            self.table.names.take((*body.vars, *(op.name for op in body.ops)))
        self.table.thaw(definition.main)
        self.updates = dict(definition.updates)
        self.results = definition.main.results
        self._unknown = definition.unknown
        return self

    def update(self, persistable: Any, value: Any) -> None:
        """Give a persistable variable its value after the run.

        Args:
            persistable: A parameter or state of the main block, or its name.
            value: A variable of the main block or of a plain block in it, or its name. What an
                open plain block computes becomes an output of it when it ends.

        Raises:
            ProgramError: The variable is not persistable, or it has an update already; or what
                is given is no variable of this program.
            UnknownNameError: There is no such variable.
        """
        persistable, value = self._name_of(persistable), self._name_of(value)
        info = self.table.get_var(persistable)
        if not info.persistable:
            raise ProgramError(
                f"`{persistable}` does not outlive a run, so it cannot be updated.",
                fix="Update parameters and states only.",
            )
        if persistable in self.updates:
            raise ProgramError(
                f"`{persistable}` is updated twice.",
                given=f"{persistable} <- {self.updates[persistable]}, then <- {value}",
                fix="Compute one next value; a run gives each persistable variable just one.",
            )
        self.updates[persistable] = value
        self.table.touch()

    def update_again(self, persistable: str, value: Any) -> None:
        """Give a persistable variable that has an update another value after the run."""
        earlier = self.updates[persistable]
        self.updates[persistable] = self._name_of(value)
        self.table.journal.note(lambda: self.updates.__setitem__(persistable, earlier))
        self.table.touch()

    def give(self, name: str) -> None:
        """Add a variable to what the program gives, of the main block or a plain one in it.

        Raises:
            UnknownNameError: There is no such variable.
        """
        name = self._name_of(name)
        if name not in self.results:
            self.results = (*self.results, name)
            self.table.touch()

    def _name_of(self, given: Any) -> str:
        """The name of a variable of the main block, which is given itself or by name."""
        name = given if isinstance(given, str) else getattr(given, "name", None)
        other = getattr(given, "program", self) is not self
        if not isinstance(name, str) or other:
            raise ProgramError(
                f"{given!r:.80} is no variable of this program.",
                fix="Give a variable of it or its name: prog.update(counter, counter + 1).",
            )
        table = self.current if self.current.runs_once else self.table
        if table.find_var(name) is None and not self.table.show(name):
            self.table.get_var(name)
        return name

    # ---- blocks ------------------------------------------------------------------------------

    @property
    def infos(self) -> Mapping[str, VarInfo]:
        """The declarations of the variables of the main block."""
        return self.definition.main.vars

    @property
    def persistable_infos(self) -> list[VarInfo]:
        """The declarations of all variables that outlive a run, in order of definition."""
        return [info for info in self.infos.values() if info.persistable]

    # ---- being built -------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._entered.append((_stack.set((*_stack.get(), self)), self.snapshot()))
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        token, snapshot = self._entered.pop()
        _stack.reset(token)
        if error is not None:
            self.restore(snapshot)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # what one of them appends is not the other's

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles have: nothing is open in them, nor to be called."""
        here = {"current": self.table, "source": None, "origin": None}
        return {**vars(self), **here, "_entered": [], "built": {}}

    @contextmanager
    def building(self, table: SymbolTable) -> Generator[SymbolTable]:
        """Inside, operators are appended to `table`."""
        before, self.current = self.current, table
        token = _stack.set((*_stack.get(), self))
        try:
            yield table
        finally:
            self.current = before
            _stack.reset(token)

    @contextmanager
    def at(self, source: Source | None) -> Generator[None]:
        """Inside, operators are said to be made by this line."""
        before, self.source = self.source, source
        try:
            yield
        finally:
            self.source = before

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Where an exception leaves, the program is as it was before."""
        snapshot = self.snapshot()
        try:
            yield
        except BaseException:
            self.restore(snapshot)
            raise

    def snapshot(self) -> Any:
        """What `restore` needs to come back to this moment."""
        marks = [(table, table.mark()) for table in self.current.chain()]
        startup = self._startup.snapshot() if self._startup else None
        return self.current, marks, (len(self.updates), self.results), startup

    def restore(self, snapshot: Any) -> None:
        """Come back to the moment of a snapshot; moments after it are no more."""
        self.current, marks, (updates, self.results), startup = snapshot
        for table, mark in marks:
            table.rewind(mark)
        while len(self.updates) > updates:
            self.updates.popitem()
        if startup is not None:
            self.startup.restore(startup)
        else:
            self._startup = None


def program_in_with() -> Builder | None:
    """The program of the innermost `with`, or `None` outside of all."""
    stack = _stack.get()
    return stack[-1] if stack else None


def current_program() -> Builder:
    """The program that building goes to: the innermost `with`, else one per thread."""
    stack = _stack.get()
    if stack:
        return stack[-1]
    program = _default.get()
    if program is None:
        program = new_default()
        _default.set(program)
    return program


new_default: Callable[[], Builder] = Builder
"""Makes the program of a thread; `braces.program` says that users get a `Program`."""
