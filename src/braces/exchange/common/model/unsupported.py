"""Unsupported nodes of an imported program, collected in one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from braces.errors import BracesError, ProgramError

FIX_SIZE = "Make the size static by sizes=."
"""The advice for rules that do not support symbolic sizes."""


class MissingValue(Exception):
    """A value whose node could not be read; the error is reported for that node."""


class SupportsRefuse(Protocol):
    """A node or an operator, as the shared rules see it."""

    def refuse(self, why: str, fix: str | None = None) -> NoReturn:
        """Raise an error that this node is not supported."""
        ...


@dataclass(frozen=True)
class UnsupportedNode:
    """An unsupported node.

    Attributes:
        operator: The operator, with its version if it has one.
        node: The place of the node, as messages print it.
        error: The reason.
    """

    operator: str
    node: str
    error: BracesError


def unsupported_error(
    problems: Sequence[UnsupportedNode], what: str, of: str = "nodes", fix: str | None = None
) -> ProgramError:
    """Build one error for all unsupported nodes: operator, reason, first place, and count.

    Args:
        problems: At least one unsupported node.
        what: The kind of the program, for the message.
        of: The kind of its parts, for the message.
        fix: The advice; by default that of the only problem.
    """
    grouped = dict[tuple[str, str], list[UnsupportedNode]]()
    for problem in problems:
        grouped.setdefault((problem.operator, problem.error.what), []).append(problem)
    lines = [
        f"{operator}, {len(same_problems)} times, first {same_problems[0].node}: {why}"
        for (operator, why), same_problems in grouped.items()
    ]
    if fix is None and len(grouped) == 1:
        fix = problems[0].error.fix
    return ProgramError(
        f"{what} cannot be imported: {len(problems)} unsupported {of}.",
        given="\n         ".join(lines),
        fix=fix,
    )
