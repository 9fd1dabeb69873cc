"""Simplification of sums of functions to polynomials: `max(a, b) + min(a, b)` is `a + b`."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

Size: TypeAlias = Any
"""An `int` or a `Dim`; `braces.dims.size` builds on this module."""
Monomial: TypeAlias = tuple[Any, ...]
"""The factors of a term: names and functions of sizes."""


class CallProtocol(Protocol):
    """A function of two sizes."""

    name: str
    arguments: tuple[Size, Size]

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Complements:
    """Terms of a sum, each with `factor * shared * f(...)` in it.

    Attributes:
        terms: The terms.
        factor: The coefficient of smallest magnitude among the terms.
        shared: The other atoms of each term, equal in all.
        total: The sum of the functions.
    """

    terms: tuple[Monomial, ...]
    factor: int
    shared: Monomial
    total: Size


class _Term(NamedTuple):
    """A term with a function of sizes, and its other atoms."""

    monomial: Monomial
    factor: int
    call: CallProtocol
    shared: Monomial


def find_complements(terms: Mapping[Monomial, int]) -> Complements | None:
    """Find terms whose functions add up to a polynomial, or `None`.

    | functions | total |
    |---|---|
    | `max(t - 1, 0)`, `min(t, 1)` | `t` |
    | `floordiv(t, 2)`, `floordiv(t + 1, 2)` | `t` |
    """
    candidates = list(_terms_with_calls(terms))
    if len(candidates) < 2:
        return None
    return next(itertools.chain(_extremes(candidates), _quotients(candidates)), None)


def _terms_with_calls(terms: Mapping[Monomial, int]) -> Iterator[_Term]:
    for monomial, factor in terms.items():
        for at, atom in enumerate(monomial):
            if not isinstance(atom, str):
                yield _Term(monomial, factor, atom, monomial[:at] + monomial[at + 1 :])


def _extremes(terms: Sequence[_Term]) -> Iterator[Complements]:
    """Pairs of a maximum and a minimum of two sizes, or of both plus the same offset."""
    if not {term.call.name for term in terms} >= {"max", "min"}:
        return
    groups: dict[object, dict[str, _Term]] = defaultdict(dict)
    for term in terms:
        key = (term.shared, term.factor > 0, _distance(term.call))
        groups[key][term.call.name] = term
        if groups[key].keys() >= {"max", "min"}:
            upper, lower = groups[key]["max"], groups[key]["min"]
            yield _complements([upper, lower], _sum_of_extremes(upper.call, lower.call))


@functools.lru_cache(maxsize=1024)
def _distance(call: CallProtocol) -> tuple[tuple[Monomial, int], ...]:
    """Return the terms of the difference of the arguments, independent of their order."""
    difference = call.arguments[0] - call.arguments[1]
    terms = () if isinstance(difference, int) else difference.terms
    sign = 1 if terms and terms[0][1] > 0 else -1
    return tuple((monomial, sign * factor) for monomial, factor in terms)


def _sum_of_extremes(maximum: CallProtocol, minimum: CallProtocol) -> Size:
    (a, b), (c, d) = maximum.arguments, minimum.arguments
    return c + d + (a - c if a - c == b - d else a - d)


def _quotients(terms: Sequence[_Term]) -> Iterator[Complements]:
    """Groups of the quotients of `t`, `t + 1`, … `t + n - 1` by `n`."""
    groups: dict[object, dict[int, _Term]] = defaultdict(dict)
    for term in terms:
        inner, divisor = term.call.arguments
        if term.call.name == "floordiv" and isinstance(divisor, int):
            constant = 0 if isinstance(inner, int) else dict(inner.terms).get((), 0)
            key = (term.shared, term.factor > 0, inner - constant, divisor)
            groups[key][constant] = term
            if groups[key].keys() == set(range(min(divisor, len(terms) + 1))):
                yield _complements(list(groups[key].values()), inner - constant)


def _complements(terms: Sequence[_Term], total: Size) -> Complements:
    factor = min((term.factor for term in terms), key=abs)
    return Complements(tuple(t.monomial for t in terms), factor, terms[0].shared, total)
