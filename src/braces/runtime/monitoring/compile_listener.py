"""Compilation listener; a no-op unless a profile is recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from braces.ir.records import Body, Op
from braces.lower.xla.block_lowering import scope_name


class CompileListener(Protocol):
    """Listener to the compilation of a plan, which also chooses names in the code."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Return a context around one phase: tracing, lowering, or XLA."""
        ...

    def scopes(self, body: Body) -> Callable[[str, Op], str]:
        """Return the naming of operators of a block in the code, by path."""
        ...

    def named(self, name: str) -> str:
        """Return the name of the code in the cache of JAX: this or another one."""
        ...

    def record_code(self, code: Any) -> None:
        """Record the compiled code."""
        ...


class NullListener:
    """Listener that does nothing."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Return an empty context."""
        del name
        return nullcontext()

    def scopes(self, body: Body) -> Callable[[str, Op], str]:
        """Return the default naming."""
        del body
        return scope_name

    def named(self, name: str) -> str:
        """Return the name unchanged."""
        return name

    def record_code(self, code: Any) -> None:
        """Do nothing."""


NULL_LISTENER = NullListener()
