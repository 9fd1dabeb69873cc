"""Breakpoints: an operator, or all of them, with a condition on the values it binds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from braces.debugger.recorded.sites import Site, Sites
from braces.debugger.stepped.conditions import ObservedValue, Test, parse_condition
from braces.errors import ProgramError

MOST = 200
"""The largest number of breakpoints."""
_IF = "if"


@dataclass
class Breakpoint:
    """A breakpoint.

    Attributes:
        number: Its number, from 1.
        path: The path of the operator; empty for all operators.
        condition: The text of its condition; empty if it always holds.
        site: The operator; `None` for all operators.
        test: The condition.
        hits: The number of times that the run stopped here.
    """

    number: int
    path: str
    condition: str
    site: Site | None
    test: Test
    hits: int = 0

    def __str__(self) -> str:
        condition = f"{_IF} {self.condition}" if self.condition else ""
        return f"{self.path} {condition}".strip()

    def matches(self, site: Site, moments: Iterable[ObservedValue]) -> bool:
        """Return whether the run stops after an operator that bound these values."""
        if self.site is not None and self.site != site:
            return False
        return not self.condition or any(map(self.test, moments))


class Breakpoints:
    """The breakpoints of a session by number."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._by_number = dict[int, Breakpoint]()
        self._next = 1

    def __len__(self) -> int:
        return len(self._by_number)

    def all(self) -> list[Breakpoint]:
        """Return all breakpoints in the order of their numbers."""
        return list(self._by_number.values())

    def add(self, path: str, condition: str = "") -> Breakpoint:
        """Add a breakpoint at an operator, or the one that binds a variable.

        Args:
            path: The path of the operator; empty for all of them, which requires a condition.
            condition: A condition that holds for one of the bound values; see `conditions`.

        Raises:
            UnknownNameError: If the operator does not exist; the message has similar paths.
            ProgramError: If the condition is invalid, or missing, or there are too many.
        """
        path, condition = path.strip(), condition.strip()
        test = parse_condition(condition)
        if not path and not condition:
            raise ProgramError(
                "a breakpoint at all operators requires a condition.",
                fix="Write `if nan`, or the path of an operator; a step stops everywhere.",
            )
        site = self._sites.operator(path) if path else None
        if len(self) >= MOST:
            raise ProgramError(f"more than {MOST} breakpoints.", fix="Remove some of them.")
        path = self._sites.path_of(site) if site else ""
        added = Breakpoint(self._next, path, condition, site, test)
        self._by_number[added.number] = added
        self._next += 1
        return added

    def parse(self, text: str) -> Breakpoint:
        """Add a breakpoint written as `PATH`, `PATH if CONDITION` or `if CONDITION`.

        Raises:
            BracesError: As for `add`.
        """
        text = text.strip()
        if text.startswith(f"{_IF} "):
            return self.add("", text[len(_IF) :])
        path, _, condition = text.partition(f" {_IF} ")
        return self.add(path, condition)

    def remove(self, number: int) -> None:
        """Remove a breakpoint; nothing happens if there is none of this number."""
        self._by_number.pop(number, None)

    def match(self, site: Site, moments: Iterable[ObservedValue]) -> Breakpoint | None:
        """Return the first breakpoint that stops the run after an operator, and count it."""
        moments = tuple(moments)
        for breakpoint_ in self.all():
            if breakpoint_.matches(site, moments):
                breakpoint_.hits += 1
                return breakpoint_
        return None
