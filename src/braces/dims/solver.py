"""What a dimension is where a size of it is known."""

from __future__ import annotations

from braces.dims.size import Dim, Size, divide_exactly, substitute


def solved(size: Dim, known: Size) -> tuple[str, Size] | None:
    """The one name in a size, and what it is where the size is known; `None` if untold.

    Example:
        >>> t = Dim.named("t")
        >>> solved(2 * t + 1, 7), solved(t - 1, Dim.named("m")), solved(t // 2, 3)
        (('t', 3), ('t', m + 1), None)
    """
    names = size.names()
    found = _inverse(size, known) if len(names) == 1 else None
    if found is None:
        return None
    (name,) = names
    return (name, found) if substitute(size, {name: found}) == known else None


def _inverse(size: Size, known: Size) -> Size | None:
    """The dimension in `factor * dimension + number`, which may stand in `max(..., 0)`."""
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
