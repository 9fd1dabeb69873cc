"""Numbers that are the size of an axis with a name."""

from __future__ import annotations


class NamedSize(int):
    """A number beside which the name of its axis stands, as users write it: `("mlp", 32)`.

    Whatever is computed of it is a plain number.

    Attributes:
        name: Of the axis.

    Example:
        >>> size = NamedSize.of(32, "mlp")
        >>> size, axis_name(size), axis_name(2 * size)
        (32, 'mlp', None)
    """

    name: str

    @staticmethod
    def of(size: int, name: str | None) -> int:
        """A number with a name, where there is one."""
        if name is None:
            return int(size)
        made = NamedSize(size)
        made.name = name
        return made


def axis_name(size: object) -> str | None:
    """The name that stands beside a size, if one does."""
    return size.name if isinstance(size, NamedSize) else None
