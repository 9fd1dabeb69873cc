"""Export of shape operations: reshapes, slices, padding and fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.exchange.onnx.writer.graph.loop_if import reverse_axes
from braces.extend.types import INT64, DType, Shape, Size, TensorType


def reshape_to(g: OnnxGraph, x: str, shape: Sequence[Size]) -> str:
    """Reshape."""
    return g.op("Reshape", x, g.shape(shape), allowzero=1)


def expand_to(g: OnnxGraph, x: str, shape: Sequence[Size], dtype: DType) -> str:
    """Broadcast along axes of size 1 and along new leading axes.

    ONNX Runtime keeps one element where the target size is 0, so a slice removes it.
    """
    expanded_ = widths.widened_op(g, "Expand", x, dtype=dtype, beside=(g.shape(shape),))
    axes = [i for i, size in enumerate(shape) if not isinstance(size, int) or not size]
    if not axes:
        return expanded_
    starts, ends = g.integers(*[0] * len(axes)), g.shape([shape[i] for i in axes])
    return g.op("Slice", expanded_, starts, ends, g.integers(*axes))


def add_axes(g: OnnxGraph, x: str, axes: Sequence[int]) -> str:
    """Add axes of size 1."""
    return g.op("Unsqueeze", x, g.integers(*axes)) if axes else x


def fill_type(g: OnnxGraph, number: float, type_: TensorType) -> str:
    """Fill a shape with one number."""
    scalar = g.constant(number, type_.dtype)
    return expand_to(g, scalar, type_.shape, type_.dtype) if type_.shape else scalar


def broadcast(e: ExportedEquation, x: str) -> str:
    """A broadcast along new axes and along axes of size 1."""
    mapped_axes = e.params["broadcast_dimensions"]
    aligned = add_axes(e.g, x, [i for i in range(len(e.shape)) if i not in mapped_axes])
    axis_sizes = {axis: size for axis, size in zip(mapped_axes, e.type().shape, strict=True)}
    if tuple(axis_sizes.get(i, 1) for i in range(len(e.shape))) == e.shape:
        return aligned
    return expand_to(e.g, aligned, e.stored, e.dtype)


def reshape(e: ExportedEquation, x: str) -> str:
    """A reshape, with an optional order of axes."""
    if e.params["dimensions"] is not None:
        x = e.g.op("Transpose", x, perm=list(e.params["dimensions"]))
        return reshape_to(e.g, x, e.shape)
    return x if e.type().shape == e.shape else reshape_to(e.g, x, e.shape)


def squeeze(e: ExportedEquation, x: str) -> str:
    """An array without some axes of size 1."""
    axes = e.params["dimensions"]
    return e.g.op("Squeeze", x, e.g.integers(*axes)) if axes else x


def transpose(e: ExportedEquation, x: str) -> str:
    """A transpose."""
    return e.g.op("Transpose", x, perm=list(e.params["permutation"]))


def concatenate(e: ExportedEquation, *xs: str) -> str:
    """A concatenation."""
    return e.g.op("Concat", *xs, axis=e.params["dimension"])


def stack(e: ExportedEquation, *xs: str) -> str:
    """A stack along a new axis."""
    axis = e.params["axis"]
    return e.g.op("Concat", *(add_axes(e.g, x, [axis]) for x in xs), axis=axis)


def split(e: ExportedEquation, x: str) -> list[str]:
    """A split into parts of given sizes."""
    sizes = e.sizes(e.params["sizes"])
    at = e.g.shape(sizes)
    return e.g.several("Split", x, at, count=len(sizes), axis=e.params["axis"])


def unstack(e: ExportedEquation, x: str) -> list[str]:
    """The slices along an axis, which is removed."""
    indices = (e.g.constant(at, INT64) for at in range(len(e.eqn.outvars)))
    return [e.g.op("Gather", x, place, axis=e.params["axis"]) for place in indices]


def reverse(e: ExportedEquation, x: str) -> str:
    """A reversal along some axes."""
    axes = e.params["dimensions"]
    return reverse_axes(e.g, x, axes) if axes else x


def static_slice(e: ExportedEquation, x: str) -> str:
    """A slice with known bounds."""
    starts, ends = (e.sizes(e.params[name]) for name in ("start_indices", "limit_indices"))
    return slice_array(e.g, x, e.type().shape, starts, ends, e.params["strides"])


def slice_array(
    g: OnnxGraph,
    x: str,
    shape: Shape,
    starts: Sequence[Size],
    ends: Sequence[Size],
    strides: Sequence[int] | None = None,
) -> str:
    """Slice an array; axes that stay whole are left out."""
    steps = strides or (1,) * len(shape)
    axes = [
        i
        for i, size in enumerate(shape)
        if not (starts[i] == 0 and ends[i] == size and steps[i] == 1)
    ]
    if not axes:
        return x
    bounds = (g.shape([bound[i] for i in axes]) for bound in (starts, ends))
    return g.op("Slice", x, *bounds, g.integers(*axes), g.integers(*(steps[i] for i in axes)))


def iota(e: ExportedEquation, *sizes: str) -> str:
    """A range along an axis."""
    del sizes
    g = e.g
    axis: int = e.params["dimension"]
    line = arange_to(g, e.shape[axis])
    others = [i for i in range(len(e.shape)) if i != axis]
    line_values = add_axes(g, widths.cast_value(g, line, INT64, e.dtype), others)
    return expand_to(g, line_values, e.shape, e.dtype) if others else line_values


def arange_to(g: OnnxGraph, size: Size) -> str:
    """Return `arange(size)`."""
    return g.op("Range", g.constant(0, INT64), g.number(size), g.constant(1, INT64))


def tile(e: ExportedEquation, x: str) -> str:
    """A tile."""
    times = e.g.shape(e.sizes(e.params["reps"]))
    return widths.widened_op(e.g, "Tile", x, dtype=e.dtype, beside=(times,))


def pad(e: ExportedEquation, x: str, filling: str) -> str:
    """Padding around an array and between its elements; negative widths crop."""
    low, high, interior = zip(*e.params["padding_config"], strict=True) or ((), (), ())
    shape = list(e.type().shape)
    for axis, gap in enumerate(map(int, interior)):
        if gap:
            x = dilate_axis(e.g, x, shape, axis, gap + 1, filling, e.dtype)
            shape[axis] = (shape[axis] - 1) * (gap + 1) + 1
    return pad_edges(e.g, x, e.sizes(low), e.sizes(high), filling, e.dtype)


def pad_edges(
    g: OnnxGraph, x: str, low: Sequence[Size], high: Sequence[Size], filling: str, dtype: DType
) -> str:
    """Pad each axis before and after; negative widths crop."""
    if all(size == 0 for size in (*low, *high)):
        return x
    return widths.widened_pad(g, x, g.shape((*low, *high)), filling, dtype)


def dilate_axis(
    g: OnnxGraph,
    x: str,
    shape: Sequence[Size],
    axis: int,
    step: int,
    filling: str,
    dtype: DType,
) -> str:
    """Dilate an axis, with a fill value between elements."""
    rank = len(shape)
    with_gap_axis = add_axes(g, x, [axis + 1])
    gaps = [0] * (2 * rank + 2)
    gaps[rank + 1 + axis + 1] = step - 1
    padded_array = widths.widened_pad(g, with_gap_axis, g.integers(*gaps), filling, dtype)
    dilated_shape = [n * step if i == axis else n for i, n in enumerate(shape)]
    end = g.integers(-(step - 1))
    merged = reshape_to(g, padded_array, dilated_shape)
    return g.op("Slice", merged, g.integers(0), end, g.integers(axis))


def empty(e: ExportedEquation, *sizes: str) -> str:
    """An uninitialized array."""
    del sizes
    return fill_type(e.g, 0, e.result())


def slice_starts(
    e: ExportedEquation, starts: Sequence[str], sizes: Sequence[Size]
) -> list[str | None]:
    """Return the start of a slice along each axis as a scalar; `None` for whole axes.

    A start out of bounds is clamped, as in JAX.
    """
    g, starts_ = e.g, list[str | None]()
    for start, axis_size, size in zip(starts, e.type().shape, sizes, strict=True):
        start_index = widths.cast_value(g, start, e.type(-len(starts)).dtype, INT64)
        low = g.op("Max", start_index, g.constant(0, INT64))
        starts_.append(
            None if axis_size == size else g.op("Min", low, g.number(axis_size - size))
        )
    return starts_


def dynamic_slice(e: ExportedEquation, x: str, *starts: str) -> str:
    """A dynamic slice.

    It is a gather: the sizes of the result then depend on the indices, not on values.
    """
    sizes = e.sizes(e.params["slice_sizes"])
    for axis, first in enumerate(slice_starts(e, starts, sizes)):
        if first is not None:
            indices = e.g.op("Add", arange_to(e.g, sizes[axis]), first)
            x = e.g.op("Gather", x, indices, axis=axis)
    return x


def dynamic_update_slice(e: ExportedEquation, x: str, update: str, *starts: str) -> str:
    """A dynamic update of a slice.

    The update is gathered to the positions of the array, and selected inside the slice:

        offset = place - first;  out = where(0 <= offset < size, update[clip(offset)], x)
    """
    g, new, inside = e.g, e.type(1), None
    for axis, first in enumerate(slice_starts(e, starts, new.shape)):
        if first is None:
            continue
        size, rank = new.shape[axis], len(new.shape)
        if size == 0:
            return x
        offset = g.op("Sub", arange_to(g, e.shape[axis]), first)
        zero, last = g.constant(0, INT64), g.number(size - 1)
        in_axis = g.op(
            "And", g.op("GreaterOrEqual", offset, zero), g.op("LessOrEqual", offset, last)
        )
        in_axis = add_axes(g, in_axis, range(1, rank - axis))
        inside = in_axis if inside is None else g.op("And", inside, in_axis)
        if not isinstance(size, int):  # it may be 0, and a gather needs an element
            high = [int(other == axis) for other in range(rank)]
            update = pad_edges(g, update, [0] * rank, high, e.scalar(0), e.dtype)
        at = g.op("Max", g.op("Min", offset, last), zero)
        update = g.op("Gather", update, at, axis=axis)
    return update if inside is None else widths.widened_where(g, inside, update, x, e.dtype)


SHAPES: Mapping[str, Rule] = {
    "broadcast_in_dim": broadcast,
    "concatenate": concatenate,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "empty2": empty,
    "iota": iota,
    "pad": pad,
    "reshape": reshape,
    "rev": reverse,
    "slice": static_slice,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "tile": tile,
    "transpose": transpose,
    "unstack": unstack,
}
