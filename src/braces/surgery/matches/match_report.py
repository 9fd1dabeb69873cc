"""Report of a rewriting: matches, and the best near misses with their reasons."""

from __future__ import annotations

from dataclasses import dataclass

from braces.ir.records import Source

MOST_NEAR = 8
"""Number of near misses in a report."""


@dataclass(frozen=True)
class MatchedPlace:
    """A place that was rewritten.

    Attributes:
        path: Path of the last operator of the match.
        source: The line of the user's program that built it.
    """

    path: str
    source: Source | None = None

    def __str__(self) -> str:
        return f"{self.path}{_line(self.source)}"


@dataclass(frozen=True)
class NearMiss:
    """A place where part of the pattern matched.

    Attributes:
        path: Path of the operator that is like the last one of the pattern.
        reason: The first difference, where most operators agreed.
        agreed: Number of operators that agreed.
        total: Number of operators of the pattern.
        source: The line of the user's program that built the operator.
    """

    path: str
    reason: str
    agreed: int
    total: int
    source: Source | None = None

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.reason} ({self.agreed} of {self.total} operators agree)"
            f"{_line(self.source)}"
        )


def _line(source: Source | None) -> str:
    return f" [{source}]" if source else ""


class NearMisses:
    """Near misses while a program is searched: the best one of each place."""

    def __init__(self) -> None:
        self._best: dict[str, NearMiss] = {}

    def add(
        self, path: str, reason: str, agreed: int, total: int, source: Source | None
    ) -> None:
        """Add a near miss."""
        best = self._best.get(path)
        if best is None or agreed > best.agreed:
            self._best[path] = NearMiss(path, reason, agreed, total, source)

    def update(self, other: NearMisses) -> None:
        """Add those of another search."""
        for miss in other._best.values():
            self.add(miss.path, miss.reason, miss.agreed, miss.total, miss.source)

    def best(self, without: set[str]) -> tuple[NearMiss, ...]:
        """Return those with the fewest differences, except at some places."""
        misses = [miss for path, miss in self._best.items() if path not in without]
        misses.sort(key=lambda miss: miss.agreed - miss.total, reverse=True)
        return tuple(misses[:MOST_NEAR])


@dataclass(frozen=True)
class RewriteReport:
    """Report of `prog.rewrite`; `print` shows it, and its length is the number of matches.

    Attributes:
        pattern: Name of the pattern or the rule.
        matches: The places that were rewritten, in program order.
        near: The places where most of the pattern matched, with reasons; the best ones first.
    """

    pattern: str
    matches: tuple[MatchedPlace, ...] = ()
    near: tuple[NearMiss, ...] = ()

    def __len__(self) -> int:
        return len(self.matches)

    def __bool__(self) -> bool:
        return True

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the matches."""
        return tuple(match.path for match in self.matches)

    def __str__(self) -> str:
        count = len(self.matches)
        lines = [f"{count} match{'' if count == 1 else 'es'} of {self.pattern}"]
        lines += [f"  {match}" for match in self.matches]
        if self.near:
            lines += ["near misses", *(f"  {miss}" for miss in self.near)]
        return "\n".join(lines)
