"""Verifier: checks that a program is well formed, and reports errors with their places.

`CODES` lists the rules. Structure and names are always checked, and so are the types at the
interfaces of sub-blocks. The types of other operators are inferred and compared with the
declared ones if the operator has a written inference rule, which needs no JAX. On request, all
operators are checked, by evaluating kernels on shapes.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping
from contextlib import contextmanager

from braces.builder.builder import Builder
from braces.builder.program_argument import AnyProgram, program_of
from braces.builder.symbol_table import SymbolTable
from braces.define.axes.axis_map import shape_of
from braces.dims import Unifier
from braces.dtypes import ListType, is_float, too_large, unifies
from braces.errors import VerifyError, suggest
from braces.ir.limits import are_axes, check_nesting
from braces.ir.records import ARGUMENT, PARAMETER, VALUE, Body, Op, ProgramDef, VarInfo
from braces.ir.walk import all_bodies, dimensions
from braces.passes.verifier.operator import (
    check_captures,
    check_definition,
    check_interface,
    check_types,
)
from braces.passes.verifier.rules import CODES as CODES, Report
from braces.passes.verifier.scoping import ScopeChain


def verify(
    program: AnyProgram, all: bool = False, *, types: bool | None = None
) -> list[VerifyError]:
    """Check that a program and its startup program are well formed.

    Args:
        program: The program; or a model of `br.load_model`.
        all: Whether to list all errors instead of raising the first.
        types: Whether to infer types: `None` if that needs no JAX, `True` for all operators,
            `False` only for those that own blocks.

    Returns:
        The errors; empty for a well-formed program.

    Raises:
        VerifyError: If a rule is violated (see `CODES`) and `all` is not set.

    Example:
        >>> import braces as br
        >>> from braces.ir.text.parser import parse_program
        >>> bad = br.Program(parse_program("program { data x: f32[4]  y: f32[4] = tanh(x=z) }"))
        >>> [error.code for error in verify(bad, all=True)]
        ['B202']
    """
    main = program_of(program, "verify(program)")
    return check(main.definition, main.startup.definition, all, types)


def check(
    main: ProgramDef, startup: ProgramDef | None, all: bool, types: bool | None
) -> list[VerifyError]:
    """Check descriptions; see `verify`."""
    for program in (main, startup):
        check_nesting(program.main.ops if program else ())
    report = Report(all, main.modules)
    _Verification(report, "", types).check(main)
    if startup is not None:
        _Verification(report, "startup, ", types).check(startup)
        _check_startup(main.main, startup, report)
    return report.errors


def verified(definition: ProgramDef) -> ProgramDef:
    """Return a description after checking its structure; passes end with this.

    Raises:
        VerifyError: If the description is not well formed.
    """
    check(definition, None, False, False)
    return definition


@contextmanager
def verified_at_end(program: Builder) -> Generator[SymbolTable]:
    """Let a pass append to the current block inside; verify the new operators at the end.

    Operators that were in the block before and are still there are assumed valid.

    Raises:
        VerifyError: If the new operators are not well formed; the program is restored.
    """
    with program.transaction(), program.building(program.current) as table:
        ops, updates = {id(op): op for op in table.ops}, dict(program.updates)
        yield table
        new_updates = {n: v for n, v in program.updates.items() if n not in updates}
        _Verification(Report(False), "", False).more(table, ops, new_updates)


class _Verification:
    """A program under verification.

    Attributes:
        place: Prefix of the block in messages.
        types: Extent of type inference: see `verify`.
        unifier: Substitution of unnamed dimensions.
    """

    def __init__(self, report: Report, place: str, types: bool | None) -> None:
        self.report = report
        self.place = place
        self.types = types
        self.unifier = Unifier()

    def check(self, program: ProgramDef) -> None:
        main = program.main
        if self.types is not False:
            self.unifier.count = next_dim_number(main)
        if main.params:
            self.report.say(
                "B304",
                f"the main block has parameters: {', '.join(main.params)}.",
                at=self.at(""),
                fix="Declare them as data.",
            )
        visible = ScopeChain(main, None)
        self.block(visible, "")
        for target, value in program.updates.items():
            self.check_update(target, value, visible)

    def more(
        self, table: SymbolTable, good: Container[int], updates: Mapping[str, str]
    ) -> None:
        """Check a block under construction, except operators known valid, and updates."""
        visible: ScopeChain | None = None
        for outer in reversed(list(table.chain())):
            visible = ScopeChain(outer.freeze(), visible)
            if outer is not table:
                visible.ready.update(visible.body.vars)
        assert visible is not None
        ops = table.ops
        first = next((at for at, op in enumerate(ops) if id(op) not in good), len(ops))
        before = ops[:first]  # usually all valid operators: kept cheap
        named = {op.name for op in before}
        visible.ready |= {n for op in before for names in op.outputs.values() for n in names}
        for op in ops[first:]:
            if id(op) in good:
                named.add(op.name)
                visible.ready.update(op.binds())
            else:
                self.op(op, named, visible, "")
        for target, value in updates.items():
            self.check_update(target, value, visible)

    def at(self, path: str, op: Op | None = None) -> str:
        block = f"{self.place}block {path or '0'}"
        return f"{block}, {op.describe()}" if op else block

    # ---- blocks ------------------------------------------------------------------------------

    def block(self, visible: ScopeChain, path: str) -> None:
        """Check a block, and the blocks inside it."""
        body, named = visible.body, set[str]()
        self.params(body, path)
        for info in body.vars.values():
            self.declaration(info, body, path)
        for op in body.ops:
            self.op(op, named, visible, path)
        for name in dict.fromkeys(body.results):
            self.check_read(name, visible, self.at(path))
        self.bound(visible, path)

    def params(self, body: Body, path: str) -> None:
        for name in body.params:
            info = body.vars.get(name)
            if info is None or info.kind != ARGUMENT or body.params.count(name) > 1:
                self.report.say(
                    "B207",
                    f"parameter `{name}` must be declared once, as an argument of the block.",
                    at=self.at(path),
                    given=f"{info.kind} {name}: {info.type}" if info else None,
                    fix="Declare each parameter once, with its type.",
                )

    def declaration(self, info: VarInfo, body: Body, path: str) -> None:
        def say(code: str, what: str, fix: str) -> None:
            declaration_text = f"{info.kind} {info.name}: {info.type}"
            self.report.say(
                code, f"`{info.name}` {what}", at=self.at(path), given=declaration_text, fix=fix
            )

        if info.kind == ARGUMENT and info.name not in body.params:
            say(
                "B207",
                "is an argument, but not a parameter of the block.",
                "Add it to the block's parameters.",
            )
        if info.kind not in (VALUE, ARGUMENT) and path:
            say(
                "B301",
                "is data or persistable, but declared in an inner block.",
                "Declare it in block 0.",
            )
        if info.kind not in (VALUE, ARGUMENT) and isinstance(info.type, ListType):
            say("B302", "is data or persistable, but a list.", "Use an array.")
        if too_large(info.type):
            say("B305", "takes 2^63 bytes or more.", "Use smaller sizes.")
        if not are_axes(info.type, info.axes):
            say(
                "B306",
                f"has invalid axis names {info.axes!r:.80}.",
                "Name only axes with a number.",
            )
        if info.trainable and not _is_trainable(info):
            say("B303", "is trainable, but not a float parameter.", "Set trainable to false.")

    def bound(self, visible: ScopeChain, path: str) -> None:
        """Check that all declared values of a block are bound at its end."""
        if len(visible.ready) == len(visible.body.vars):
            return
        for name, info in visible.body.vars.items():
            if name not in visible.ready:
                self.report.say(
                    "B206",
                    f"`{name}` is declared, but no operator binds it.",
                    at=self.at(path),
                    given=f"{name}: {info.type}",
                    fix="Remove the declaration, or add the operator that computes it.",
                )

    # ---- operators ---------------------------------------------------------------------------

    def op(self, op: Op, named: set[str], visible: ScopeChain, path: str) -> None:
        """Check an operator: name, reads, definition, sub-blocks, captures, outputs, types."""
        at, before = self.at(path, op), len(self.report.errors)
        if op.name in named:
            what = f"duplicate operator name `{op.name}` in this block."
            self.report.say("B109", what, at=at, fix="Rename one of them.")
        named.add(op.name)
        for name in dict.fromkeys(op.reads()):
            self.check_read(name, visible, at)
        completed = check_definition(op, self.report, at)
        bodies = op.bodies()
        for label, body in bodies.items():
            self.block(ScopeChain(body, visible), f"{path}/{op.name}/{label}".lstrip("/"))
        if len(self.report.errors) == before and (bodies or op.captures()):
            check_captures(op, self.report, at)
        for name in op.binds():
            self.check_bind(name, visible, at)
        if completed is not None and len(self.report.errors) == before:
            check_interface(completed, visible, self.unifier, self.report, at)
            if len(self.report.errors) == before:
                check_types(completed, visible, self.unifier, self.types, self.report, at)

    def check_read(self, name: str, visible: ScopeChain, at: str) -> None:
        owner = visible.owner(name)
        if owner is None:
            what = f"unknown variable `{name}`."
            self.report.say("B202", what, at=at, fix=suggest(name, visible.names()))
        elif name not in owner.ready:
            what = f"`{name}` is read before it is bound."
            fix = "Move the operator that binds it before its readers."
            if owner.around and owner.around.owner(name):
                fix = "Rename the inner variable: an outer block has the same name."
            self.report.say("B203", what, at=at, fix=fix)

    def check_bind(self, name: str, visible: ScopeChain, at: str) -> None:
        info = visible.body.vars.get(name)
        if info is None:
            what = f"`{name}` is bound, but not declared in this block."
            fix = f"Declare it: `{name}: TYPE`."
            self.report.say("B201", what, at=at, fix=fix)
        elif info.kind != VALUE:
            what = f"an operator binds `{name}`, which is declared as {info.kind}."
            fix = "Bind another name; use updates to change persistable variables."
            self.report.say("B205", what, at=at, fix=fix)
        elif name in visible.ready:
            what = f"`{name}` is bound twice in this block."
            self.report.say("B204", what, at=at, fix="Rename one of the two.")
        visible.ready.add(name)

    # ---- updates -----------------------------------------------------------------------------

    def check_update(self, target: str, value: str, visible: ScopeChain) -> None:
        at = f"{self.place}update {target} = {value}"
        held, new = visible.info(target), visible.info(value)
        if held is None or not held.persistable:
            what = f"the update target `{target}` is not a persistable variable of block 0."
            fix = "Update parameters and states only."
            self.report.say("B401", what, at=at, fix=fix)
        if new is None:
            what = f"the next value `{value}` is not a variable of block 0."
            self.report.say("B402", what, at=at, fix=suggest(value, visible.body.vars))
        if held and new and not unifies(held.type, new.type, self.unifier):
            what = f"type mismatch between `{target}` and its next value."
            types = f"{target}: {held.type}   {value}: {new.type}"
            self.report.say("B403", what, at=at, given=types, fix="Cast or reshape it.")


def _is_trainable(info: VarInfo) -> bool:
    return (
        info.kind == PARAMETER
        and not isinstance(info.type, ListType)
        and is_float(info.type.dtype)
    )


def _check_startup(main: Body, startup: ProgramDef, report: Report) -> None:
    for name in startup.updates:
        held, first = main.vars.get(name), startup.main.vars.get(name)
        if held and first and not _types_agree(held, first):
            report.say(
                "B404",
                f"type mismatch of `{name}` between the program and its startup program.",
                at=f"startup, update {name}",
                given=f"program: {held.type}   startup: {first.type}",
                fix="Declare the same type in both programs.",
            )


def _types_agree(held: VarInfo, first: VarInfo) -> bool:
    return held.persistable and unifies(held.type, first.type, Unifier())


def next_dim_number(main: Body) -> int:
    """Return the first number above those of all unnamed dimensions of a program."""
    numbers = [
        int(name[1:])
        for body, _ in all_bodies(main)
        for info in body.vars.values()
        for name in dimensions(shape_of(info.type))
        if name.startswith("?")
    ]
    return max(numbers, default=-1) + 1
