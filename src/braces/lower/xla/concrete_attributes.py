"""Concrete attributes: symbolic sizes are replaced by numbers before lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.dims import Dim, Size, substitute
from braces.dtypes import TensorType, Type
from braces.errors import ShapeError
from braces.ir.records import Attr, Body

Sizes = dict[str, int]
"""Named dimensions of a run."""


class SymbolicSizes(Sizes):
    """Sizes of an exported run: some are numbers, the others remain symbols of JAX.

    Args:
        numbers: The sizes that are numbers.
        symbol: Converts a size to the symbol of JAX.
        ours: Converts a symbol of JAX to a size.
    """

    def __init__(
        self,
        numbers: Mapping[str, Any],
        symbol: Callable[[Size], Any],
        ours: Callable[[Any], Size],
    ) -> None:
        super().__init__(numbers)
        self._symbol, self._ours = symbol, ours

    def inside(self, more: Mapping[str, Any]) -> SymbolicSizes:
        """Return these sizes with those of a block."""
        converted = {name: self._ours(size) for name, size in more.items()}
        return SymbolicSizes({**self, **converted}, self._symbol, self._ours)

    def number(self, size: Size) -> Any:
        """Return a size for JAX: a number, or a symbol."""
        return self._symbol(substitute(size, self))


def sizes_inside(sizes: Sizes, more: Mapping[str, int]) -> Sizes:
    """Return the sizes of a run with those of a block."""
    return sizes.inside(more) if isinstance(sizes, SymbolicSizes) else {**sizes, **more}


def size_number(size: Size, sizes: Mapping[str, int]) -> int:
    """Return a size of this run.

    Raises:
        ShapeError: If no feed and no variable of the run determines one of its dimensions.
    """
    if isinstance(sizes, SymbolicSizes):
        return sizes.number(size)
    known = substitute(size, sizes)
    if isinstance(known, int):
        return known
    raise ShapeError(
        f"unknown size `{size}` in this run.",
        fix=f"Feed a variable that has the dimension {', '.join(sorted(known.names()))}.",
    )


def concrete_attrs(attrs: Mapping[str, Attr], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return attributes with every symbolic size as a number."""
    return {name: _concrete(value, sizes) for name, value in attrs.items()}


def _concrete(value: Attr, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, Dim):
        return size_number(value, sizes)
    if isinstance(value, tuple) and not any(isinstance(item, Body) for item in value):
        return tuple(_concrete(item, sizes) for item in value)
    return value


def bind_sizes(declared: Type, shape: tuple[int, ...], sizes: Sizes) -> str | None:
    """Bind the named dimensions of one array; return the conflict, if there is one."""
    assert isinstance(declared, TensorType)
    if len(shape) != declared.rank:
        return f"expected rank {declared.rank}, got rank {len(shape)}"
    for axis, (size, got) in enumerate(zip(declared.shape, shape, strict=True)):
        if isinstance(size, Dim) and size.name and size.name not in sizes:
            sizes[size.name] = got
            continue
        known = substitute(size, sizes)
        if isinstance(known, int) and known != got:
            expected = f"`{size}` = {known} in this run" if isinstance(size, Dim) else known
            return f"axis {axis} has size {got}; expected {expected}"
    return None
