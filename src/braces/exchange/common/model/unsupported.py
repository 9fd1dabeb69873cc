"""What of a program of another system cannot be read: all of it in one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from braces.errors import BracesError, ProgramError


class Missing(Exception):
    """A value that is not there, since what makes it could not be read; that is said there."""


class Refusing(Protocol):
    """A node or operator, as what several systems share sees it."""

    def refuse(self, why: str, fix: str | None = None) -> NoReturn:
        """Say that it cannot be read."""
        ...


@dataclass(frozen=True)
class Problem:
    """What cannot be read.

    Attributes:
        operator: The operator, with its version where it has one.
        node: Where it stands, as messages name it.
        error: Why.
    """

    operator: str
    node: str
    error: BracesError


def unreadable(
    problems: Sequence[Problem], what: str, of: str = "nodes", fix: str | None = None
) -> ProgramError:
    """One error of all that cannot be read: operator, why, where first, and how often.

    Args:
        problems: At least one.
        what: What is read, as messages call it.
        of: What it is made of.
        fix: The way out; that of the only problem where none is said.
    """
    grouped = dict[tuple[str, str], list[Problem]]()
    for problem in problems:
        grouped.setdefault((problem.operator, problem.error.what), []).append(problem)
    lines = [
        f"{operator}, {len(found)} times, first {found[0].node}: {why}"
        for (operator, why), found in grouped.items()
    ]
    if fix is None and len(grouped) == 1:
        fix = problems[0].error.fix
    return ProgramError(
        f"{what} cannot be read: {len(problems)} of its {of} have no program.",
        given="\n         ".join(lines),
        fix=fix,
    )
