"""Functions that build all or nothing, and whose errors say the user's line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from braces.errors import ProgramError
from braces.frontend.tree import values
from braces.ir.program import default_program
from braces.ops.build import Var, program_of
from braces.ops.source import says_where

P = ParamSpec("P")
R = TypeVar("R")


def building(function: Callable[P, R]) -> Callable[P, R]:
    """A function that leaves the program, startup included, as it was where it fails."""
    located = says_where(function)

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        program = program_of({"operands": values([args, kwargs])})
        with program.transaction(), program.building(program.current):
            return located(*args, **kwargs)

    return guarded


def operand(x: Any, what: str) -> Var:
    """A variable of the program that is being built.

    Raises:
        ProgramError: It is of another program, or no variable.
    """
    if not isinstance(x, Var):
        raise ProgramError(
            f"{what} takes a variable, not {x!r:.80}.",
            fix="Join several with br.concat; make one of numbers with br.constant.",
        )
    if x.program is not default_program():
        raise ProgramError(
            f"`{x.name}` belongs to another program than the one that is being built.",
            given=f"{x.name}: {x.type}",
            fix="Build inside the `with` block of the program that it belongs to.",
        )
    return x
