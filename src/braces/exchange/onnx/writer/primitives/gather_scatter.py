"""Export of gathers and scatters.

JAX specifies the indexing of each axis; ONNX has `GatherND` and `ScatterND`, which index
leading axes. So whole axes go last, and the index of each element along the others is computed:
the start of its window plus its offset in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.exchange.onnx.writer.primitives.shape import (
    add_axes,
    arange_to,
    expand_to,
    pad_edges,
)
from braces.extend.types import BOOL, INT64, Size, is_float

CLIP, FILL, PROMISE_IN_BOUNDS = "CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"


@dataclass(frozen=True)
class AxisIndexing:
    """The indexing of the axes of an array.

    Attributes:
        sizes: The size of a window along each axis.
        gone: The collapsed axes, along which a window has one element.
        started: The axes for which the indices give the starts of windows, in their order.
        beside: The batching axes, with the axes of the indices that they go with.
    """

    e: ExportedEquation
    sizes: Sequence[Size]
    gone: Sequence[int]
    started: Sequence[int]
    beside: Mapping[int, int]

    @property
    def indexed(self) -> list[int]:
        """The axes that need indices."""
        shape = self.e.type().shape
        explicit_axes = {*self.gone, *self.started, *self.beside}
        return [i for i in range(len(shape)) if i in explicit_axes or self.sizes[i] != shape[i]]

    @property
    def full_axes(self) -> list[int]:
        """The axes that are taken entirely, without indices."""
        indexed = self.indexed
        return [i for i in range(len(self.sizes)) if i not in indexed]

    @property
    def windows(self) -> list[int]:
        """The axes along which a window is a slice."""
        return [i for i in self.indexed if i not in self.gone and i not in self.beside]

    @property
    def window_axes(self) -> list[int]:
        """The axes that windows have."""
        return [i for i in range(len(self.sizes)) if i not in (*self.gone, *self.beside)]

    @property
    def batch(self) -> tuple[Size, ...]:
        """The axes of the indices."""
        return self.e.type(1).shape[:-1]

    @property
    def order(self) -> list[int]:
        """The order of axes with the indexed ones first."""
        return [*self.indexed, *self.full_axes]

    def written(self, indices: str) -> tuple[str, str]:
        """Return the index vector of each element, and a mask of windows that are in bounds."""
        g, shape, windows = self.e.g, self.e.type().shape, self.windows
        full = [*self.batch, *(self.sizes[i] for i in windows)]
        in_bounds, parts, zero = list[str](), list[str](), g.constant(0, INT64)
        indices = widths.cast_value(g, indices, self.e.type(1).dtype, INT64)
        for axis in self.indexed:
            position = zero
            if axis in self.started:
                number = g.constant(self.started.index(axis), INT64)
                start = g.op("Gather", indices, number, axis=len(self.batch))
                last_start = g.number(shape[axis] - self.sizes[axis])
                in_bounds += [
                    g.op("GreaterOrEqual", start, zero),
                    g.op("LessOrEqual", start, last_start),
                ]
                start = g.op("Max", g.op("Min", start, last_start), zero)
                last = [len(self.batch) + k for k in range(len(windows))]
                position = add_axes(g, start, last)
            elif axis in self.beside:
                position = _line(g, shape[axis], self.beside[axis], len(full))
            if axis in windows and self.sizes[axis] != 1:
                at = len(self.batch) + windows.index(axis)
                position = g.op("Add", position, _line(g, self.sizes[axis], at, len(full)))
            wide = expand_to(g, position, full, INT64)
            parts.append(add_axes(g, wide, [len(full)]))
        if not parts:
            parts = [expand_to(g, g.integers(), [*full, 0], INT64)]
        return g.op("Concat", *parts, axis=len(full)), self._all(in_bounds)

    def _all(self, inside: Sequence[str]) -> str:
        g, conjunction = self.e.g, ""
        for condition in inside:
            conjunction = g.op("And", conjunction, condition) if conjunction else condition
        return conjunction or g.constant(True)

    @property
    def shift(self) -> Size:
        """The offset that moves any index of the first axis out of bounds."""
        return self.e.type().shape[self.indexed[0]]

    def beyond(self, where: str, inside: str) -> str:
        """Shift the indices of windows that are out of bounds behind the first axis."""
        g, rank = self.e.g, len(self.batch) + len(self.windows)
        first = np.zeros(len(self.indexed), "int64")
        first[0] = 1
        offset = g.op("Mul", g.constant(first), g.number(self.shift))
        in_bounds = add_axes(g, inside, range(len(self.batch), rank + 1))
        return g.op("Add", where, g.op("Where", in_bounds, g.constant(0, INT64), offset))

    def masked(self, values: str, inside: str, otherwise: str) -> str:
        """Replace values of windows that are out of bounds."""
        g = self.e.g
        first = len(self.batch)
        rank = first + len(self.windows) + len(self.full_axes)
        in_bounds = add_axes(g, inside, range(first, rank)) if self.started else inside
        return widths.widened_where(g, in_bounds, values, otherwise, self.e.dtype)


def _line(g: OnnxGraph, size: Size, axis: int, rank: int) -> str:
    """Return 0, 1, … along an axis."""
    return add_axes(g, arange_to(g, size), [i for i in range(rank) if i != axis])


def gather(e: ExportedEquation, x: str, indices: str) -> str:
    """Windows of an array."""
    numbers, g = e.params["dimension_numbers"], e.g
    batching_axes = zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    )
    indexing = AxisIndexing(
        e, e.sizes(e.params["slice_sizes"]), numbers.collapsed_slice_dims,
        numbers.start_index_map, dict(batching_axes),
    )  # fmt: skip
    at, inside = indexing.written(indices)
    values = g.op("GatherND", _transpose_to(g, x, indexing.order), at)
    if _mode(e) == FILL:
        values = indexing.masked(values, inside, e.scalar(_missing(e)))
    # The result has the axes of the indices, of the windows, and the whole ones.
    batch = len(indexing.batch)
    result_axes = [*indexing.windows, *indexing.full_axes]
    batch_axes = iter(range(batch))
    windows = dict(zip(numbers.offset_dims, indexing.window_axes, strict=True))
    order = [
        batch + result_axes.index(windows[i]) if i in windows else next(batch_axes)
        for i in range(len(e.shape))
    ]
    return _transpose_to(g, values, order)


def scatter(reduction: str, neutral: float | None, e: ExportedEquation, *given: str) -> str:
    """A scatter of windows, with an optional reduction."""
    x, indices, updates = given
    numbers, g = e.params["dimension_numbers"], e.g
    update_type, window_axes = e.type(2), numbers.update_window_dims
    batching_pairs = zip(
        numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
    )
    gone, batching_axes = numbers.inserted_window_dims, dict(batching_pairs)
    window_dims_ = [i for i in range(len(e.shape)) if i not in gone and i not in batching_axes]
    sizes: list[Size] = [1] * len(e.shape)
    for axis, at in zip(window_dims_, window_axes, strict=True):
        sizes[axis] = update_type.shape[at]
    indexing = AxisIndexing(e, sizes, gone, numbers.scatter_dims_to_operand_dims, batching_axes)
    positions, inside = indexing.written(indices)
    axes = dict(zip(window_dims_, window_axes, strict=True))
    batch = [i for i in range(update_type.rank) if i not in window_axes]
    reordered = _transpose_to(
        g, updates, [*batch, *(axes[i] for i in (*indexing.windows, *indexing.full_axes))]
    )
    x = _transpose_to(g, x, indexing.order)
    if _mode(e) != FILL or not indexing.started:
        result = _scatter_nd(e, x, positions, reordered, reduction)
    elif neutral is None:
        result = _scatter_padded(
            e, indexing, x, indexing.beyond(positions, inside), reordered, reduction
        )
    else:
        reordered = indexing.masked(reordered, inside, e.scalar(neutral))
        result = _scatter_nd(e, x, positions, reordered, reduction)
    return _transpose_to(g, result, sorted(range(len(e.shape)), key=indexing.order.__getitem__))


def _scatter_padded(
    e: ExportedEquation, places: AxisIndexing, x: str, where: str, updates: str, reduction: str
) -> str:
    """Scatter into an array with padding for the windows that are out of bounds."""
    g, shape = e.g, [e.shape[axis] for axis in places.order]
    padding: list[Size] = [places.shift, *[0] * (len(shape) - 1)]
    no_padding: list[Size] = [0] * len(shape)
    extended = pad_edges(g, x, no_padding, padding, e.scalar(0), e.dtype)
    result = _scatter_nd(e, extended, where, updates, reduction)
    return g.op("Slice", result, g.integers(0), g.size(shape[0]), g.integers(0))


def _scatter_nd(e: ExportedEquation, x: str, where: str, updates: str, reduction: str) -> str:
    if reduction == "none":
        return e.g.op("ScatterND", x, where, updates)
    return e.g.op("ScatterND", x, where, updates, reduction=reduction)


def _transpose_to(g: OnnxGraph, x: str, order: Sequence[int]) -> str:
    return x if list(order) == sorted(order) else g.op("Transpose", x, perm=list(order))


def _mode(e: ExportedEquation) -> str:
    return e.params["mode"].name


def _missing(e: ExportedEquation) -> object:
    """Return JAX's fill value for elements out of bounds."""
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
