"""True division of a size, whose result is a runtime number instead of a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Divisible:
    """Mixin for `n / 2` and `1.0 / n` of a symbolic size `n`."""

    __slots__ = ()

    number: ClassVar[Callable[[Any], Any]]
    """Convert a size to a runtime number; set by `braces.builder.append`."""

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, int | float | Divisible):
            return NotImplemented
        return type(self).number(self) / other

    def __rtruediv__(self, other: float) -> Any:
        return other / type(self).number(self)
