"""A call of a library: a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class LibraryCase:
    """A function with its arguments.

    Attributes:
        function: From trees of arrays to a tree of arrays.
        arguments: Its arguments.
        tolerance: The relative tolerance of values.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    tolerance: float = 2e-4


Cases: TypeAlias = "dict[str, LibraryCase]"
