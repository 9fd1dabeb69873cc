"""Solver: the value of a dimension from the value of a size."""

from __future__ import annotations

from braces.dims.size import Call, Dim, Size, divide_exactly
from braces.dims.substitution import substitute


def solved(size: Dim, known: Size) -> tuple[str, Size] | None:
    """Solve `size == known` for the only name in `size`; `None` if not unique.

    Example:
        >>> t = Dim.named("t")
        >>> solved(2 * t + 1, 7), solved(t - 1, Dim.named("m")), solved(t // 2, 3)
        (('t', 3), ('t', m + 1), None)
    """
    names = size.names()
    solution = _inverse(size, known) if len(names) == 1 else None
    if solution is None:
        return None
    (name,) = names
    return (name, solution) if substitute(size, {name: solution}) == known else None


def solved_call(size: Dim, known: Size) -> tuple[Call, Size] | None:
    """Solve `size == known` for the only function of sizes in `size`; `None` if not unique.

    Example:
        >>> from braces.dims.size import call
        >>> t = Dim.named("t")
        >>> print(*solved_call(2 * call("min", t, 5) + 1, 7))
        min(t, 5) 3
    """
    terms = dict(size.terms)
    number = terms.pop((), 0)
    match list(terms.items()):
        case [((Call() as atom,), factor)]:
            value = divide_exactly(known - number, factor)
            return None if value is None else (atom, value)
        case _:
            return None


def _inverse(size: Size, known: Size) -> Size | None:
    """Invert `factor * dimension + number`, possibly within `max(..., 0)`."""
    terms = dict(size.terms) if isinstance(size, Dim) else {}
    number = terms.pop((), 0)
    match list(terms.items()):
        case [((atom,), factor)]:
            inner = divide_exactly(known - number, factor)
        case _:
            return None
    if inner is None or isinstance(atom, str):
        return inner
    return _inverse(atom.arguments[0], inner) if atom.name == "max" else None
