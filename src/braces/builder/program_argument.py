"""Arguments of public functions that are programs, or objects that hold one."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias

from braces.builder.builder import Builder
from braces.errors import ProgramError, short_text


class ProgramHolder:
    """Base class of objects that hold a program and the values of its variables: models.

    Attributes:
        scope: The values.
        metadata: JSON data by key, without effect on runs.
    """

    scope: Any
    metadata: dict[str, Any]

    @abstractmethod
    def program(self) -> Any:
        """Return the program."""

    @abstractmethod
    def fetched(self) -> dict[str, str]:
        """Return the fetches of the program: their public names, and the variables."""


AnyProgram: TypeAlias = Builder | ProgramHolder


def program_of(value: Any, call: str = "") -> Any:
    """Return a program, or the program of a holder.

    Args:
        value: The argument.
        call: The call with its arguments, for messages.

    Raises:
        ProgramError: If the argument is neither.
    """
    if isinstance(value, ProgramHolder):
        return value.program()
    if not isinstance(value, Builder):
        raise not_a_program("program", value, call)
    return value


def check_program(call: str, value: Any) -> None:
    """Refuse an argument that is not a program.

    Raises:
        ProgramError: If the argument is not a program.
    """
    if not isinstance(value, Builder):
        raise not_a_program("program", value, call)


def not_a_program(name: str, value: Any, call: str) -> ProgramError:
    """Return the error for an argument that is not a program."""
    problem = f"expected a program for `{name}`, got {short_text(value)}."
    if isinstance(value, ProgramHolder):
        fix = "Pass model.program() as the program, and model.scope as the scope."
    else:
        fix = f"Write br.{call}." if call else None
    return ProgramError(problem, fix=fix)


class ProgramParameters:
    """The parameters of a function that are programs, by position and name.

    Annotations other than names of classes and unions of these, as the alias `AnyProgram`, are
    left to the function.

    Attributes:
        held: Whether each also accepts a `ProgramHolder`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        written = _written_function(function)
        annotations = function.__annotations__ if isinstance(written, FunctionType) else {}
        kinds = {name: _classes(each, written) for name, each in annotations.items()}
        self.held = {
            name: any(issubclass(kind, ProgramHolder) for kind in classes)
            for name, classes in kinds.items()
            if name != "return" and any(issubclass(kind, Builder) for kind in classes)
        }
        self.call = _required_call(written) if self.held else ""

    def check(self, name: str, value: Any) -> None:
        """Refuse an argument that is not a program.

        Raises:
            ProgramError: If the argument is not a program.
        """
        if isinstance(value, Builder) or (self.held[name] and isinstance(value, ProgramHolder)):
            return
        raise not_a_program(name, value, self.call)


def _written_function(function: Any) -> Any:
    """Return the undecorated function, or the innermost object that is no function."""
    while isinstance(getattr(function, "__wrapped__", None), FunctionType):
        function = function.__wrapped__
    return function


def _classes(annotation: object, written: Any) -> list[type]:
    """Return the classes of an annotation that is a name, or a union of names."""
    values = map(written.__globals__.get, str(annotation).split(" | "))
    bounds = (getattr(value, "__bound__", None) or value for value in values)
    return [bound for bound in bounds if isinstance(bound, type)]


def _required_call(written: Any) -> str:
    parameters = inspect.signature(written).parameters.values()
    required = [each.name for each in parameters if each.default is each.empty]
    return f"{written.__name__}({', '.join(required)})"
