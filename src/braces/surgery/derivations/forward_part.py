"""The forward part of a program that was differentiated.

    loss: f32[] = mean(x=h)                      loss: f32[] = mean(x=h)
    w_grad: f32[4] = …                           data w_grad: f32[4]
    norm: f32[] = norm(x=w_grad)          ->     norm: f32[] = norm(x=w_grad)
    w_1: f32[4] = block() … as sgd
    update w = w_1

Operators that compute recorded derivatives, and steps of optimizers, are taken away. Operators
that read these values read data of the same names instead, until the calls are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from braces.builder.builder import Builder
from braces.ir.records import DATA, VALUE, Body, Derivation, ProgramDef, VarInfo
from braces.ir.walk import all_bodies, rename_slots
from braces.passes.cleanup.dead_code import trim_outputs
from braces.passes.cleanup.prune import needed_startup
from braces.surgery.derivations.refusals import NotRepeatableError

P = TypeVar("P", bound=Builder)
REPEATED = ("gradients", "jvp", "minimize")
"""Functions that are called again."""


@dataclass(frozen=True)
class ForwardPart(Generic[P]):
    """A program without its derivatives.

    Attributes:
        program: The program; values of the derived part that it reads are data.
        records: The calls to repeat, in order.
        outside: Declarations of the values of the derived part, by name.
        built: Names of the operators of the main block that the calls built.
    """

    program: P
    records: tuple[Derivation, ...]
    outside: dict[str, VarInfo]
    built: frozenset[str]


def forward_part(program: P) -> ForwardPart[P]:
    """Return the forward part of a program.

    Raises:
        NotRepeatableError: If a derivative is not recorded, or has changed since then.
    """
    definition = program.definition
    main = definition.main
    records = tuple(
        live for each in definition.derivations if (live := _live(each, definition)) is not None
    )
    if not records:
        raise NotRepeatableError("the program does not record how it was differentiated")
    states = {name for each in records for name in each.states}
    values = (name for each in records for name in (*each.results, *each.updates.values()))
    operands = {name for each in records for name in (*each.targets, *each.inputs, *each.seeds)}
    operands |= {name for name, info in main.vars.items() if info.kind != VALUE}
    outside = {name: main.vars[name] for name in (*states, *values) if name in main.vars}
    outside = {n: info for n, info in outside.items() if n in states or n not in operands}
    own = {name for each in records for name in each.updates}
    updates = {name: value for name, value in definition.updates.items() if name not in own}
    body = _without(main, outside, _roots(main, records, updates, outside))
    forward = definition.with_(main=body, updates=updates, derivations=())
    new = program.like(forward)
    new.startup = program.startup.like(
        needed_startup(program.startup.definition, new.infos.keys() - states)
    )
    kept = {op.name for op in body.ops}
    built = frozenset(op.name for op in main.ops if op.name not in kept)
    return ForwardPart(new, records, outside, built)


def with_edited_derivations(definition: ProgramDef) -> ProgramDef:
    """Return a definition whose recorded calls are marked as edited: they are not repeated."""
    marked = tuple(record.with_(edited=True) for record in definition.derivations)
    return definition.with_(derivations=marked)


def check_derivations(program: Builder, changed: ProgramDef) -> ProgramDef:
    """Return a changed definition; calls whose derived part differs are marked as edited."""
    if not changed.derivations:
        return changed
    try:
        forward = {op.name for op in forward_part(program).program.definition.main.ops}
    except NotRepeatableError:
        return changed
    ops = {op.name: op for op in changed.main.ops}
    derived = (op for op in program.definition.main.ops if op.name not in forward)
    if all(ops.get(op.name) == op for op in derived):
        return changed
    return with_edited_derivations(changed)


def _live(record: Derivation, definition: ProgramDef) -> Derivation | None:
    """Return the part of a recorded call that a program still has; `None` if it has none.

    Raises:
        NotRepeatableError: If that is a part of a step only.
    """
    infos = definition.main.vars
    bodies = all_bodies(definition.main) if record.inner else ()
    known = {n for body, _ in bodies for n in body.vars} | infos.keys()
    kept = {n: v for n, v in record.updates.items() if definition.updates.get(n) == v}
    results = tuple(name if name in known else "" for name in record.results)
    if not kept and not any(results):
        return None
    function = record.function
    if record.edited:
        raise NotRepeatableError(f"the part that {function} built has been edited since")
    if record.inner:
        raise NotRepeatableError(f"{function} was called in an inner block")
    if function not in REPEATED:
        raise NotRepeatableError(f"br.{function} is not repeated")
    for name in (*record.targets, *record.inputs, *filter(None, record.seeds)):
        if name not in infos:
            raise NotRepeatableError(
                f"`{name}`, which {function} read, does not exist any more"
            )
    if kept != dict(record.updates):
        name = next(name for name in record.updates if name not in kept)
        raise NotRepeatableError(f"the update of `{name}` is not that of {function} any more")
    return record.with_(results=results)


def _roots(
    main: Body,
    records: tuple[Derivation, ...],
    updates: dict[str, str],
    outside: dict[str, VarInfo],
) -> list[str]:
    """Return the variables of the forward part that are read later, or by no operator."""
    read = {name for op in main.ops for name in op.reads()}
    derived = {name for each in records for name in each.unread}
    derived |= {
        n for op in main.ops for n in op.binds() if not outside.keys().isdisjoint(op.binds())
    }
    derived -= outside.keys()
    ends = (n for n, info in main.vars.items() if info.kind == VALUE and n not in read)
    ends = (name for name in ends if name not in outside)
    ends = [*ends, *(name for each in records for name in each.ends)]
    names = [*main.results, *updates.values(), *updates]
    names += (name for each in records for name in _needed(each))
    names += (name for name in ends if name not in derived)
    return [name for name in dict.fromkeys(names) if name in main.vars]


def _needed(record: Derivation) -> Iterator[str]:
    yield from (*record.targets, *record.inputs, *filter(None, record.seeds))


def _without(main: Body, outside: dict[str, VarInfo], roots: list[str]) -> Body:
    """Return a block without the operators of the derived part.

    Raises:
        NotRepeatableError: If another operator reads an inner value of the derived part.
    """
    kept = (op for op in main.ops if any(name not in outside for name in op.binds()))
    renamed = {name: f"{name} derived" for name in outside}
    ops = tuple(op.with_(outputs=rename_slots(op.outputs, renamed)) for op in kept)
    infos = {name: info for name, info in main.vars.items() if name not in outside}
    infos |= {new: main.vars[old].with_(name=new) for old, new in renamed.items()}
    data = {name: info.with_(kind=DATA, trainable=False) for name, info in outside.items()}
    cut = trim_outputs(main.with_(vars=infos | data, ops=ops), roots)
    bound = {name for op in cut.ops for name in op.binds()}
    bound |= {name for name, info in cut.vars.items() if info.kind != VALUE}
    for op in cut.ops:
        missing = next((name for name in op.reads() if name not in bound), None)
        if missing is not None:
            raise NotRepeatableError(f"`{op.name}` reads `{missing}` of the derived part")
    read = {name for op in cut.ops for name in op.reads()} | {*roots}
    infos = {
        name: cut.vars.get(name, info)
        for name, info in main.vars.items()
        if name in read & outside.keys()
        or (name not in outside and (name in cut.vars or info.kind != VALUE))
    }
    return cut.with_(results=main.results, vars=infos)
