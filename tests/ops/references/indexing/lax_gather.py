"""References of `braces.ops.indexing.lax_gather`: one place after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, between

Place = tuple[int, ...]


def places(
    x: Array, indices: Array, sizes: list[int], attrs: Mapping[str, Any], mapped: Place
) -> Iterator[tuple[Place, Place, bool]]:
    """Each place: which it is, where its part begins, and whether that lies in the array."""
    batching = attrs.get("operand_batching_dims", ())
    of_indices = attrs.get("start_indices_batching_dims", ())
    for at in np.ndindex(*indices.shape[:-1]):
        start = [0] * x.ndim
        for axis, place in zip(batching, of_indices, strict=True):
            start[axis] = at[place]
        for k, axis in enumerate(mapped):
            start[axis] = int(indices[(*at, k)])
        last = [have - size for have, size in zip(x.shape, sizes, strict=True)]
        moved = tuple(min(max(s, 0), e) for s, e in zip(start, last, strict=True))
        yield at, moved, tuple(start) == moved


def spread(at: Place, part: Place, where: Place) -> Place:
    """The entries of places and of a part, those of the part at these axes."""
    left, parts = iter(at), iter(part)
    return tuple(next(parts) if i in where else next(left) for i in range(len(at) + len(part)))


def lax_gather(x: Array, indices: Array, *, mode: str, **attrs: Any) -> Array:
    """Part by part, number by number."""
    sizes, where = list(attrs["slice_sizes"]), attrs["offset_dims"]
    gone = {*attrs["collapsed_slice_dims"], *attrs["operand_batching_dims"]}
    found = dict[Place, Any]()
    for at, start, inside in places(x, indices, sizes, attrs, attrs["start_index_map"]):
        for k in np.ndindex(*sizes):
            part = tuple(i for axis, i in enumerate(k) if axis not in gone)
            value = x[tuple(a + b for a, b in zip(start, k, strict=True))]
            found[spread(at, part, where)] = value if inside or mode == "clip" else np.nan
    kept = tuple(size for axis, size in enumerate(sizes) if axis not in gone)
    made = np.zeros(spread(indices.shape[:-1], kept, where), x.dtype)
    for key, value in found.items():
        made[key] = value
    return made


REDUCED = {"set": lambda a, b: b, "add": lambda a, b: a + b, "min": min, "max": max}


def lax_scatter(
    x: Array, indices: Array, updates: Array, *, mode: str, reduction: str, **attrs: Any
) -> Array:
    """Update by update, number by number."""
    where = attrs["update_window_dims"]
    gone = {*attrs["inserted_window_dims"], *attrs["operand_batching_dims"]}
    left = iter(where)
    sizes = [1 if axis in gone else updates.shape[next(left)] for axis in range(x.ndim)]
    made, mapped = x.copy(), attrs["scatter_dims_to_operand_dims"]
    for at, start, inside in places(x, indices, sizes, attrs, mapped):
        for k in np.ndindex(*sizes) if inside or mode == "clip" else ():
            part = tuple(i for axis, i in enumerate(k) if axis not in gone)
            key = tuple(a + b for a, b in zip(start, k, strict=True))
            made[key] = REDUCED[reduction](made[key], updates[spread(at, part, where)])
    return made


INDICES = {"indices": between(-1, 5)}
INSIDE = {"indices": between(0, 3)}
REFERENCES = {
    "lax_gather": Reference(lax_gather, inputs=INSIDE, empty=False),
    "lax_scatter": Reference(lax_scatter, inputs=INDICES, empty=False),
}
