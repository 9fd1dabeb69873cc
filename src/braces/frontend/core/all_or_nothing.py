"""Transactional building: functions that append all of their operators or none."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

from braces.builder.append import program_of
from braces.builder.builder import current_program
from braces.builder.source_line import user_line, with_user_line
from braces.builder.var import Var, declared_var
from braces.errors import ProgramError, UnknownNameError, suggest
from braces.frontend.core.pytree import tree_leaves, tree_unflatten
from braces.ir.records import VarInfo

P = ParamSpec("P")
R = TypeVar("R")


def transactional(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function in a transaction: an error rolls back the program and its startup."""
    located = with_user_line(function)

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves = tree_leaves([args, kwargs])
        program = program_of({"operands": leaves})
        with program.transaction(), program.building(program.current):
            if any(isinstance(value, VarInfo) for value in leaves):
                variables = (declared_var(program, value) for value in leaves)
                args, kwargs = tree_unflatten([args, kwargs], variables)
            return located(*args, **kwargs)

    return guarded


class MissingNameError(UnknownNameError, AttributeError):
    """A module has no such name."""


def module_getattr(module: str, names: Iterable[str]) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a public module, which suggests another name.

    Args:
        module: The name of the module as users write it: `br.init`.
        names: The public names of the module.
    """

    def missing(name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"module {module} has no attribute `{name}`.", name=name)
        raise MissingNameError(
            f"module {module} has no attribute `{name}`.",
            at=user_line(),
            fix=_suggest(module, name, names, inspect.currentframe()),
        )

    return missing


def _suggest(module: str, name: str, names: Iterable[str], frame: FrameType | None) -> str:
    """Suggest the home of a name, its counterpart from another library, or a close name."""
    from braces.hints.answers import answer_name  # on an error only

    if name.lower() in names:
        return f"Did you mean `{name.lower()}`?"
    return answer_name(module, name, frame) or suggest(name, names)


def operand(x: Any, what: str) -> Var:
    """Return an operand that is a variable of the program being built.

    Raises:
        ProgramError: If the operand belongs to another program, or is not a variable.
    """
    if not isinstance(x, Var):
        raise ProgramError(
            f"{what}: expected a variable, got {x!r:.80}.",
            fix="Join several with br.concat; convert numbers with br.constant.",
        )
    if x.program is not current_program():
        raise ProgramError(
            f"`{x.name}` belongs to another program than the active one.",
            given=f"{x.name}: {x.type}",
            fix="Build inside the `with` block of the program that owns it.",
        )
    return x
