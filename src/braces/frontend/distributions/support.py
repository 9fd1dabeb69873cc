"""Which values can be drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from braces.builder.var import Var
from braces.frontend import functions as ops
from braces.frontend.distributions.forms import Form, FormOfValue, Given


class Support(ABC):
    """Which values can be drawn."""

    @abstractmethod
    def outside(self, given: Given, x: Var) -> Var | None:
        """Which values cannot be drawn, of those that are numbers; None where all can."""

    @abstractmethod
    def inner(self, given: Given, x: Var) -> Var | float:
        """A value that can be, in the place of one that cannot."""

    def cut(self, given: Given, x: Var, form: FormOfValue) -> Var:
        """A distribution function, which is 0 below the support and 1 above."""
        del self
        return form(given, x)


@final
@dataclass(frozen=True)
class Interval(Support):
    """Numbers between two ends.

    Attributes:
        low: The end below.
        high: The end above.
        open: Whether the ends themselves are left out.
        whole: Whether only whole numbers are in it.
    """

    low: Form | None = None
    high: Form | None = None
    open: bool = False
    whole: bool = False

    def outside(self, given: Given, x: Var) -> Var | None:
        """See Support."""
        found = [*self._past(given, x, self.open)]
        if self.whole:
            found.append(x != ops.floor(x))
        return any_of(found)

    def _past(self, given: Given, x: Var, ends: bool) -> list[Var]:
        """Whether values lie below, and above, as far as there are such."""
        below, above = (ops.less_equal, ops.greater_equal) if ends else (ops.less, ops.greater)
        sides = ((below, self.low), (above, self.high))
        return [compare(x, end(given)) for compare, end in sides if end is not None]

    def inner(self, given: Given, x: Var) -> Var | float:
        """See Support."""
        del x
        if self.low is not None and self.high is not None:
            return (self.low(given) + self.high(given)) * 0.5
        return self.low(given) + 1.0 if self.low is not None else 0.0

    def cut(self, given: Given, x: Var, form: FormOfValue) -> Var:
        """See Support."""
        x = ops.floor(x) if self.whole else x
        past = self._past(given, x, not self.whole)
        outside = any_of(past)
        if outside is None:
            return form(given, x)
        found = form(given, ops.where(outside, self.inner(given, x), x))
        for side, value in zip(past, (0.0, 1.0), strict=False):
            found = ops.where(side, value, found)
        return found


def any_of(found: Sequence[Var]) -> Var | None:
    """Whether one of some bools is true; None of none."""
    if not found:
        return None
    first, *others = found
    for other in others:
        first = first | other
    return first


REALS = Interval()
POSITIVE = Interval(low=lambda d: 0.0)
ABOVE_ZERO = Interval(low=lambda d: 0.0, open=True)
UNIT = Interval(low=lambda d: 0.0, high=lambda d: 1.0)
INNER_UNIT = Interval(low=lambda d: 0.0, high=lambda d: 1.0, open=True)
COUNTS = Interval(low=lambda d: 0.0, whole=True)
