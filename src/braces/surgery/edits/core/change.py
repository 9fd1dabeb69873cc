"""Result of one edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from braces.builder.builder import Builder
from braces.ir.lineage import Chain

P = TypeVar("P", bound=Builder)
Address: TypeAlias = "tuple[Chain, str]"
"""The blocks around an operator or a variable, and its name."""


@dataclass(frozen=True)
class EditResult(Generic[P]):
    """Result of one edit, before types are inferred again.

    Attributes:
        program: The new program.
        label: The edit and its place, for messages.
        variables: Variables whose types have changed.
        operators: Operators whose types must be inferred again.
        followed: Whether derivatives follow the edit: it changes names or types only.
        readers: Variables of the main block that readers of others read now, by the names of
            these.
        report: The report of a rewriting.
    """

    program: P
    label: str
    variables: Iterable[Address] = ()
    operators: Iterable[Address] = ()
    followed: bool = False
    readers: Mapping[str, str] = field(default_factory=dict[str, str])
    report: Any = None


Edit: TypeAlias = "Callable[[P], EditResult[P]]"
