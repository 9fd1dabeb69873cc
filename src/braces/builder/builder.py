"""Programs under construction, and the current one.

A `Builder` holds a main block, the `updates` that a run writes to the scope, and the startup
program that sets every persistable variable. Its definition is immutable and cached. Building
changes symbol tables; passes return new programs. The public class is `braces.program.Program`,
a subclass of `Builder`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

from braces.builder.symbol_table import SymbolTable
from braces.errors import ProgramError
from braces.ir.lineage import Lineage
from braces.ir.records import Derivation, ProgramDef, Source, VarInfo
from braces.ir.walk import all_bodies, resolve_body

SEED = "seed"
"""The data variable of a startup program that has the random seed."""
_stack: ContextVar[tuple[Builder, ...]] = ContextVar("braces_programs", default=())
_default: ContextVar[Builder | None] = ContextVar("braces_default", default=None)


class Builder:
    """A program under construction.

    Attributes:
        table: The symbol table of the main block.
        current: The symbol table of the block that operators are appended to.
        updates: Persistable name to the variable that holds its next value.
        results: The default fetches.
        source: The source line recorded for new operators; `None` inspects the call stack.
        built: Cache of functions that build once per program, by function.
        derivations: The calls that built derivatives so far.
        lineage: The versions that it was made from, which handles of these follow.
        origin: The original of a copy, and the version of this program when it was copied.
        is_startup: True for the startup program of another one.
    """

    def __init__(self, definition: ProgramDef | None = None) -> None:
        self.table = SymbolTable()
        self.current = self.table
        self.updates: dict[str, str] = {}
        self.results: tuple[str, ...] = ()
        self.source: Source | None = None
        self.built: dict[object, Any] = {}
        self.derivations: list[Derivation] = []
        self.lineage = Lineage()
        self.origin: tuple[Self, tuple[int, int]] | None = None
        self.is_startup = False
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
            self.startup = type(self)()
        assert self._startup is not None
        return self._startup

    @startup.setter
    def startup(self, program: Self) -> None:
        program.is_startup = True
        self._startup = program

    @property
    def version(self) -> tuple[int, int]:
        """A version number that changes whenever the program does."""
        return self.table.version, len(self.updates)

    @property
    def original(self) -> Self:
        """The original of an unchanged copy; otherwise this program."""
        if self.origin is None or self.origin[1] != self.version:
            return self
        return self.origin[0]

    @property
    def definition(self) -> ProgramDef:
        """An immutable snapshot of the program."""
        version = self.version
        if self._frozen is None or self._frozen[:2] != version:
            main_vars, next_values, result_names = (
                self.table.vars,
                dict(self.updates),
                self.results,
            )
            if self.current is not self.table:  # outputs of open blocks do not exist yet
                next_values = {
                    name: value for name, value in next_values.items() if value in main_vars
                }
                result_names = tuple(name for name in result_names if name in main_vars)
            body = self.table.freeze(result_names)
            if self.table.unifier.known:
                body = resolve_body(body, self.table.unifier.resolve)
            derivations = tuple(self.derivations)
            snapshot = ProgramDef(
                body,
                next_values,
                self._unknown,
                derivations=derivations,
                lineage=self.lineage,
            )
            self._frozen = (*version, snapshot)
        return self._frozen[2]

    def like(self, definition: ProgramDef) -> Self:
        """Return a new program of this class with this definition."""
        return type(self)(definition)

    def adopt(self, definition: ProgramDef) -> Self:
        """Load a definition into this program, which must be empty."""
        for body, _ in all_bodies(definition.main):
            self.table.names.take((*body.vars, *(op.name for op in body.ops)))
        self.table.thaw(definition.main)
        self.updates = dict(definition.updates)
        self.results = definition.main.results
        self._unknown = definition.unknown
        self.derivations = list(definition.derivations)
        self.lineage = definition.lineage
        return self

    def derived(self, record: Derivation, since: int) -> None:
        """Record a call that built derivatives, in place of the calls within it."""
        self.derivations[since:] = [record]
        self.table.touch()

    def update(self, persistable: Any, value: Any) -> None:
        """Set the next value of a persistable variable, stored at the end of a run.

        Args:
            persistable: A parameter or state of the main block, or its name.
            value: A variable of the main block or of a plain block in it, or its name. A
                variable of an open plain block becomes an output of it when the block ends.

        Raises:
            ProgramError: If the variable is not persistable, or it has an update already; or an
                argument is not a variable of this program.
            UnknownNameError: If the variable does not exist.
        """
        persistable, value = self._name_of(persistable), self._name_of(value)
        info = self.table.get_var(persistable)
        if not info.persistable:
            raise ProgramError(
                f"`{persistable}` is not persistable, so it cannot be updated.",
                fix="Update only parameters and states.",
            )
        if persistable in self.updates:
            raise ProgramError(
                f"`{persistable}` is updated twice.",
                given=f"{persistable} <- {self.updates[persistable]}, then <- {value}",
                fix="Compute one next value; a persistable variable has one update per run.",
            )
        self.updates[persistable] = value
        self.table.touch()

    def update_again(self, persistable: str, value: Any) -> None:
        """Replace the update of a persistable variable."""
        earlier = self.updates[persistable]
        self.updates[persistable] = self._name_of(value)
        self.table.journal.note(lambda: self.updates.__setitem__(persistable, earlier))
        self.table.touch()

    def give(self, name: str) -> None:
        """Add a variable of the main block, or of a plain block in it, to the results.

        Raises:
            UnknownNameError: If the variable does not exist.
        """
        name = self._name_of(name)
        if name not in self.results:
            self.results = (*self.results, name)
            self.table.touch()

    def _name_of(self, variable: Any) -> str:
        """Return the name of a variable of the main block, from a variable or a name."""
        name = variable if isinstance(variable, str) else getattr(variable, "name", None)
        is_foreign = getattr(variable, "program", self) is not self
        if not isinstance(name, str) or is_foreign:
            raise ProgramError(
                f"{variable!r:.80} is not a variable of this program.",
                fix="Pass one of its variables, or a name: prog.update(counter, counter + 1).",
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
        return copy.deepcopy(self)  # operators appended to one do not appear in the other

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles: without open blocks and callables."""
        closed_state = {"current": self.table, "source": None, "origin": None}
        return {**vars(self), **closed_state, "_entered": [], "built": {}}

    @contextmanager
    def building(self, table: SymbolTable) -> Generator[SymbolTable]:
        """Context manager: append operators to `table`."""
        outer, self.current = self.current, table
        token = _stack.set((*_stack.get(), self))
        try:
            yield table
        finally:
            self.current = outer
            _stack.reset(token)

    @contextmanager
    def at(self, source: Source | None) -> Generator[None]:
        """Context manager: record this source line for new operators."""
        outer, self.source = self.source, source
        try:
            yield
        finally:
            self.source = outer

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Context manager: restore the program on an exception."""
        snapshot = self.snapshot()
        try:
            yield
        except BaseException:
            self.restore(snapshot)
            raise

    def snapshot(self) -> Any:
        """Return the state that `restore` needs to roll back to this point."""
        marks = [(table, table.mark()) for table in self.current.chain()]
        startup = self._startup.snapshot() if self._startup else None
        counts = len(self.updates), len(self.derivations)
        return self.current, marks, (*counts, self.results, self.lineage), startup

    def restore(self, snapshot: Any) -> None:
        """Roll back to a snapshot; later snapshots become invalid."""
        self.current, marks, counts, startup = snapshot
        updates, derivatives, self.results, self.lineage = counts
        del self.derivations[derivatives:]
        for table, mark in marks:
            table.rewind(mark)
        while len(self.updates) > updates:
            self.updates.popitem()
        if startup is not None:
            self.startup.restore(startup)
        else:
            self._startup = None


def program_in_with() -> Builder | None:
    """Return the program of the innermost `with`, or `None` outside any."""
    stack = _stack.get()
    return stack[-1] if stack else None


def current_program() -> Builder:
    """Return the current program: that of the innermost `with`, else one per thread."""
    stack = _stack.get()
    if stack:
        return stack[-1]
    program = _default.get()
    if program is None:
        program = new_default()
        _default.set(program)
    return program


new_default: Callable[[], Builder] = Builder
"""Factory of the default program of a thread; `braces.program` sets it to `Program`."""
