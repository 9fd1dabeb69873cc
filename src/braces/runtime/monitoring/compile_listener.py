"""What hears how code is made: nobody, but for a profile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from braces.ir.records import Body, Op
from braces.lower.xla.block_lowering import scope_name


class Making(Protocol):
    """Hears how the code of a plan is made, and says what is called how in it."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """What is around one phase: to trace, to lower, or XLA's."""
        ...

    def scopes(self, body: Body) -> Callable[[str, Op], str]:
        """What each operator of a block that is lowered is called, by its path."""
        ...

    def named(self, name: str) -> str:
        """What the code is called; this or another name, which JAX keeps it under."""
        ...

    def made(self, code: Any) -> None:
        """Take note of the code that was made."""
        ...


class Unheard:
    """Takes no note of anything."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Nothing."""
        del name
        return nullcontext()

    def scopes(self, body: Body) -> Callable[[str, Op], str]:
        """Their own names."""
        del body
        return scope_name

    def named(self, name: str) -> str:
        """Its own name."""
        return name

    def made(self, code: Any) -> None:
        """Nothing."""


UNHEARD = Unheard()
