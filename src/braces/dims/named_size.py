"""Static sizes of named axes."""

from __future__ import annotations


class NamedSize(int):
    """A static size with the name of its axis, as users write it: `("mlp", 32)`.

    Arithmetic with it returns plain numbers.

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
        """Attach a name to a number, unless the name is `None`."""
        if name is None:
            return int(size)
        named = NamedSize(size)
        named.name = name
        return named


def axis_name(size: object) -> str | None:
    """Return the axis name of a size, or `None`."""
    return size.name if isinstance(size, NamedSize) else None
