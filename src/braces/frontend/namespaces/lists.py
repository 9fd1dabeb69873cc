"""Lists of arrays of one type, with a data-dependent length.

xs = br.lists.create([8])
xs = br.lists.append(xs, row)        a new list; the old one is unchanged
xs[0], br.lists.length(xs)           reads
br.lists.stack(xs)                   an array, outside of loops
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.control.lists import (
    append,
    create,
    erase,
    get,
    insert,
    length,
    pop,
    resize,
    set,
    stack,
    unstack,
    write,
)
from braces.frontend.core.all_or_nothing import module_getattr

__all__ = [
    "append", "create", "erase", "get", "insert", "length", "pop", "resize", "set", "stack",
    "unstack", "write",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.lists", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
