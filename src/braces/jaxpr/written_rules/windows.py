"""Windows over arrays of any rank, as JAX functions.

    x         a b c            window 2, stride 1, dilation 2, padding (1, 1)
    windows   [- b] [a c] [b -]
    rows      - a b            row `w` has element `w` of every window
              b c -            `inside` is false where a window leaves the array

Padding and the gaps of a dilated array are skipped, as XLA does: they are no elements of a
window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from braces.jaxpr.core.equation import Equation
from braces.lazy import jnp, lax

_np: Any = jnp
_lax: Any = lax
Combine: TypeAlias = "Callable[..., Sequence[Any]]"
"""A function of two vectors for each operand."""


@dataclass(frozen=True)
class WindowAxis:
    """The windows along an axis.

    Attributes:
        size: The size of the axis.
        count: The number of windows.
        window: The number of elements of a window.
        stride: The distance of windows.
        dilation: The distance of elements of a window.
        base: The distance of elements of the array.
        edges: The padding before the first and after the last element.
    """

    size: Any
    count: Any
    window: int
    stride: int
    dilation: int
    base: int
    edges: tuple[int, int]

    @property
    def shape(self) -> tuple[Any, int]:
        """The number of windows, and that of their elements."""
        return self.count, self.window

    @property
    def is_whole(self) -> bool:
        """Return whether each element is a window."""
        numbers = (self.window, self.stride, self.base, *self.edges)
        return numbers == (1, 1, 1, 0, 0)

    def places(self) -> tuple[Any, Any]:
        """Return the places of the elements of each window, and which lie inside."""
        at = _np.arange(self.count, dtype=np.int32)[:, None] * self.stride
        at = at - self.edges[0] + _np.arange(self.window, dtype=np.int32) * self.dilation
        element = at // self.base
        inside = (at >= 0) & (element < self.size) & (at % self.base == 0)
        return _np.clip(element, 0, self.size - 1), inside


@dataclass(frozen=True)
class Windows:
    """The windows over an array.

    Attributes:
        axes: Those of each axis.
    """

    axes: Sequence[WindowAxis]

    @property
    def counts(self) -> tuple[Any, ...]:
        """The shape of an array with a number for each window."""
        return tuple(axis.count for axis in self.axes)

    def rows(self, x: Any) -> Any:
        """Return the rows of an array: its elements by window."""
        for at in reversed(range(len(self.axes))):
            if self.axes[at].is_whole:
                x = _np.expand_dims(x, at + 1)
            elif x.shape[at] == 0:  # no element lies inside
                x = _np.zeros(
                    (*x.shape[:at], *self.axes[at].shape, *x.shape[at + 1 :]), x.dtype
                )
            else:
                x = _np.take(x, self.axes[at].places()[0], axis=at, mode="clip")
        return self._in_rows(x)

    def inside(self) -> Any:
        """Return which elements of the rows lie inside the array."""
        total = _np.ones((1,) * 2 * len(self.axes), bool)
        for at, axis in enumerate(self.axes):
            if not axis.is_whole:
                shape = [1] * 2 * len(self.axes)
                shape[2 * at : 2 * at + 2] = axis.shape
                total = total & axis.places()[1].reshape(shape)
        sizes = [size for axis in self.axes for size in axis.shape]
        return self._in_rows(_np.broadcast_to(total, sizes))

    def _in_rows(self, x: Any) -> Any:
        """Reorder an array with an axis of windows and one of their elements per axis."""
        rank = len(self.axes)
        x = _np.transpose(x, (*range(1, 2 * rank, 2), *range(0, 2 * rank, 2)))
        return x.reshape(math.prod(axis.window for axis in self.axes), -1)


def windows_of(e: Equation, shape: Any, counts: Any, **others: Any) -> Windows:
    """Return the windows of an equation.

    Args:
        e: The equation.
        shape: The shape of the array.
        counts: The shape of an array with a number for each window.
        **others: Parameters that replace those of the equation.
    """
    ones = (1,) * len(shape)
    defaults = {"window_dilation": ones, "base_dilation": ones}
    params: Mapping[str, Any] = {**defaults, **e.params, **others}
    names = ("window_dimensions", "window_strides", *defaults, "padding")
    columns = [shape, counts, *(params[name] for name in names)]
    return Windows([WindowAxis(*axis) for axis in zip(*columns, strict=True)])


# ---- reductions ------------------------------------------------------------------------------


def reduce_rows(kind: str, windows: Windows, x: Any) -> Any:
    """Return exact sums of windows, or the extremes of bools."""
    reduce, identity = {
        "sum": (_np.sum, 0), "max": (_np.any, False), "min": (_np.all, True)
    }[kind]  # fmt: skip
    rows = _np.where(windows.inside(), windows.rows(x), np.asarray(identity, x.dtype))
    return reduce(rows, axis=0).astype(x.dtype).reshape(windows.counts)


def fold_rows(combine: Combine, windows: Windows, *arrays: Any) -> list[Any]:
    """Combine the elements of each window, in order.

    Args:
        combine: The function of two elements for each array.
        windows: The windows.
        *arrays: The arrays, and the first values of their reductions.
    """
    count, inside = len(arrays) // 2, windows.inside()

    def step(so_far: Sequence[Any], rows: Sequence[Any]) -> tuple[Any, None]:
        *elements, is_inside = rows
        combined = combine(*so_far, *elements)
        return [
            _np.where(is_inside, *pair) for pair in zip(combined, so_far, strict=True)
        ], None

    init = [_np.broadcast_to(first, inside.shape[1:]) for first in arrays[count:]]
    rows = [*map(windows.rows, arrays[:count]), inside]
    return [x.reshape(windows.counts) for x in _lax.scan(step, init, rows)[0]]


# ---- selection -------------------------------------------------------------------------------


def select_and_scatter(
    select: Combine,
    scatter: Combine | None,
    windows: Windows,
    operand: Any,
    source: Any,
    init: Any,
) -> Any:
    """Scatter values to the selected elements of windows.

    Args:
        select: Returns whether the first of two elements stays selected.
        scatter: Combines a result with a value; by default their sum.
        windows: The windows.
        operand: The array whose elements are selected.
        source: A value for each window.
        init: The results of elements that no window selects.
    """
    size = math.prod(operand.shape)
    places = _np.arange(size, dtype=np.int32).reshape(operand.shape)

    def step(so_far: Any, row: Any) -> tuple[Any, None]:
        element, place, is_found = so_far
        next_element, next_place, is_inside = row
        (stays,) = select(element, next_element)
        is_next = is_inside & ~(is_found & stays)
        element = _np.where(is_next, next_element, element)
        return (element, _np.where(is_next, next_place, place), is_found | is_inside), None

    rows = windows.rows(operand), windows.rows(places), windows.inside()
    first = rows[0][0], rows[1][0], _np.zeros_like(rows[2][0])
    (_, place, is_found), _ = _lax.scan(step, first, rows)
    results = _np.broadcast_to(init, (size,))
    source = source.reshape(-1)
    if scatter is None:
        added = _np.where(is_found, source, _np.zeros_like(source))
        return results.at[place].add(added, mode="clip").reshape(operand.shape)

    def place_next(results: Any, window: Any) -> tuple[Any, None]:
        value, at, is_found = window
        current = results[at]
        (combined,) = scatter(current[None], value[None])
        new = _np.where(is_found, combined[0], current)
        return results.at[at].set(new, mode="clip"), None

    results, _ = _lax.scan(place_next, results, (source, place, is_found))
    return results.reshape(operand.shape)
