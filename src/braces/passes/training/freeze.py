"""Freezing: remove the updates of some parameters.

    update w = sgd/add_0                   update w = sgd/add_0
    update adam/mu/enc.w = m         ->
    update enc.w = adam/add_0

The updates of frozen parameters are removed, and those of states that only they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.errors import UnknownNameError, suggest
from braces.ir.records import ProgramDef
from braces.passes.cleanup.prune import updated_with_targets
from braces.passes.verifier.program import verified

P = TypeVar("P", bound=Builder)


def freeze_parameters(program: P, which: Sequence[Any]) -> P:
    """Return a copy of a program in which some parameters are frozen.

    Args:
        program: The program.
        which: Variables, their names, or patterns of names: `enc/*`.

    Raises:
        UnknownNameError: If a name or pattern matches no updated variable.
    """
    new_program = program.like(verified(_remove_updates(program.definition, which)))
    new_program.startup = program.startup
    return new_program


def _remove_updates(program: ProgramDef, which: Sequence[Any]) -> ProgramDef:
    frozen_names = {
        name for name_or_pattern in which for name in _match_names(program, name_or_pattern)
    }
    moving = [
        name
        for name in program.updates
        if program.main.vars[name].trainable and name not in frozen_names
    ]
    needed_states = updated_with_targets(program, [*program.main.results, *moving])
    unneeded_states = updated_with_targets(program, frozen_names) - needed_states
    updates = {
        n: v for n, v in program.updates.items() if n not in frozen_names | unneeded_states
    }
    return program.with_(updates=updates)


def _match_names(program: ProgramDef, target: Any) -> list[str]:
    """Return the names of updated variables that match a name or pattern."""
    pattern = target if isinstance(target, str) else target.name
    matches = [name for name in program.updates if fnmatchcase(name, pattern)]
    if not matches:
        raise UnknownNameError(
            f"no updated variable matches `{pattern}`.",
            fix=suggest(pattern, program.updates),
        )
    return matches
