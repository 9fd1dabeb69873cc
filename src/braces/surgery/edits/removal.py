"""Removal of operators and of declarations that nothing reads.

    h: f32[n] = fc(...)                          h: f32[n] = fc(...)
    d: f32[n] = dropout(x=h)             ->      y: f32[n] = tanh(x=h)
    y: f32[n] = tanh(x=d)

With `by=`, readers read another variable instead, here the operand `h`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.errors import ProgramError, UnknownNameError, suggest
from braces.ir.records import CAPTURES, Op, ProgramDef
from braces.passes.cleanup.dead_code import eliminate_dead_code
from braces.passes.core.rewrite import InsertionPoint, Replacement
from braces.surgery.edits.core.address import handles_at, operators_at, paths_text
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.derived import affected_by, refuse_derived
from braces.surgery.edits.core.session import with_definition
from braces.surgery.edits.core.site import operands_of
from braces.surgery.edits.core.walk import EditWalk
from braces.surgery.handles import Handle
from braces.surgery.substitution import old_type, type_error

P = TypeVar("P", bound=Builder)


def remove(program: P, at: Any, *, by: Any = None, exact: bool = False) -> EditResult[P]:
    """Remove operators, or declarations that nothing reads; see `Edits.remove`."""
    handles = handles_at(program, at)
    label = f"remove {paths_text(handles)}"
    if by is not None:
        operators = operators_at(program, at)
        refuse_derived(
            program, affected_by(v for h in operators for v in h.outputs), label, exact
        )
        return _replaced_by(program, operators, by, label)
    declared = [handle for handle in handles if _is_declared(handle)]
    rest = [handle for handle in handles if handle not in declared]
    operators = operators_at(program, rest) if rest else []
    _refuse_read(program, [*declared, *operators], label)
    walk = EditWalk(label, {(handle.chain, handle.name): _removed for handle in operators})
    new = walk.apply(program) if operators else with_definition(program, program.definition)
    return EditResult(_without_declarations(new, [handle.name for handle in declared]), label)


def _is_declared(handle: Handle) -> bool:
    """Return whether a handle is that of data, a parameter or a state."""
    return handle.info is not None and handle.maker is None


def _removed(op: Op, point: InsertionPoint) -> Replacement:
    del op, point
    return None


# ---- readers ---------------------------------------------------------------------------------


def _refuse_read(program: Builder, handles: Sequence[Handle], label: str) -> None:
    """Raise an error if anything that stays reads a removed variable.

    Raises:
        ProgramError: If there is a reader; the message names it.
    """
    removed = set(handles)
    definition = program.definition
    for handle in handles:
        for var in handle.outputs:
            reader = next((user for user in var.users if user not in removed), None)
            if reader is not None and not _is_inside(reader, removed):
                raise _read_error(var, f"`{reader.path}` ({reader.type}) reads it", label)
            if not var.chain and (reason := _kept_by(definition, var)):
                raise _read_error(var, reason, label)


def _is_inside(reader: Handle, removed: Iterable[Handle]) -> bool:
    """Return whether an operator is in a block of a removed one."""
    around = {(reader.chain[:at], name) for at, (name, _) in enumerate(reader.chain)}
    return any((handle.chain, handle.name) in around for handle in removed)


def _kept_by(definition: ProgramDef, var: Handle) -> str:
    """Return why a variable of block 0 is needed; empty if it is not."""
    if var.name in definition.main.results:
        return "it is a result of the program"
    held = [n for n, v in definition.updates.items() if v == var.name and n != var.name]
    return f"it is the next value of `{held[0]}`" if held else ""


def _read_error(var: Handle, reason: str, label: str) -> ProgramError:
    info = var.info
    return ProgramError(
        f"cannot remove `{var.path}`: {reason}.",
        at=label,
        given=f"{info.kind} {info.name}: {info.shown_type}" if info else None,
        fix="Remove its readers too, or pass by= with the operand that they read instead.",
    )


def _without_declarations(program: P, names: Sequence[str]) -> P:
    """Return a program without some data and persistable variables, and their updates."""
    if not names:
        return program
    definition = program.definition
    infos = {n: info for n, info in definition.main.vars.items() if n not in names}
    updates = {n: value for n, value in definition.updates.items() if n not in names}
    new = with_definition(
        program, definition.with_(main=definition.main.with_(vars=infos), updates=updates)
    )
    startup = program.startup.definition
    first = {n: value for n, value in startup.updates.items() if n not in names}
    if len(first) < len(startup.updates):
        new.startup = program.startup.like(eliminate_dead_code(startup.with_(updates=first)))
    return new


# ---- replaced by operands --------------------------------------------------------------------


def _replaced_by(program: P, handles: Sequence[Handle], by: Any, label: str) -> EditResult[P]:
    """Return the program in which readers read other variables instead of the outputs."""

    def action(op: Op, point: InsertionPoint) -> Mapping[str, str]:
        olds = list(op.binds())
        news = [_visible(op, point, name, label) for name in _names(by)]
        if len(news) != len(olds):
            raise ProgramError(
                f"`{op.name}` binds {len(olds)} variables; by= has {len(news)}.",
                at=label,
                given=f"outputs: {', '.join(olds)}",
                fix="Pass a sequence with one variable for each.",
            )
        for old, new in zip(olds, news, strict=True):
            expected, var = old_type(point, old), point.var(new)
            if var.type != expected:
                raise type_error(old, expected, var, label)
        return dict(zip(olds, news, strict=True))

    walk = EditWalk(label, {(handle.chain, handle.name): action for handle in handles})
    new = walk.apply(program)
    return EditResult(new, label, readers=walk.readers)


def _names(by: Any) -> list[str]:
    items = list(cast("list[Any]", by)) if isinstance(by, list | tuple) else [by]
    return [_name(item) for item in items]


def _name(item: Any) -> str:
    """Return the name of an operand.

    Raises:
        ProgramError: If the operand is not a name, a variable or a handle.
    """
    if not isinstance(item, str | Var | Handle):
        raise ProgramError(
            f"expected an operand for `by`, got {item!r:.80}.",
            fix='Pass its slot, its name or its variable: by="x".',
        )
    return item if isinstance(item, str) else item.name


def _visible(op: Op, point: InsertionPoint, name: str, label: str) -> str:
    """Return the variable that stands for outputs: of an operand slot, or of a visible name."""
    if name in op.inputs and name != CAPTURES and len(op.inputs[name]) == 1:
        return op.inputs[name][0]
    name = point.names.get(name, name)
    if point.table.find_var(name) is None or name in op.binds():
        operands = operands_of(op, CAPTURES)
        raise UnknownNameError(
            f"unknown operand or variable `{name}` for `{op.name}` ({op.type}).",
            at=label,
            given=f"operands: {', '.join(operands) or 'none'}",
            fix=suggest(name, operands),
        )
    return name
