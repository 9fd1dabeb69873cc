"""Functions of users that build at one place of a program, and the place as they see it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast, final

from braces.builder.checked_calls import checked_name
from braces.builder.user_functions import calling, function_text
from braces.builder.var import Var, expose, visible_var
from braces.dtypes import Type
from braces.errors import ProgramError
from braces.frontend.core.pytree import tree_leaves
from braces.ir.records import Op
from braces.passes.core.rewrite import InsertionPoint
from braces.surgery.substitution import type_error

KEYWORD = "place"


@final
class EditPlace:
    """The place of an edit, which a function receives as its keyword-only parameter `place`.

    `place["w"]` is a variable that is visible there, to build with.

    Attributes:
        path: The path of the operator or variable.
    """

    def __init__(self, point: InsertionPoint, path: str) -> None:
        self._point = point
        self.path = path

    def __getitem__(self, name: str) -> Var:
        table = self._point.program.current
        name = checked_name(name, "a place")
        name = self._point.names.get(name, name)
        return visible_var(self._point.program, table, table.look_up(name) or name)


class Builds:
    """A function of a user that an edit calls, once for each place.

    Args:
        function: The function; it returns a variable for each that it replaces.
        label: The edit, for messages.
        retype: Whether the types of its results may differ.
    """

    def __init__(self, function: Any, label: str, retype: bool = False) -> None:
        self.function = cast("Callable[..., Any]", function)
        self.label = label
        self.retype = retype
        self._takes_place = takes_place(self.function)

    def results(self, variables: Sequence[Var], count: int, place: EditPlace) -> list[Var]:
        """Call the function in the block under construction; return its results.

        Raises:
            ProgramError: If the function does not take these variables, or returns others.
        """
        keywords = {KEYWORD: place} if self._takes_place else {}
        self._check_signature(variables, keywords)
        with calling(self.function, self.label):
            return self._as_variables(self.function(*variables, **keywords), count)

    def _check_signature(self, variables: Sequence[Var], keywords: dict[str, Any]) -> None:
        try:
            inspect.signature(self.function).bind(*variables, **keywords)
        except TypeError as error:
            names = ", ".join(var.name for var in variables) or "none"
            raise ProgramError(
                f"the function does not take {len(variables)} "
                f"variable{'s' * (len(variables) != 1)}: {error}.",
                at=self._place,
                given=f"variables: {names}",
                fix="Give it one positional parameter for each variable.",
            ) from None
        except ValueError:  # a builtin without a signature
            return

    def _as_variables(self, result: Any, count: int) -> list[Var]:
        values = tree_leaves(result)
        if len(values) != count or not all(isinstance(value, Var) for value in values):
            raise ProgramError(
                f"expected {count} variable{'s' * (count != 1)} from the function, got "
                f"{result!r:.80}.",
                fix="Return a variable for each that it replaces; br.full_like(x, 0.0) "
                "returns a constant.",
            )
        return [expose(cast("Var", value).read()) for value in values]

    @property
    def _place(self) -> str:
        return f"{self.label}, in {function_text(self.function)}"

    def check_types(self, olds: Iterable[tuple[str, Type]], news: Sequence[Var]) -> list[str]:
        """Check the types of new values; return the old names whose types differ."""
        pairs = list(zip(olds, news, strict=True))
        different = [(name, old, new) for (name, old), new in pairs if new.type != old]
        if different and not self.retype:
            raise type_error(*different[0], self._place)
        return [name for name, _, _ in different]


def takes_place(function: Callable[..., Any]) -> bool:
    """Return whether a function has the keyword-only parameter `place`."""
    try:
        parameter = inspect.signature(function).parameters.get(KEYWORD)
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY


def operands_of(op: Op, captures: str) -> list[str]:
    """Return the variables that an operator reads, in order, without captures."""
    slots = ((slot, names) for slot, names in op.inputs.items() if slot != captures)
    return [name for _, names in slots for name in names]
