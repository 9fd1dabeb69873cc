"""Division of sizes: true division, whose result is a runtime number, and exact division."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

Monomial: TypeAlias = tuple[Any, ...]
"""The factors of a term: names and functions of sizes."""
MOST_TERMS = 500
"""The most terms of a quotient; a sum with more is longer than the longest text."""


class Divisible:
    """Mixin for `n / 2` and `1.0 / n` of a symbolic size `n`."""

    __slots__ = ()

    number: ClassVar[Callable[[Any], Any]]
    """Convert a size to a runtime number; set by `braces.builder.append`."""

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, int | float | Divisible):
            return NotImplemented
        return type(self).number(self) / other

    def __rtruediv__(self, other: float) -> Any:
        return other / type(self).number(self)


# ---- exact division of polynomials ---------------------------------------------------------


def divide_terms(
    dividend: Mapping[Monomial, int], divisor: Sequence[tuple[Monomial, int]]
) -> dict[Monomial, int] | None:
    """Return the terms of an exact quotient, or `None`.

    Long division: in an order of monomials that products keep, the first term of the dividend
    is the product of the first terms of quotient and divisor.
    """
    if not divisor:
        return None
    atoms = sorted({atom for m, _ in (*divisor, *dividend.items()) for atom in m}, key=str)

    def order(monomial: Monomial) -> tuple[int, ...]:
        counts = Counter(monomial)
        return len(monomial), *(counts[atom] for atom in atoms)

    lead, lead_factor = max(divisor, key=lambda term: order(term[0]))
    rest, quotient = dict(dividend), dict[Monomial, int]()
    while rest:
        first = max(rest, key=order)
        left = Counter(first)
        left.subtract(lead)
        inexact = rest[first] % lead_factor or min(left.values(), default=0) < 0
        if inexact or len(quotient) == MOST_TERMS:
            return None
        shared = tuple(sorted(left.elements(), key=str))
        quotient[shared] = rest[first] // lead_factor
        _subtract(rest, shared, quotient[shared], divisor)
    return quotient


def _subtract(
    rest: dict[Monomial, int],
    shared: Monomial,
    factor: int,
    divisor: Sequence[tuple[Monomial, int]],
) -> None:
    """Subtract a multiple of the divisor in place."""
    for monomial, coefficient in divisor:
        key = tuple(sorted(shared + monomial, key=str))
        rest[key] = rest.get(key, 0) - factor * coefficient
        if not rest[key]:
            del rest[key]
