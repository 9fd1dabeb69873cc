"""Symbolic sizes become numbers before anything is computed."""

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
    """Sizes of a run that is exported: some are numbers, the others stay JAX's symbols.

    Args:
        numbers: Those that are numbers.
        symbol: From a size to what JAX has for it.
        ours: From what JAX has to a size.
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
        """With sizes that a block has for itself."""
        found = {name: self._ours(size) for name, size in more.items()}
        return SymbolicSizes({**self, **found}, self._symbol, self._ours)

    def number(self, size: Size) -> Any:
        """A size as JAX has it: a number, or a symbol that stands for one."""
        return self._symbol(substitute(size, self))


def sizes_inside(sizes: Sizes, more: Mapping[str, int]) -> Sizes:
    """Sizes of a run, and those that a block has for itself."""
    return sizes.inside(more) if isinstance(sizes, SymbolicSizes) else {**sizes, **more}


def size_number(size: Size, sizes: Mapping[str, int]) -> int:
    """A size of this run.

    Raises:
        ShapeError: It has a dimension that no feed and no variable of the run tells.
    """
    if isinstance(sizes, SymbolicSizes):
        return sizes.number(size)
    found = substitute(size, sizes)
    if isinstance(found, int):
        return found
    raise ShapeError(
        f"The size `{size}` is not known in this run.",
        fix=f"Feed a variable that has the dimension {', '.join(sorted(found.names()))}.",
    )


def concrete_attrs(attrs: Mapping[str, Attr], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Attributes with every symbolic size as a number."""
    return {name: _concrete(value, sizes) for name, value in attrs.items()}


def _concrete(value: Attr, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, Dim):
        return size_number(value, sizes)
    if isinstance(value, tuple) and not any(isinstance(one, Body) for one in value):
        return tuple(_concrete(one, sizes) for one in value)
    return value


def bind_sizes(declared: Type, shape: tuple[int, ...], sizes: Sizes) -> str | None:
    """Learn the named dimensions of one array; returns the conflict, where there is one."""
    assert isinstance(declared, TensorType)
    if len(shape) != declared.rank:
        return f"{declared.rank} axes are declared"
    for axis, (size, got) in enumerate(zip(declared.shape, shape, strict=True)):
        if isinstance(size, Dim) and size.name and size.name not in sizes:
            sizes[size.name] = got
            continue
        known = substitute(size, sizes)
        if isinstance(known, int) and known != got:
            source = (
                f"`{size}` is {known} in this run"
                if isinstance(size, Dim)
                else f"{size} is declared"
            )
            return f"axis {axis} is {got}, but {source}"
    return None
