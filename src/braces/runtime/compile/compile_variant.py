"""Compile variant of a block: with exact sizes, or with capacities for row counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from braces.dims import Dim
from braces.dtypes import TensorType, Type
from braces.ir.records import Body
from braces.lower.xla.check_points import CheckPoint
from braces.runtime.compile.list_capacity import CapacityEstimates


@dataclass(frozen=True)
class CompileVariant:
    """A block to compile.

    Attributes:
        body: The block.
        updates: Persistable name to the variable of the block with its next value.
        sites: Its check points, by path.
        rounded: The dimensions that are compiled as capacities, which may exceed the row
            counts.
        cuts: For each result, its axes of such dimensions.
    """

    body: Body
    updates: Mapping[str, str]
    sites: dict[str, CheckPoint]
    rounded: tuple[str, ...] = ()
    cuts: tuple[dict[int, str], ...] = ()

    def limit(
        self, site: CheckPoint, rooms: Mapping[str, int], sizes: Mapping[str, int]
    ) -> int:
        """Return the largest code of a check point in a run without failures."""
        if site.history:
            return rooms[site.history]
        return sizes[site.length] if site.length in self.rounded else 0

    def facts(
        self,
        known: CapacityEstimates,
        fetches: Iterable[str],
        timed: bool,
        causes: Mapping[str, str],
    ) -> dict[str, str]:
        """Return the assumptions of its code besides shapes, in words.

        Args:
            known: The assumed sizes and capacities.
            fetches: The names of the fetches.
            timed: Whether loops check the time limit.
            causes: The cause for each dimension that keeps exact sizes.
        """
        sizes = known.sizes(self.rounded).items()
        most = {name: "up to " if name in self.rounded else "" for name, _ in sizes}
        exact = {
            name: f", exact because of {causes[name]},"
            for name, _ in sizes
            if name in causes and name not in self.rounded
        }
        return {
            **{
                f"the size `{name}`{exact.get(name, '')}": f"{most[name]}{size}"
                for name, size in sizes
            },
            **{f"the capacity of `{name}`": str(n) for name, n in known.capacities().items()},
            "the list of fetches": ", ".join(fetches) or "empty",
            "the time limit": "checked" if timed else "not checked",
        }

    def remove_padding(self, results: list[Any], counts: Mapping[str, int]) -> list[Any]:
        """Return the results without padding."""
        return [
            _remove_padding(x, axes, counts) for x, axes in zip(results, self.cuts, strict=True)
        ]


def find_padded_axes(type_: Type, rounded: tuple[str, ...]) -> dict[int, str]:
    """Return the axes that may be padded."""
    assert isinstance(type_, TensorType)
    names = [size.name if isinstance(size, Dim) else None for size in type_.shape]
    return {axis: name for axis, name in enumerate(names) if name in rounded and name}


def _remove_padding(value: Any, axes: Mapping[int, str], counts: Mapping[str, int]) -> Any:
    """Return the real rows; a copy, which frees the padded array."""
    if all(value.shape[axis] == counts[name] for axis, name in axes.items()):
        return value
    ends = [counts[axes[i]] if i in axes else None for i in range(value.ndim)]
    return value[tuple(map(slice, ends))].copy()
