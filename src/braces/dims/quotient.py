"""Division of a size, which gives no size but a number that is computed in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Divisible:
    """What `n / 2` and `1.0 / n` mean for a symbolic size `n`."""

    __slots__ = ()

    number: ClassVar[Callable[[Any], Any]]
    """Makes a size a number to compute with; `braces.builder.append` sets it."""

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, int | float | Divisible):
            return NotImplemented
        return type(self).number(self) / other

    def __rtruediv__(self, other: float) -> Any:
        return other / type(self).number(self)
