"""Programs, and which one is being built.

A `Program` holds a main block, the `updates` that a run leaves in the scope, and the startup
program that sets every persistable variable. Its description is immutable and cached; building
goes through symbol tables, and passes make new programs.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from braces import late
from braces.errors import ProgramError, UnknownNameError, suggest
from braces.ir import serde, text
from braces.ir.block import Block
from braces.ir.parser import parse_program
from braces.ir.records import Body, ProgramDef, Source, VarInfo
from braces.ir.table import SymbolTable
from braces.ir.walk import all_bodies, resolve_body

_stack: ContextVar[tuple[Program, ...]] = ContextVar("braces_programs", default=())
_default: ContextVar[Program | None] = ContextVar("braces_default", default=None)


class Program(late.Hinted):
    """A neural-network program as data.

    Inside `with program:`, building goes to it; the blocks nest, and threads do not mix. Where
    an exception leaves the `with` block, the program is as it was before.

    Attributes:
        updates: Persistable name to the variable that holds its next value.
        results: What the program gives where no fetch is named, as a program written by hand
            returns it and `minimize` adds its loss; `braces run` fetches it, and so does the
            `train` of a model.

    Example:
        >>> with Program() as prog:
        ...     pass
        >>> len(prog.blocks)
        1
    """

    def __init__(self, definition: ProgramDef | None = None) -> None:
        self.table = SymbolTable()
        self.current = self.table
        self.updates: dict[str, str] = {}
        self.results: tuple[str, ...] = ()
        self.source: Source | None = None
        self._startup: Program | None = None
        self._unknown = b""
        self._frozen: tuple[int, int, ProgramDef] | None = None
        self._entered: list[tuple[Any, Any]] = []
        if definition is not None:
            self.adopt(definition)

    # ---- content -----------------------------------------------------------------------------

    @property
    def startup(self) -> Program:
        """The program that sets every persistable variable of this one."""
        if self._startup is None:
            self._startup = Program()
        return self._startup

    @startup.setter
    def startup(self, program: Program) -> None:
        self._startup = program

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever the program does."""
        return self.table.version, len(self.updates)

    @property
    def definition(self) -> ProgramDef:
        """The program at this moment, immutable."""
        version = self.version
        if self._frozen is None or self._frozen[:2] != version:
            body = self.table.freeze(self.results)
            if self.table.unifier.known:
                body = resolve_body(body, self.table.unifier.resolve)
            moved = dict(self.updates)
            if self.current is not self.table:  # what open blocks compute is not there yet
                moved = {name: value for name, value in moved.items() if value in body.vars}
            whole = ProgramDef(body, moved, self._unknown)
            self._frozen = (*version, whole)
        return self._frozen[2]

    def adopt(self, definition: ProgramDef) -> Program:
        """Take over a description; this program must be empty."""
        for body, _ in all_bodies(definition.main):
            self.table.names.taken.update(body.vars, (op.name for op in body.ops))
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

    def give(self, name: str) -> None:
        """Add a variable of the main block to what the program gives."""
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
    def blocks(self) -> list[Block]:
        """All blocks, the main one first, then nested ones in program order."""
        made: dict[int, Block] = {}
        for body, parent in all_bodies(self.definition.main):
            made[id(body)] = Block(body, made[id(parent)] if parent is not None else None)
        return list(made.values())

    def block(self, index: int) -> Block:
        """The block of this index; 0 is the main one."""
        blocks = self.blocks
        if not -len(blocks) <= index < len(blocks):
            raise UnknownNameError(
                f"There is no block {index}.", fix=f"This program has {len(blocks)} blocks."
            )
        return blocks[index]

    @property
    def vars(self) -> Mapping[str, VarInfo]:
        """The variables of the main block."""
        return self.definition.main.vars

    def var(self, name: str) -> Any:
        """The variable of this name in the main block, to build on with.

        Raises:
            UnknownNameError: There is none.

        Example:
            >>> import braces as br
            >>> prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x) }")
            >>> with prog:
            ...     loss = br.sum(prog.var("y"))
            ...     (grad,) = br.gradients(loss, prog.var("x"))
            >>> grad.type
            f32[3]
        """
        if name not in self.table.vars and not self.table.show(name):
            what = f"There is no variable `{name}` in the main block."
            raise UnknownNameError(what, fix=suggest(name, self.vars))
        return late.call("var_of", self, self.table, name)

    @property
    def parameters(self) -> list[VarInfo]:
        """The trainable and frozen parameters, in order of definition."""
        return [info for info in self.vars.values() if info.kind == "parameter"]

    @property
    def persistables(self) -> list[VarInfo]:
        """All variables that outlive a run."""
        return [info for info in self.vars.values() if info.persistable]

    # ---- being built -------------------------------------------------------------------------

    def __enter__(self) -> Program:
        self._entered.append((_stack.set((*_stack.get(), self)), self.snapshot()))
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        token, snapshot = self._entered.pop()
        _stack.reset(token)
        if error is not None:
            self.restore(snapshot)

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
        tables = [
            (t, list(t.params), dict(t.vars), list(t.ops), set(t.read_outside), set(t.shown))
            for t in self.current.chain()
        ]
        root = self.table
        shared = (root.names.copy(), dict(root.unifier.known), root.unifier.count)
        startup = self._startup.snapshot() if self._startup else None
        moved = dict(self.updates), self.results
        return self.current, tables, shared, moved, startup

    def restore(self, snapshot: Any) -> None:
        """Come back to the moment of a snapshot."""
        self.current, tables, (names, known, count), moved, startup = snapshot
        self.updates, self.results = moved
        for table, params, variables, ops, read_outside, shown in tables:
            table.params, table.vars, table.ops = params, variables, ops
            table.read_outside, table.shown = read_outside, shown
        self.table.names.become(names)
        self.table.unifier.known, self.table.unifier.count = known, count
        if startup is not None:
            self.startup.restore(startup)
        else:
            self._startup = None
        self.table.touch()

    # ---- text, bytes, files, pictures --------------------------------------------------------

    def __str__(self) -> str:
        return text.print_program(self.definition)

    def __repr__(self) -> str:
        main = self.definition.main
        return (
            f"<Program: {len(self.blocks)} blocks, {len(main.ops)} ops, {len(main.vars)} vars>"
        )

    def _repr_html_(self) -> str:
        return late.call("program_html", self, embed=True)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page that shows the nested blocks; it needs no network and no other file.

        Edges are laid out by elkjs, where `pip install "braces[pictures]"` has brought it;
        without it the page shows the blocks as nested lists.
        """
        serde.write_atomically(path, late.call("program_html", self).encode())

    def to_dot(self) -> str:
        """The program in Graphviz's DOT language."""
        return late.call("program_dot", self)

    def to_bytes(self) -> bytes:
        """The program, its startup program included, as one protobuf `ProgramDesc`."""
        startup = self._startup.definition if self._startup else None
        if startup is not None and startup.empty:  # nothing but looked at
            startup = None
        versions, modules = late.call("op_versions"), late.call("op_modules")
        return serde.program_to_bytes(self.definition, startup, versions, modules)

    @staticmethod
    def from_bytes(data: bytes) -> Program:
        """Read what `to_bytes` wrote.

        Raises:
            FileFormatError: The bytes are not a program, or one of a newer format.
            VerifyError: The program is not well formed.
        """
        main, startup = serde.program_from_bytes(data, late.call("op_versions"))
        return _admitted(main, startup)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file, at once or not at all."""
        serde.write_atomically(path, self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Program:
        """Read a program from a file that `save` wrote.

        Raises:
            FileFormatError: The file is not a program, or one of a newer format.
            VerifyError: The program is not well formed.
            OSError: There is no such file, or it must not be read.
        """
        return Program.from_bytes(serde.read_bounded(path))

    def for_test(self) -> Program:
        """A copy for inference: no dropout, running statistics, no updates but of draws."""
        return late.call("for_test", self)

    def explain(self, fetch: Any = (), **options: Any) -> Any:
        """What each pass does to each block and each loop, or why it leaves it alone.

        Args:
            fetch: What is fetched, as variables or names; what the program gives where nothing
                is, and where it gives and updates nothing, whatever no operator reads.
            options: `passes=`, a tuple as `br.Executor` takes it; those of an executor that is
                given none.

        Returns:
            A value with one step for each pass; `print` shows it.

        Raises:
            UnknownNameError: A fetch does not exist.
            ProgramError: `passes` are no passes.

        Example:
            >>> import braces as br
            >>> prog = br.parse('''program {
            ...   data x: f32[3]  y: f32[3] = tanh(x=x)  z: f32[3] = exp(x=x)  return y }''')
            >>> print(prog.explain())
            eliminate: Keep what the results and updates need.
              block 0: 1 removed (z)
        """
        return late.call("explain", self, fetch, **options)


def program_in_with() -> Program | None:
    """The program of the innermost `with`, or `None` outside of all."""
    stack = _stack.get()
    return stack[-1] if stack else None


def default_program() -> Program:
    """The program that building goes to: the innermost `with`, else one per thread.

    Outside of all, data, parameters and constants go to the one of the thread, and operators to
    the program of their variables; an operator that is given no variable is refused there.
    """
    stack = _stack.get()
    if stack:
        return stack[-1]
    program = _default.get()
    if program is None:
        program = Program()
        _default.set(program)
    return program


def empty_body() -> Body:
    """A block with nothing in it."""
    return Body((), (), {}, ())


def parse(source: str) -> Program:
    """Read a program from its text form; the inverse of `str`.

    Raises:
        ParseError: The text is not a program; the message shows line, column, and a caret.
        VerifyError: The program is not well formed.
    """
    return _admitted(parse_program(source), None)


def _admitted(main: ProgramDef, startup: ProgramDef | None) -> Program:
    """A program from outside, verified, with attributes that were left out filled in."""
    main, startup = late.call("admit", main, startup)
    program = Program(main)
    if startup is not None:
        program.startup = Program(startup)
    return program
