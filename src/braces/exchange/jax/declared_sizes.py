"""Declared sizes of an array's axes: a name, and its limits.

"batch"              a data-dependent size
"1 <= time <= 512"   one with limits, which each run checks
None                 the size of the example
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from braces.errors import BracesError, ShapeError
from braces.extend.types import Dim, Shape, Size, call, parse_size

_LIMIT = re.compile(r"(<=|>=)")


@dataclass(frozen=True)
class Axis:
    """A declared axis.

    Attributes:
        size: Its size.
        least: Its lower limit.
        most: Its upper limit.
    """

    size: Size
    least: Size | None = None
    most: Size | None = None

    @property
    def limits(self) -> list[tuple[Size, Size]]:
        """The known inequalities: pairs of sizes, the smaller one first."""
        pairs = (self.least, self.size), (self.size, self.most)
        return [(a, b) for a, b in pairs if a is not None and b is not None]

    @property
    def within(self) -> Size:
        """The size clamped to its limits: equal to the size in every valid run."""
        bounded = self.size if self.most is None else call("min", self.size, self.most)
        return bounded if self.least is None else call("max", bounded, self.least)


def axes_of(name: str, shape: Sequence[Any], said: Any) -> tuple[Axis, ...]:
    """Return the axes of an array: as declared, else those of the example.

    Raises:
        ShapeError: If the declared sizes do not match the example.
    """
    own = tuple(_own_size(size) for size in shape)
    if said is None:
        return tuple(map(Axis, own))
    if not isinstance(said, list | tuple) or len(cast("list[Any]", said)) != len(own):
        raise ShapeError(
            f"`{name}` has rank {len(own)}, but `sizes` declares {said!r:.60}.",
            fix="Pass one entry per axis, None for the size of the example: "
            f"sizes={{{name!r}: {[f'n{i}' for i in range(len(own))]}}}.",
        )
    sizes = cast("list[Any]", said)
    return tuple(_axis(name, *pair) for pair in zip(sizes, own, strict=True))


def _axis(name: str, declared: Any, own: Size) -> Axis:
    if declared is None:
        return Axis(own)
    if isinstance(declared, str):
        return parse_axis(declared)
    if declared != own:
        raise ShapeError(
            f"size mismatch of `{name}`: expected {own}, got {declared!r:.60} in `sizes`.",
            fix="Pass a name for a symbolic size, or None for the size of the example.",
        )
    return Axis(own)


def _own_size(size: Any) -> Size:
    return size if isinstance(size, int) else _parse_or_refuse(str(size))


def shape_of(axes: Sequence[Axis]) -> Shape:
    """Return the sizes of the axes."""
    return tuple(axis.size for axis in axes)


def parse_axis(text: str) -> Axis:
    """Parse the declaration of an axis.

    Example:
        >>> parse_axis("time <= 512")
        Axis(size=time, least=None, most=512)
        >>> parse_axis("1 <= time <= 512").within
        max(min(time, 512), 1)

    Raises:
        ShapeError: If the text is not a size, or has more than two limits.
    """
    sizes, signs = list(map(_parse_or_refuse, _LIMIT.split(text)[::2])), _LIMIT.findall(text)
    match sizes, signs:
        case [size], _:
            return Axis(size)
        case [Dim() as size, most], ["<="]:
            return Axis(size, most=most)
        case [Dim() as size, least], [">="]:
            return Axis(size, least=least)
        case [least, Dim() as size, most], ["<=", "<="]:
            return Axis(size, least, most)
        case _:
            raise _size_error(text)


def _parse_or_refuse(text: str) -> Size:
    try:
        return parse_size(text)
    except BracesError:
        raise _size_error(text) from None


def _size_error(text: str) -> ShapeError:
    return ShapeError(
        f"invalid size {text!r:.60}.", fix="Pass a name, such as 'batch', or '1 <= batch <= 8'."
    )
