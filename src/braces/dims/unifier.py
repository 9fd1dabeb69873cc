"""Unification of unnamed dimensions."""

from __future__ import annotations

from braces.dims.size import Dim, Size
from braces.dims.substitution import substitute


class Unifier:
    """Substitution of the unnamed dimensions of a program, found by unification.

    Example:
        >>> unifier = Unifier()
        >>> a, b = unifier.fresh(), Dim.named("b")
        >>> unifier.unify(a, b), unifier.resolve(2 * a)
        (b, 2*b)
    """

    def __init__(self) -> None:
        self.known: dict[str, Size] = {}
        self.count = 0

    def copy(self) -> Unifier:
        """Return an independent copy."""
        other = Unifier()
        other.known, other.count = dict(self.known), self.count
        return other

    def fresh(self) -> Dim:
        """Create an unnamed dimension."""
        self.count += 1
        return Dim.named(f"?{self.count - 1}")

    def resolve(self, size: Size) -> Size:
        """Substitute all known dimensions in `size`.

        Raises:
            ShapeError: If the text of the result is too long.
        """
        while isinstance(size, Dim) and self.known:
            if not any(name in self.known for name in size.names()):
                break
            size = substitute(size, self.known)
        return size

    def unify(self, left: Size, right: Size) -> Size | None:
        """Unify two sizes; return the common size, or `None` if they differ."""
        left, right = self.resolve(left), self.resolve(right)
        if left == right:
            return left
        for unnamed, other in ((right, left), (left, right)):
            if isinstance(unnamed, Dim) and unnamed.unnamed:
                if isinstance(other, Dim) and str(unnamed) in other.names():
                    return None
                self.known[str(unnamed)] = other
                return other
        return None
