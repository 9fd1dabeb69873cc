"""Unsupported nodes of an imported program, collected in one error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from braces.errors import BracesError, ProgramError

FIX_SIZE = "Make the size static by sizes=."
"""The advice for rules that do not support symbolic sizes."""
MOST_PLACES = 6
"""The largest number of places that a message lists for one reason."""
_GROUP = "\n         "


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
        node: The name of the node and of its module, as messages print them; may be empty.
        error: The reason.
        line: The line of the original source; empty if it is unknown.
    """

    operator: str
    node: str
    error: BracesError
    line: str = ""


def unsupported_error(
    problems: Sequence[UnsupportedNode], what: str, of: str = "nodes", fix: str | None = None
) -> ProgramError:
    """Build one error for all unsupported nodes: operator, count, reason, places and advice.

        net.onnx cannot be imported: 3 unsupported nodes.
          given: Spin-2, 3 times: unsupported operator.
                     `/layer.0/Spin` at net.py:12, and 1 more
                     `/Spin` at net.py:30
                     Use other operators.

    Args:
        problems: At least one unsupported node.
        what: The kind of the program, for the message.
        of: The kind of its parts, for the message.
        fix: The advice; by default that of the only reason.
    """
    grouped = dict[tuple[str, str], list[UnsupportedNode]]()
    for problem in problems:
        grouped.setdefault((problem.operator, problem.error.what), []).append(problem)
    if fix is None and len(grouped) == 1:
        fix = problems[0].error.fix
    groups = (
        line
        for (operator, why), same in grouped.items()
        for line in (
            f"{operator}, {_count(len(same), 'times')}: {why}",
            *_indented(_places(same)),
            *_indented(_advice(same, fix)),
        )
    )
    return ProgramError(
        f"{what} cannot be imported: {_count(len(problems), f'unsupported {of}')}.",
        given=_GROUP.join(groups),
        fix=fix,
    )


def _count(number: int, plural: str) -> str:
    return f"{number} {plural if number > 1 else plural.removesuffix('s')}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _places(problems: Sequence[UnsupportedNode]) -> Iterator[str]:
    """Yield the places of nodes: one line for each line of the original source."""
    by_line = dict[str, list[str]]()
    for problem in problems:
        by_line.setdefault(problem.line or problem.node, []).append(
            f"{problem.node} at {problem.line}".strip() if problem.line else problem.node
        )
    for places in list(by_line.values())[:MOST_PLACES]:
        if places[0]:
            yield f"{places[0]}, and {len(places) - 1} more" if places[1:] else places[0]
    if len(by_line) > MOST_PLACES:
        yield f"and {len(by_line) - MOST_PLACES} more places"


def _advice(problems: Sequence[UnsupportedNode], fix: str | None) -> Iterator[str]:
    """Yield the different suggestions for nodes, without the one for all."""
    suggestions = dict.fromkeys(problem.error.fix for problem in problems)
    return (advice for advice in suggestions if advice and advice not in (fix or ""))
