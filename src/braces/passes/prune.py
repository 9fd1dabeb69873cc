"""The smallest program that still gives its targets.

`eliminate` keeps what the results of one block need. Operators that own blocks trim themselves:
outputs, memories, captures and sub-block operators that nobody needs go, at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from braces.errors import UnknownNameError, suggest
from braces.ir.program import Program
from braces.ir.records import Body, Op, ProgramDef
from braces.ops.control.base import BlockOp
from braces.ops.define import OPS
from braces.passes.verify import verified


def eliminate(body: Body, results: Sequence[str]) -> Body:
    """A block with only what these results need; they become its results."""
    live = set(results)
    kept: list[Op] = []
    for op in reversed(body.ops):
        trimmed = _trimmed(op, live)
        if trimmed is not None:
            kept.append(trimmed)
            live.update(trimmed.reads())
    ops = tuple(reversed(kept))
    bound = {name for op in ops for name in op.binds()} | set(body.params)
    named = bound | live
    infos = {name: info for name, info in body.vars.items() if name in named}
    return body.with_(results=tuple(results), vars=infos, ops=ops)


def _trimmed(op: Op, live: set[str]) -> Op | None:
    wanted = frozenset(name for name in op.binds() if name in live)
    if not wanted:
        return None
    definition = OPS.get(op.type)
    if isinstance(definition, BlockOp):
        return definition.trim(op, wanted, eliminate)
    optional = {slot.name for slot in definition.outputs if slot.optional}
    outputs = {
        slot: names
        for slot, names in op.outputs.items()
        if slot not in optional or any(name in wanted for name in names)
    }
    return op if len(outputs) == len(op.outputs) else op.with_(outputs=outputs)


def ancestors(ops: Iterable[Op], names: Iterable[str]) -> set[str]:
    """All names that these names are computed from, themselves included."""
    found = set(names)
    for op in reversed(list(ops)):
        if not found.isdisjoint(op.binds()):
            found.update(op.reads())
    return found


# ---- the public function ---------------------------------------------------------------------


def prune(program: Program, targets: Any) -> Program:
    """The smallest program that still gives the targets.

    Operators, variables, memories and sub-block operators that no target needs are gone, in
    nested blocks at any depth, and so are all updates and the startup operators of variables
    that are not read any more. A target that is persistable keeps its update.

    Args:
        program: Left as it is.
        targets: Variables of the main block, or their names.

    Raises:
        UnknownNameError: A target does not exist.
        VerifyError: The program is not well formed.
    """
    names = _target_names(program, targets)
    definition = program.definition
    updates = {n: v for n, v in definition.updates.items() if n in names}
    small = _cut(definition, [*names, *updates.values()], updates)
    startup = program.startup.definition
    first = {n: v for n, v in startup.updates.items() if n in small.vars}
    small.startup = _cut(startup, [*first.values(), *first], first)
    return small


def _cut(whole: ProgramDef, names: Sequence[str], updates: Mapping[str, str]) -> Program:
    main = eliminate(whole.main, names).with_(results=())
    return Program(verified(whole.with_(main=main, updates=updates)))


def _target_names(program: Program, targets: Any) -> list[str]:
    listed = isinstance(targets, list | tuple | set)
    several: list[Any] = list(cast("list[Any]", targets)) if listed else [targets]
    names: list[str] = [one if isinstance(one, str) else one.name for one in several]
    for name in names:
        if name not in program.definition.main.vars:
            raise UnknownNameError(
                f"There is no variable `{name}` in the main block.",
                fix=suggest(name, program.definition.main.vars),
            )
    return names
