"""What a user says of the sizes of an array: a name, and within which limits a run has it.

"batch"              a size that only a run knows
"1 <= time <= 512"   one of which more is known; each run looks whether it is so
None                 that of the example
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from braces.dims import Dim, Shape, Size, call, parse_size
from braces.errors import BracesError, ShapeError

_LIMIT = re.compile(r"(<=|>=)")


@dataclass(frozen=True)
class Axis:
    """An axis, as it was said.

    Attributes:
        size: How long it is.
        least: What it is no shorter than.
        most: What it is no longer than.
    """

    size: Size
    least: Size | None = None
    most: Size | None = None

    @property
    def limits(self) -> list[tuple[Size, Size]]:
        """What is known of it: pairs of sizes, of which the first is not larger."""
        pairs = (self.least, self.size), (self.size, self.most)
        return [(a, b) for a, b in pairs if a is not None and b is not None]

    @property
    def within(self) -> Size:
        """The size, moved to within its limits: the same in each run that keeps to them."""
        found = self.size if self.most is None else call("min", self.size, self.most)
        return found if self.least is None else call("max", found, self.least)


def axes_of(name: str, shape: Sequence[Any], said: Any) -> tuple[Axis, ...]:
    """The axes of an array: as said, else those of the example.

    Raises:
        ShapeError: They do not fit the example.
    """
    own = tuple(_own_size(size) for size in shape)
    if said is None:
        return tuple(map(Axis, own))
    if not isinstance(said, list | tuple) or len(cast("list[Any]", said)) != len(own):
        raise ShapeError(
            f"`{name}` has {len(own)} axes, and sizes says {said!r:.60}.",
            fix=f"Say one for each axis, None as in the example: sizes={{{name!r}: "
            f"{[f'n{i}' for i in range(len(own))]}}}.",
        )
    sizes = cast("list[Any]", said)
    return tuple(_axis(name, *pair) for pair in zip(sizes, own, strict=True))


def _axis(name: str, said: Any, own: Size) -> Axis:
    if said is None:
        return Axis(own)
    if isinstance(said, str):
        return parse_axis(said)
    if said != own:
        raise ShapeError(
            f"An axis of `{name}` has the size {own}, and sizes says {said!r:.60}.",
            fix="Write a name for a size that only a run knows, or None for the example's.",
        )
    return Axis(own)


def _own_size(size: Any) -> Size:
    return size if isinstance(size, int) else _parsed(str(size))


def shape_of(axes: Sequence[Axis]) -> Shape:
    """How long they are."""
    return tuple(axis.size for axis in axes)


def parse_axis(text: str) -> Axis:
    """An axis as a user writes it.

    Example:
        >>> parse_axis("time <= 512")
        Axis(size=time, least=None, most=512)
        >>> parse_axis("1 <= time <= 512").within
        max(min(time, 512), 1)

    Raises:
        ShapeError: It is no size, or more is compared than two limits.
    """
    sizes, signs = list(map(_parsed, _LIMIT.split(text)[::2])), _LIMIT.findall(text)
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
            raise _no_size(text)


def _parsed(text: str) -> Size:
    try:
        return parse_size(text)
    except BracesError:
        raise _no_size(text) from None


def _no_size(text: str) -> ShapeError:
    return ShapeError(
        f"{text!r:.60} is not a size.", fix="Use a word, as 'batch', or '1 <= batch <= 8'."
    )
