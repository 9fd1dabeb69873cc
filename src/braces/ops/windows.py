"""Windows that slide over arrays, and which element of each one is the largest.

    x   1 3 | 0 2      out   3 2      first   1 3      x_grad   0 a | 0 0
        2 0 | 1 2                             (of 0 1           0 0 | 0 b
                                                  2 3)

The gradient of a largest element goes to the first that is it. XLA finds that by a reduction of
x beside the positions on four axes, and scatters. On a CPU this takes ten times as long as
comparing each place of the windows with the result, and choosing by the number of the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.lazy import jnp, lax


@dataclass(frozen=True)
class Windows:
    """How windows lie over an array.

    Attributes:
        sizes: For each axis; 1 where nothing slides.
        steps: How far they lie apart.
        pads: What is added to the axes on both sides.
    """

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @staticmethod
    def of(
        shape: Sequence[int], sizes: Sequence[int], steps: Sequence[int], pads: Any
    ) -> Windows:
        """Those that `lax.reduce_window` would take; `pads` may be a word."""
        if isinstance(pads, str):
            pads = lax.padtype_to_pads(shape, sizes, steps, pads)
        return Windows(tuple(sizes), tuple(steps), tuple(map(tuple, pads)))

    @property
    def places(self) -> int:
        """How many elements a window has."""
        return math.prod(self.sizes)

    @property
    def side_by_side(self) -> bool:
        """Whether each element is in one window at most, and none in padding."""
        return self.steps == self.sizes and not any(map(any, self.pads))

    def numbered(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The places of a window, and their numbers."""
        return enumerate(np.ndindex(*self.sizes))

    def elements(self, padded: Any, place: Sequence[int], counts: Sequence[int]) -> Any:
        """What all windows have at one place."""
        ends = [p + (n - 1) * s + 1 for p, n, s in zip(place, counts, self.steps, strict=True)]
        return lax.slice(padded, place, ends, self.steps)

    def inside(self, place: Sequence[int], counts: Sequence[int], shape: Sequence[int]) -> Any:
        """Of which windows this place is no padding; `True` where it is that of all."""
        found: Any = True
        for axis, (low, _) in enumerate(self.pads):
            at = place[axis] + self.steps[axis] * np.arange(counts[axis]) - low
            real = (at >= 0) & (at < shape[axis])
            if not real.all():
                found = found & np.expand_dims(real, _others(axis, len(shape)))
        return found


def _others(axis: int, rank: int) -> list[int]:
    return [one for one in range(rank) if one != axis]


def padded(x: Any, pads: Sequence[tuple[int, int]]) -> Any:
    """An array with zeros around it."""
    if not any(map(any, pads)):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [(low, high, 0) for low, high in pads])


def number_of_first(x: Any, out: Any, windows: Windows) -> Any:
    """For each window, the number of the first place that has the result; NaN equals NaN."""
    first = jnp.full(out.shape, windows.places, "int32")
    whole = padded(x, windows.pads)
    for number, place in reversed(list(windows.numbered())):
        part = windows.elements(whole, place, out.shape)
        found = (part == out) | (part != part)
        found = found & windows.inside(place, out.shape, x.shape)
        first = jnp.where(found, number, first)
    return first


def put_at_first(first: Any, grads: Any, windows: Windows, shape: Sequence[int]) -> Any:
    """The cotangents of windows, each added to the element of this number."""
    if windows.side_by_side:
        return _beside_each_other(first, grads, windows, shape)
    whole = [n + low + high for n, (low, high) in zip(shape, windows.pads, strict=True)]
    total = jnp.zeros(whole, grads.dtype)
    for number, place in windows.numbered():
        reach = zip(place, windows.steps, grads.shape, whole, strict=True)
        edges = [(p, n - p - (count - 1) * step - 1, step - 1) for p, step, count, n in reach]
        chosen = jnp.where(first == number, grads, 0)
        total = total + lax.pad(chosen, jnp.zeros((), grads.dtype), edges)
    starts = [low for low, _ in windows.pads]
    return lax.slice(total, starts, [low + n for low, n in zip(starts, shape, strict=True)])


def _beside_each_other(first: Any, grads: Any, windows: Windows, shape: Sequence[int]) -> Any:
    """Each element is chosen or not; what lies behind the last windows is 0."""
    pairs = list(zip(grads.shape, windows.sizes, strict=True))
    apart = [n for count, _ in pairs for n in (count, 1)]
    inner = [n for _, size in pairs for n in (1, size)]
    numbers = np.arange(windows.places, dtype="int32").reshape(inner)
    chosen = jnp.where(first.reshape(apart) == numbers, grads.reshape(apart), 0)
    whole = chosen.reshape([count * size for count, size in pairs])
    rest = zip(shape, whole.shape, strict=True)
    return padded(whole, [(0, n - covered) for n, covered in rest])
