"""Primitives that give the same numbers another shape, take parts, or fill one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.dims import Shape, Size
from braces.dtypes import INT64, DType, TensorType
from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.exchange.onnx.writer.graph.jaxpr_equation import Equation, Rule
from braces.exchange.onnx.writer.graph.loop_if import backwards


def reshaped(g: Graph, x: str, shape: Sequence[Size]) -> str:
    """The same numbers, in order, in another shape."""
    return g.op("Reshape", x, g.shape(shape), allowzero=1)


def expanded(g: Graph, x: str, shape: Sequence[Size], dtype: DType) -> str:
    """Copies along axes of size 1, and along new ones in front.

    ONNX Runtime keeps one where there are to be none, so that is cut off.
    """
    found = widths.same(g, "Expand", x, dtype=dtype, beside=(g.shape(shape),))
    axes = [i for i, size in enumerate(shape) if not isinstance(size, int) or not size]
    if not axes:
        return found
    starts, ends = g.integers(*[0] * len(axes)), g.shape([shape[i] for i in axes])
    return g.op("Slice", found, starts, ends, g.integers(*axes))


def unsqueezed(g: Graph, x: str, axes: Sequence[int]) -> str:
    """New axes of size 1."""
    return g.op("Unsqueeze", x, g.integers(*axes)) if axes else x


def filled(g: Graph, number: float, type_: TensorType) -> str:
    """One number, as often as a shape says."""
    scalar = g.constant(number, type_.dtype)
    return expanded(g, scalar, type_.shape, type_.dtype) if type_.shape else scalar


def broadcast(e: Equation, x: str) -> str:
    """Copies along new axes, and along axes of size 1."""
    kept = e.params["broadcast_dimensions"]
    apart = unsqueezed(e.g, x, [i for i in range(len(e.shape)) if i not in kept])
    place = {axis: size for axis, size in zip(kept, e.type().shape, strict=True)}
    if tuple(place.get(i, 1) for i in range(len(e.shape))) == e.shape:
        return apart
    return expanded(e.g, apart, e.stored, e.dtype)


def reshape(e: Equation, x: str) -> str:
    """The same numbers in another shape, in order or in that of other axes."""
    if e.params["dimensions"] is not None:
        x = e.g.op("Transpose", x, perm=list(e.params["dimensions"]))
        return reshaped(e.g, x, e.shape)
    return x if e.type().shape == e.shape else reshaped(e.g, x, e.shape)


def squeeze(e: Equation, x: str) -> str:
    """Without some axes of size 1."""
    axes = e.params["dimensions"]
    return e.g.op("Squeeze", x, e.g.integers(*axes)) if axes else x


def transpose(e: Equation, x: str) -> str:
    """The axes in another order."""
    return e.g.op("Transpose", x, perm=list(e.params["permutation"]))


def concatenate(e: Equation, *xs: str) -> str:
    """One after the other along an axis."""
    return e.g.op("Concat", *xs, axis=e.params["dimension"])


def stack(e: Equation, *xs: str) -> str:
    """One beside the other along a new axis."""
    axis = e.params["axis"]
    return e.g.op("Concat", *(unsqueezed(e.g, x, [axis]) for x in xs), axis=axis)


def split(e: Equation, x: str) -> list[str]:
    """Cut into parts of these sizes."""
    sizes = e.sizes(e.params["sizes"])
    at = e.g.shape(sizes)
    return e.g.several("Split", x, at, count=len(sizes), axis=e.params["axis"])


def unstack(e: Equation, x: str) -> list[str]:
    """Each of the parts along an axis, which is gone then."""
    places = (e.g.constant(at, INT64) for at in range(len(e.eqn.outvars)))
    return [e.g.op("Gather", x, place, axis=e.params["axis"]) for place in places]


def reverse(e: Equation, x: str) -> str:
    """The other way round along some axes."""
    axes = e.params["dimensions"]
    return backwards(e.g, x, axes) if axes else x


def cut(e: Equation, x: str) -> str:
    """A part of an array, by bounds that are known."""
    starts, ends = (e.sizes(e.params[name]) for name in ("start_indices", "limit_indices"))
    return part(e.g, x, e.type().shape, starts, ends, e.params["strides"])


def part(
    g: Graph,
    x: str,
    shape: Shape,
    starts: Sequence[Size],
    ends: Sequence[Size],
    strides: Sequence[int] | None = None,
) -> str:
    """A part of an array; axes that stay whole are not named."""
    steps = strides or (1,) * len(shape)
    axes = [
        i
        for i, size in enumerate(shape)
        if not (starts[i] == 0 and ends[i] == size and steps[i] == 1)
    ]
    if not axes:
        return x
    bounds = (g.shape([some[i] for i in axes]) for some in (starts, ends))
    return g.op("Slice", x, *bounds, g.integers(*axes), g.integers(*(steps[i] for i in axes)))


def iota(e: Equation, *sizes: str) -> str:
    """Counting from 0 along an axis."""
    del sizes
    g = e.g
    axis: int = e.params["dimension"]
    line = counted(g, e.shape[axis])
    others = [i for i in range(len(e.shape)) if i != axis]
    found = unsqueezed(g, widths.moved(g, line, INT64, e.dtype), others)
    return expanded(g, found, e.shape, e.dtype) if others else found


def counted(g: Graph, size: Size) -> str:
    """0, 1, … up to a size."""
    return g.op("Range", g.constant(0, INT64), g.number(size), g.constant(1, INT64))


def tile(e: Equation, x: str) -> str:
    """Copies side by side."""
    times = e.g.shape(e.sizes(e.params["reps"]))
    return widths.same(e.g, "Tile", x, dtype=e.dtype, beside=(times,))


def pad(e: Equation, x: str, filling: str) -> str:
    """More around an array and between its elements; less where that is negative."""
    low, high, between = zip(*e.params["padding_config"], strict=True) or ((), (), ())
    shape = list(e.type().shape)
    for axis, gap in enumerate(map(int, between)):
        if gap:
            x = spread(e.g, x, shape, axis, gap + 1, filling, e.dtype)
            shape[axis] = (shape[axis] - 1) * (gap + 1) + 1
    return around(e.g, x, e.sizes(low), e.sizes(high), filling, e.dtype)


def around(
    g: Graph, x: str, low: Sequence[Size], high: Sequence[Size], filling: str, dtype: DType
) -> str:
    """So many elements more before and after each axis; fewer where they are negative."""
    if all(size == 0 for size in (*low, *high)):
        return x
    return widths.padded(g, x, g.shape((*low, *high)), filling, dtype)


def spread(
    g: Graph, x: str, shape: Sequence[Size], axis: int, step: int, filling: str, dtype: DType
) -> str:
    """An array whose elements lie `step` apart along an axis, with a filling between them."""
    rank = len(shape)
    apart = unsqueezed(g, x, [axis + 1])
    gaps = [0] * (2 * rank + 2)
    gaps[rank + 1 + axis + 1] = step - 1
    wide = widths.padded(g, apart, g.integers(*gaps), filling, dtype)
    long = [n * step if i == axis else n for i, n in enumerate(shape)]
    end = g.integers(-(step - 1))
    joined = reshaped(g, wide, long)
    return g.op("Slice", joined, g.integers(0), end, g.integers(axis))


def empty(e: Equation, *sizes: str) -> str:
    """An array of which nothing is read before it is written."""
    del sizes
    return filled(e.g, 0, e.result())


def first_places(e: Equation, starts: Sequence[str], sizes: Sequence[Size]) -> list[str | None]:
    """The first place of a part along each axis, as a scalar; `None` where the axis is whole.

    A part that would reach beyond the array is moved into it, as JAX does.
    """
    g, found = e.g, list[str | None]()
    for start, have, size in zip(starts, e.type().shape, sizes, strict=True):
        wide = widths.moved(g, start, e.type(-len(starts)).dtype, INT64)
        low = g.op("Max", wide, g.constant(0, INT64))
        found.append(None if have == size else g.op("Min", low, g.number(have - size)))
    return found


def dynamic_cut(e: Equation, x: str, *starts: str) -> str:
    """A part of an array that begins where values say.

    It is gathered: the sizes of the result follow from the indices, and not from values.
    """
    sizes = e.sizes(e.params["slice_sizes"])
    for axis, first in enumerate(first_places(e, starts, sizes)):
        if first is not None:
            indices = e.g.op("Add", counted(e.g, sizes[axis]), first)
            x = e.g.op("Gather", x, indices, axis=axis)
    return x


def dynamic_put(e: Equation, x: str, update: str, *starts: str) -> str:
    """An array with a part, that begins where values say, replaced.

    The update is gathered to the places of the array, and chosen inside of the part:

        offset = place - first;  out = where(0 <= offset < size, update[clip(offset)], x)
    """
    g, new, inside = e.g, e.type(1), None
    for axis, first in enumerate(first_places(e, starts, new.shape)):
        if first is None:
            continue
        size, rank = new.shape[axis], len(new.shape)
        if size == 0:
            return x
        offset = g.op("Sub", counted(g, e.shape[axis]), first)
        zero, last = g.constant(0, INT64), g.number(size - 1)
        here = g.op(
            "And", g.op("GreaterOrEqual", offset, zero), g.op("LessOrEqual", offset, last)
        )
        here = unsqueezed(g, here, range(1, rank - axis))
        inside = here if inside is None else g.op("And", inside, here)
        if not isinstance(size, int):  # it may be 0, and there is always something to gather
            high = [int(other == axis) for other in range(rank)]
            update = around(g, update, [0] * rank, high, e.scalar(0), e.dtype)
        at = g.op("Max", g.op("Min", offset, last), zero)
        update = g.op("Gather", update, at, axis=axis)
    return update if inside is None else widths.chosen(g, inside, update, x, e.dtype)


SHAPES: Mapping[str, Rule] = {
    "broadcast_in_dim": broadcast,
    "concatenate": concatenate,
    "dynamic_slice": dynamic_cut,
    "dynamic_update_slice": dynamic_put,
    "empty2": empty,
    "iota": iota,
    "pad": pad,
    "reshape": reshape,
    "rev": reverse,
    "slice": cut,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "tile": tile,
    "transpose": transpose,
    "unstack": unstack,
}
