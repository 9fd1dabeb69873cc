"""Substitution of sizes for names and for functions of sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from braces.dims.size import Atom, Call, Dim, Size, Terms, call, product

_NO_CALLS: Mapping[Call, Size] = MappingProxyType({})


def substitute(
    size: Size, values: Mapping[str, Size], calls: Mapping[Call, Size] = _NO_CALLS
) -> Size:
    """Substitute sizes for names and for functions of sizes in `size`."""
    if isinstance(size, int):
        return size
    total = Terms()
    for monomial, factor in size.terms:
        term: Size = factor
        for atom, power in Counter(monomial).items():
            term = product((term, *[_substitute_atom(atom, values, calls)] * power))
        total.add(term, 1)
    return total.size()


def _substitute_atom(
    atom: Atom, values: Mapping[str, Size], calls: Mapping[Call, Size]
) -> Size:
    if isinstance(atom, str):
        return values[atom] if atom in values else Dim.named(atom)
    if atom in calls:
        return calls[atom]
    left, right = (substitute(size, values, calls) for size in atom.arguments)
    return call(atom.name, left, right)
