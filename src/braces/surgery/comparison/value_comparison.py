"""Result of `br.compare_values`: operators at which two runs part, and results that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from braces.report import count_text

LISTED = 10
"""The number of results and names that are printed."""


@dataclass(frozen=True)
class DifferingOperator:
    """The operator at which two runs part.

    Attributes:
        system: The system that ran it.
        path: Its path, as `prog[path]` reads it.
        iteration: The iteration of each loop around it, the outermost first.
        type: Its type.
        source: The line that built it; empty if unknown.
        values: Its values by name.
    """

    system: str
    path: str
    iteration: tuple[int, ...]
    type: str
    source: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        where = f", iteration {', '.join(map(str, self.iteration))}" if self.iteration else ""
        line = f", built at {self.source}" if self.source else ""
        return f"`{self.path}` ({self.type}){where}{line}"


@dataclass(frozen=True)
class ResultDifference:
    """A result that differs.

    Attributes:
        name: Its name in the first program.
        error: The largest absolute difference; infinite for different shapes.
    """

    name: str
    error: float


@dataclass(frozen=True)
class ValueComparison:
    """The comparison of two runs; falsy if all results agree.

    Attributes:
        first: The first operator of `a` whose value differs; `None` if there is none.
        other: The first operator of `b` whose value has no equal one in `a`.
        results: The results that differ.
        matched: The number of values of `a` with an equal value in `b`.
        computed: The number of values that `a` computed.
        inputs: The data and parameters of `a` without an equal value in `b` that the results
            depend on.
        unpaired: The results that only one run has; they are not compared.
    """

    first: DifferingOperator | None
    other: DifferingOperator | None
    results: tuple[ResultDifference, ...]
    matched: int
    computed: int
    inputs: tuple[str, ...] = ()
    unpaired: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.results)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        counts = f"{self.matched} of {self.computed} values have an equal one"
        if not self:
            yield f"The results agree; {counts}."
            yield from self._names("not compared, as only one run has them", self.unpaired)
            return
        some = count_text(len(self.results), "result")
        yield f"{some} {'differs' if len(self.results) == 1 else 'differ'}; {counts}."
        yield from (f"  {result.name}: {result.error:.3g}" for result in self.results[:LISTED])
        yield from self._names("inputs of a without an equal one in b", self.inputs)
        yield f"first difference in a: {self.first or 'none; the inputs differ'}"
        yield f"first difference in b: {self.other or 'none'}"
        yield from self._names("not compared, as only one run has them", self.unpaired)

    def _names(self, title: str, names: tuple[str, ...]) -> Iterator[str]:
        """Yield a line with the first names, if there are any."""
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        if names:
            yield f"{title}: {', '.join(f'`{name}`' for name in names[:LISTED])}{more}"
