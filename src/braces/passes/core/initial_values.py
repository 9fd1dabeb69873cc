"""First values of persistable variables that a pass makes.

A rule may build a layer. Its parameters are variables of the program that the pass makes, and
the startup program that goes with that one sets them:

    y: f32[n,4] = fc(x=x, w=w)            a: f32[8,4]  = parameter of the rule
    startup: update w = …           ->    startup: update w = …, update a = …

A pass is a function of descriptions, which have no startup program. So it is held beside the
pass while that runs. Where nobody holds one, as in a run, such a rule is refused.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from braces.builder.builder import Builder
from braces.errors import ProgramError


@dataclass
class FirstValues:
    """The startup program of a program while passes work on it.

    Attributes:
        startup: That of the program that was made last; replaced, never changed.
    """

    startup: Builder


_held: ContextVar[FirstValues | None] = ContextVar("braces_first_values", default=None)


@contextmanager
def holding_first_values(startup: Builder) -> Generator[FirstValues]:
    """Inside, passes add first values to a startup program, of which they make a copy."""
    held = FirstValues(startup)
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)


def begin_first_values(builder: Builder) -> None:
    """Let a program to build on in a pass have the startup program that is held."""
    held = _held.get()
    if held is not None:
        builder.startup = held.startup.like(held.startup.definition)


def keep_first_values(builder: Builder) -> None:
    """Hold the startup program of what a pass built, where that added to it.

    Raises:
        ProgramError: Something was added, and no startup program is held.
    """
    held = _held.get()
    known = {} if held is None else held.startup.updates
    added = [name for name in builder.startup.updates if name not in known]
    if not added:
        return
    if held is None:
        raise ProgramError(
            f"A pass makes `{added[0]}`, a variable that outlives runs, where nothing sets its "
            "first value.",
            given=", ".join(added[:8]),
            fix="Apply the pass to the program, `new = the_pass(prog)`, and run "
            "exe.init(new, scope, missing_only=True).",
        )
    held.startup = builder.startup
