"""What unnamed dimensions turn out to be."""

from __future__ import annotations

from braces.dims.size import Dim, Size, substitute


class Unifier:
    """What the unnamed dimensions of a program turned out to be.

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
        """The same knowledge, independent from now on."""
        other = Unifier()
        other.known, other.count = dict(self.known), self.count
        return other

    def fresh(self) -> Dim:
        """A new unnamed dimension."""
        self.count += 1
        return Dim.named(f"?{self.count - 1}")

    def resolve(self, size: Size) -> Size:
        """`size` with all that is known put in.

        Raises:
            ShapeError: It is longer then than a size may be.
        """
        while isinstance(size, Dim) and self.known:
            if not any(name in self.known for name in size.names()):
                break
            size = substitute(size, self.known)
        return size

    def unify(self, left: Size, right: Size) -> Size | None:
        """The one size that both are, or `None` where they differ."""
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
