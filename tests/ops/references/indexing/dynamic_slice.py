"""References of `braces.ops.indexing.dynamic_slice`."""

from __future__ import annotations

from tests.ops.reference import Array, Reference, between


def part(x: Array, starts: tuple[Array, ...], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the start of a slice of these sizes, clamped to the array."""
    moved = (
        min(max(int(start), 0), have - size)
        for start, have, size in zip(starts, x.shape, sizes, strict=True)
    )
    return tuple(slice(at, at + size) for at, size in zip(moved, sizes, strict=True))


def dynamic_slice(x: Array, *starts: Array, sizes: tuple[int, ...]) -> Array:
    """The part itself."""
    return x[part(x, starts, sizes)]


def dynamic_update_slice(x: Array, update: Array, *starts: Array) -> Array:
    """A copy, of which the part is another."""
    made = x.copy()
    made[part(x, starts, update.shape)] = update
    return made


STARTS = {"starts": between(-2, 7)}
REFERENCES = {
    "dynamic_slice": Reference(dynamic_slice, inputs=STARTS),
    "dynamic_update_slice": Reference(dynamic_update_slice, inputs=STARTS),
}
