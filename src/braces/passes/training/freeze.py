"""Programs in which some of what is persistable does not move.

    update w = sgd/add_0                   update w = sgd/add_0
    update adam/mu/enc.w = m         ->
    update enc.w = adam/add_0

Of updates those of the frozen go, and those of the states that only these need.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.errors import UnknownNameError, suggest
from braces.ir.records import ProgramDef
from braces.passes.cleanup.prune import moved_with_targets
from braces.passes.verify.program import verified

P = TypeVar("P", bound=Builder)


def frozen(program: P, which: Sequence[Any]) -> P:
    """A copy of a program in which some parameters stay as they are.

    Args:
        program: The program.
        which: Variables, their names, or patterns of names: `enc/*`.

    Raises:
        UnknownNameError: What is named does not move.
    """
    still = program.like(verified(_frozen(program.definition, which)))
    still.startup = program.startup
    return still


def _frozen(program: ProgramDef, which: Sequence[Any]) -> ProgramDef:
    stays = {name for given in which for name in _matching(program, given)}
    moving = [
        name
        for name in program.updates
        if program.main.vars[name].trainable and name not in stays
    ]
    kept = moved_with_targets(program, [*program.main.results, *moving])
    alone = moved_with_targets(program, stays) - kept
    updates = {n: v for n, v in program.updates.items() if n not in stays | alone}
    return program.with_(updates=updates)


def _matching(program: ProgramDef, given: Any) -> list[str]:
    """The names of what moves that a name or pattern says."""
    pattern = given if isinstance(given, str) else given.name
    found = [name for name in program.updates if fnmatchcase(name, pattern)]
    if not found:
        raise UnknownNameError(
            f"Nothing that moves is called `{pattern}`.",
            fix=suggest(pattern, program.updates),
        )
    return found
