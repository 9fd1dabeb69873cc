"""Variables of a program by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn, final

from braces.builder.builder import Builder
from braces.builder.var import Var, main_var


@final
class Variables(Mapping[str, Var]):
    """A read-only mapping from names to the variables of a program's main block.

    Raises:
        UnknownNameError: If the variable does not exist; the error suggests similar names.
    """

    def __init__(self, program: Builder) -> None:
        self._program = program

    def __getitem__(self, name: str) -> Var:
        return main_var(self._program, name)

    def __contains__(self, name: object) -> bool:
        return name in self._program.infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._program.infos)

    def __len__(self) -> int:
        return len(self._program.infos)

    def __repr__(self) -> str:
        return repr({name: str(info.type) for name, info in self._program.infos.items()})


@final
class Parameters(list[Var]):
    """The parameters of a program: a list whose call is an error, as in `prog.parameters()`."""

    def __call__(self) -> NoReturn:
        """Raise an error: the parameters are an attribute."""
        raise TypeError(
            "`parameters` of a program is a list, not a method. "
            "Use prog.parameters without parentheses."
        )
