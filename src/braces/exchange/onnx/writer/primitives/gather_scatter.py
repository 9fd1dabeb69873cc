"""Primitives that take from, or put at, places that values tell.

JAX says of each axis how it is indexed; ONNX has `GatherND` and `ScatterND`, which index the
first axes. So axes that are taken whole go last, and for the others the place of each element
is written out: where its window begins, and how far it is into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from braces.dims import Size
from braces.dtypes import BOOL, INT64, is_float
from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.exchange.onnx.writer.graph.jaxpr_equation import Equation, Rule
from braces.exchange.onnx.writer.primitives.shape import around, counted, expanded, unsqueezed

CLIP, FILL, PROMISED = "CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"


@dataclass(frozen=True)
class Places:
    """How the axes of an array are indexed.

    Attributes:
        sizes: Of a window, along each axis.
        gone: The axes along which a window has one element and no axis of its own.
        started: The axes for which the indices tell where windows begin, in their order.
        beside: The axes that go with axes of the indices, and those.
    """

    e: Equation
    sizes: Sequence[Size]
    gone: Sequence[int]
    started: Sequence[int]
    beside: Mapping[int, int]

    @property
    def indexed(self) -> list[int]:
        """The axes that are not taken whole."""
        shape = self.e.type().shape
        apart = {*self.gone, *self.started, *self.beside}
        return [i for i in range(len(shape)) if i in apart or self.sizes[i] != shape[i]]

    @property
    def whole(self) -> list[int]:
        """The axes that are taken whole."""
        indexed = self.indexed
        return [i for i in range(len(self.sizes)) if i not in indexed]

    @property
    def windows(self) -> list[int]:
        """The axes of which a window has a part."""
        return [i for i in self.indexed if i not in self.gone and i not in self.beside]

    @property
    def kept(self) -> list[int]:
        """The axes that windows have."""
        return [i for i in range(len(self.sizes)) if i not in (*self.gone, *self.beside)]

    @property
    def batch(self) -> tuple[Size, ...]:
        """The axes of the indices."""
        return self.e.type(1).shape[:-1]

    @property
    def order(self) -> list[int]:
        """Where axes are taken from to have those first that are indexed."""
        return [*self.indexed, *self.whole]

    def written(self, indices: str) -> tuple[str, str]:
        """The place of each element; and which windows lie within the array."""
        g, shape, windows = self.e.g, self.e.type().shape, self.windows
        full = [*self.batch, *(self.sizes[i] for i in windows)]
        inside, parts, zero = list[str](), list[str](), g.constant(0, INT64)
        indices = widths.moved(g, indices, self.e.type(1).dtype, INT64)
        for axis in self.indexed:
            place = zero
            if axis in self.started:
                number = g.constant(self.started.index(axis), INT64)
                start = g.op("Gather", indices, number, axis=len(self.batch))
                most = g.number(shape[axis] - self.sizes[axis])
                inside += [
                    g.op("GreaterOrEqual", start, zero),
                    g.op("LessOrEqual", start, most),
                ]
                start = g.op("Max", g.op("Min", start, most), zero)
                last = [len(self.batch) + k for k in range(len(windows))]
                place = unsqueezed(g, start, last)
            elif axis in self.beside:
                place = _line(g, shape[axis], self.beside[axis], len(full))
            if axis in windows and self.sizes[axis] != 1:
                at = len(self.batch) + windows.index(axis)
                place = g.op("Add", place, _line(g, self.sizes[axis], at, len(full)))
            wide = expanded(g, place, full, INT64)
            parts.append(unsqueezed(g, wide, [len(full)]))
        if not parts:
            parts = [expanded(g, g.integers(), [*full, 0], INT64)]
        return g.op("Concat", *parts, axis=len(full)), self._all(inside)

    def _all(self, inside: Sequence[str]) -> str:
        g, found = self.e.g, ""
        for one in inside:
            found = g.op("And", found, one) if found else one
        return found or g.constant(True)

    @property
    def shift(self) -> Size:
        """How far behind the last place of the first axis nothing of the array is."""
        return self.e.type().shape[self.indexed[0]]

    def beyond(self, where: str, inside: str) -> str:
        """The places, those of windows that lie outside as far behind the first axis."""
        g, rank = self.e.g, len(self.batch) + len(self.windows)
        first = np.zeros(len(self.indexed), "int64")
        first[0] = 1
        away = g.op("Mul", g.constant(first), g.number(self.shift))
        there = unsqueezed(g, inside, range(len(self.batch), rank + 1))
        return g.op("Add", where, g.op("Where", there, g.constant(0, INT64), away))

    def masked(self, values: str, inside: str, otherwise: str) -> str:
        """Values, in the order of `written` and then of the whole axes, or something else."""
        g = self.e.g
        first = len(self.batch)
        rank = first + len(self.windows) + len(self.whole)
        there = unsqueezed(g, inside, range(first, rank)) if self.started else inside
        return widths.chosen(g, there, values, otherwise, self.e.dtype)


def _line(g: Graph, size: Size, axis: int, rank: int) -> str:
    """0, 1, … along an axis."""
    return unsqueezed(g, counted(g, size), [i for i in range(rank) if i != axis])


def gather(e: Equation, x: str, indices: str) -> str:
    """Windows of an array."""
    numbers, g = e.params["dimension_numbers"], e.g
    beside = zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    )
    places = Places(
        e, e.sizes(e.params["slice_sizes"]), numbers.collapsed_slice_dims,
        numbers.start_index_map, dict(beside),
    )  # fmt: skip
    at, inside = places.written(indices)
    found = g.op("GatherND", _moved(g, x, places.order), at)
    if _mode(e) == FILL:
        found = places.masked(found, inside, e.scalar(_missing(e)))
    # ... which has the axes of the indices, of the windows, and the whole ones.
    batch = len(places.batch)
    made = [*places.windows, *places.whole]
    rest = iter(range(batch))
    windows = dict(zip(numbers.offset_dims, places.kept, strict=True))
    order = [
        batch + made.index(windows[i]) if i in windows else next(rest)
        for i in range(len(e.shape))
    ]
    return _moved(g, found, order)


def scatter(reduction: str, neutral: float | None, e: Equation, *given: str) -> str:
    """An array with something put into its windows, or joined with what is there."""
    x, indices, updates = given
    numbers, g = e.params["dimension_numbers"], e.g
    new, window_axes = e.type(2), numbers.update_window_dims
    beside = zip(
        numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
    )
    gone, apart = numbers.inserted_window_dims, dict(beside)
    kept = [i for i in range(len(e.shape)) if i not in gone and i not in apart]
    sizes: list[Size] = [1] * len(e.shape)
    for axis, at in zip(kept, window_axes, strict=True):
        sizes[axis] = new.shape[at]
    places = Places(e, sizes, gone, numbers.scatter_dims_to_operand_dims, apart)
    where, inside = places.written(indices)
    axes = dict(zip(kept, window_axes, strict=True))
    batch = [i for i in range(new.rank) if i not in window_axes]
    moved = _moved(g, updates, [*batch, *(axes[i] for i in (*places.windows, *places.whole))])
    x = _moved(g, x, places.order)
    if _mode(e) != FILL or not places.started:
        found = _scattered(e, x, where, moved, reduction)
    elif neutral is None:
        found = _within(e, places, x, places.beyond(where, inside), moved, reduction)
    else:
        moved = places.masked(moved, inside, e.scalar(neutral))
        found = _scattered(e, x, where, moved, reduction)
    return _moved(g, found, sorted(range(len(e.shape)), key=places.order.__getitem__))


def _within(
    e: Equation, places: Places, x: str, where: str, updates: str, reduction: str
) -> str:
    """Windows put into an array that has one more behind it, for those that lie outside."""
    g, shape = e.g, [e.shape[axis] for axis in places.order]
    behind: list[Size] = [places.shift, *[0] * (len(shape) - 1)]
    nothing: list[Size] = [0] * len(shape)
    longer = around(g, x, nothing, behind, e.scalar(0), e.dtype)
    found = _scattered(e, longer, where, updates, reduction)
    return g.op("Slice", found, g.integers(0), g.size(shape[0]), g.integers(0))


def _scattered(e: Equation, x: str, where: str, updates: str, reduction: str) -> str:
    if reduction == "none":
        return e.g.op("ScatterND", x, where, updates)
    return e.g.op("ScatterND", x, where, updates, reduction=reduction)


def _moved(g: Graph, x: str, order: Sequence[int]) -> str:
    return x if list(order) == sorted(order) else g.op("Transpose", x, perm=list(order))


def _mode(e: Equation) -> str:
    return e.params["mode"].name


def _missing(e: Equation) -> object:
    """What JAX gives for what lies outside."""
    value = e.params["fill_value"]
    if value is not None:
        return value
    if is_float(e.dtype):
        return np.nan
    if e.dtype == BOOL:
        return True
    info = np.iinfo(e.dtype)
    return info.max if e.dtype.kind == "u" else info.min


GATHERING: Mapping[str, Rule] = {
    "gather": gather,
    "scatter": partial(scatter, "none", None),
    "scatter-add": partial(scatter, "add", 0),
    "scatter-max": partial(scatter, "max", None),
    "scatter-min": partial(scatter, "min", None),
    "scatter-mul": partial(scatter, "mul", 1),
}
