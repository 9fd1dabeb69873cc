"""Initial values of persistable variables that a pass creates.

A rule may build a layer. Its parameters are variables of the program that the pass returns, and
the startup program of that program sets them:

    y: f32[n,4] = fc(x=x, w=w)            a: f32[8,4]  = parameter of the rule
    startup: update w = …           ->    startup: update w = …, update a = …

A pass is a function of descriptions, which have no startup program. The startup program is
therefore held in a context variable while the pass runs. If none is held, as during a run, such
a rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar, cast

from braces.builder.builder import Builder
from braces.errors import ProgramError
from braces.ir.records import ProgramDef

P = TypeVar("P", bound=Builder)


@dataclass
class InitialValues:
    """The startup program of a program while passes transform it.

    Attributes:
        startup: Startup program of the latest program; replaced, never mutated.
    """

    startup: Builder


_held: ContextVar[InitialValues | None] = ContextVar("braces_first_values", default=None)


@contextmanager
def hold_initial_values(startup: Builder) -> Generator[InitialValues]:
    """Let passes run inside add initial values to a copy of a startup program."""
    held = InitialValues(startup)
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)


def transform(program: P, function: Callable[[ProgramDef], ProgramDef]) -> P:
    """Return a program with another definition, and with the initial values that it needs.

    Unless initial values were added, both have one startup program; see `separate_startup`.

    Args:
        program: The program; it is not changed.
        function: From the definition to the new one; passes that it runs may build layers.
    """
    with hold_initial_values(program.startup) as held:
        new = program.like(function(program.definition))
    new.startup = cast("P", held.startup)
    return new


def separate_startup(new: Builder, old: Builder) -> None:
    """Give a new version of a program its own startup program, so both are built further."""
    if new.startup is old.startup:
        new.startup = old.startup.like(old.startup.definition)


def attach_initial_values(builder: Builder) -> None:
    """Give a builder inside a pass the startup program that is held."""
    held = _held.get()
    if held is not None:
        builder.startup = held.startup.like(held.startup.definition)


def save_initial_values(builder: Builder) -> None:
    """Hold the startup program of a builder if the pass added updates to it.

    Raises:
        ProgramError: If initializers were added, and the startup program is not available.
    """
    held = _held.get()
    old_updates = {} if held is None else held.startup.updates
    added = [name for name in builder.startup.updates if name not in old_updates]
    if not added:
        return
    if held is None:
        raise ProgramError(
            f"a pass created the persistable variable `{added[0]}`, without initial value.",
            given=", ".join(added[:8]),
            fix="Apply the pass to the program, `new = the_pass(prog)`, and run "
            "exe.init(new, scope, missing_only=True).",
        )
    held.startup = builder.startup
