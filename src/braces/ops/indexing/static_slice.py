"""Static indexing, e.g. `x[1, :, 2:5]`.

The index is in range for every size, so it cannot fail at run time:

    index := "[" entry ("," entry)* "]"; axes that are left out are kept whole
    entry := INTEGER              one element; the axis goes; negative counts from the end
           | ":"                  the whole axis
           | "new"                a new axis of size 1
           | [start, stop]        a slice as in Python, clipped to the axis; none: the end
           | [start, stop, step]  ... with a step, which may be negative

Symbolic bounds need a `window` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Indices,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.core.attribute_kinds import KINDS, LEADING_AXIS_RULES
from braces.define.decorator import Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, Size, call, never_negative
from braces.dtypes import TensorType
from braces.errors import DTypeError, IndexRangeError, ShapeError
from braces.lazy import jnp, lax
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import AddInto, Backward

Slice: TypeAlias = "tuple[int | None, int | None, int]"
Entry: TypeAlias = "int | str | tuple[int | None, ...]"
Index: TypeAlias = "tuple[Entry, ...]"

WHOLE, NEW = ":", "new"


def _parse_entry(entry: Any) -> Entry:
    if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
        return KINDS["int"](entry)
    if entry in (WHOLE, NEW):
        return entry
    if isinstance(entry, tuple | list) and len(cast("Sequence[Any]", entry)) in (2, 3):
        bounds = tuple(
            None if bound is None else KINDS["int"](bound)
            for bound in cast("Sequence[Any]", entry)
        )
        if len(bounds) == 2 or bounds[2]:
            return bounds[:2] if bounds[2:] == (1,) else bounds
    raise TypeError(f"invalid index entry {entry!r}")


def _parse_index(index: Any) -> Index:
    return (
        tuple(map(_parse_entry, index))
        if isinstance(index, tuple | list)
        else (_parse_entry(index),)
    )


KINDS["Index"] = _parse_index
LEADING_AXIS_RULES["Index"] = lambda index, size, rank: (WHOLE, *index)


# ---- size of a slice -------------------------------------------------------------------------


def slice_length(size: Size, bounds: Slice) -> Size:
    """Return the number of elements of a slice on an axis.

    Example:
        >>> from braces.dims import Dim
        >>> b = Dim.named("b")
        >>> slices = (1, None, 1), (None, -1, 1), (None, 3, 1), (-3, None, 1), (None, None, 2)
        >>> [slice_length(b, one) for one in slices]
        [max(b - 1, 0), max(b - 1, 0), min(b, 3), min(b, 3), floordiv(b + 1, 2)]
    """
    start, stop, step = bounds
    if isinstance(size, int):
        return len(range(*slice(start, stop, step).indices(size)))
    low, high = _ascending(size, bounds)
    if never_negative(size - high):
        room = high - low if never_negative(low) else call("min", high, high - low)
    elif never_negative(low):
        room = call("min", size - low, high - low)
    else:
        room = call("min", size, high) - call("max", low, 0)
    length = call("max", room, 0)
    return length if step in (1, -1) else (length + (abs(step) - 1)) // abs(step)


def _ascending(size: Size, bounds: Slice) -> tuple[Size, Size]:
    """Return the first position and the one after the last, before clipping to the axis."""
    start, stop, step = bounds
    low, high = (start, stop) if step > 0 else (stop, start)
    shift = 0 if step > 0 else 1
    return (
        0 if low is None else _from_front(size, low) + shift,
        size if high is None else _from_front(size, high) + shift,
    )


def _from_front(size: Size, bound: int) -> Size:
    return bound if bound >= 0 else size + bound


# ---- known indices ---------------------------------------------------------------------------


def _as_slice(entry: tuple[int | None, ...]) -> Slice:
    start, stop, step = (*entry, 1)[:3]
    return start, stop, 1 if step is None else step


def indexed_shape(shape: Shape, index: Index) -> Shape:
    """Return the sizes of `x[index]`.

    Raises:
        ShapeError: If the index has more entries than axes.
        IndexRangeError: If an integer is out of range for some size of the axis.
    """
    axes, result = list(enumerate(shape)), list[Size]()
    for entry in index:
        if entry == NEW:
            result.append(1)
            continue
        if not axes:
            raise too_many_entries_error(index, len(shape))
        axis, size = axes.pop(0)
        if isinstance(entry, int):
            check_in_range(entry, axis, size)
        elif entry == WHOLE:
            result.append(size)
        else:
            result.append(slice_length(size, _as_slice(cast("tuple[int | None, ...]", entry))))
    return (*result, *(size for _, size in axes))


def too_many_entries_error(index: Sequence[Any], rank: int) -> ShapeError:
    """Build the error for an index with more entries than axes."""
    count = sum(1 for entry in index if entry is not None and entry != NEW)
    return ShapeError(
        f"too many indices: {count} indices for an array of rank {rank}.",
        fix="Index each axis once; None adds an axis.",
    )


def is_in_range(size: Size, index: int) -> bool:
    """Return whether an index is in range for all values of a size."""
    return never_negative(size - (index + 1 if index >= 0 else -index))


def check_in_range(index: int, axis: int, size: Size) -> None:
    """Check that an integer index is in range.

    Raises:
        IndexRangeError: If the index is out of range for some value of the size.
    """
    if not is_in_range(size, index):
        is_static = isinstance(size, int)
        raise IndexRangeError(
            f"index {index} is out of range on axis {axis}, "
            + (
                f"which has size {size}."
                if is_static
                else f"which may be shorter: its size is {size}."
            ),
            fix="Indices count from 0, or from -1 backwards from the end.",
        )


class StridedBlock:
    """A static index on static sizes: a strided block of the array, and reversed axes.

    Attributes:
        starts, stops, steps: By axis; each step is positive.
        reversed: The axes with negative steps.
        block: The shape of the block.
        result: The shape of the result, without integer axes and with new axes.
    """

    def __init__(self, shape: tuple[int, ...], index: Index) -> None:
        entries = [entry for entry in index if entry != NEW]
        entries += [WHOLE] * (len(shape) - len(entries))
        ranges = [_positions(entry, n) for entry, n in zip(entries, shape, strict=True)]
        self.reversed = tuple(i for i, r in enumerate(ranges) if r.step < 0)
        ranges = [r[::-1] if r.step < 0 else r for r in ranges]
        self.starts = [r.start if len(r) else 0 for r in ranges]
        self.stops = [r[-1] + 1 if len(r) else 0 for r in ranges]
        self.steps = [r.step if len(r) > 1 else 1 for r in ranges]
        self.block = tuple(map(len, ranges))
        self.result = tuple(map(int, cast("tuple[int, ...]", indexed_shape(shape, index))))


def _positions(entry: Entry, size: int) -> range:
    if isinstance(entry, int):
        at = entry % size
        return range(at, at + 1)
    if entry == WHOLE:
        return range(size)
    return range(*slice(*_as_slice(cast("tuple[int | None, ...]", entry))).indices(size))


def is_symbolic(shape: Sequence[Any]) -> bool:
    """Return whether a size is symbolic, as during export (kernel helper)."""
    return not all(isinstance(size, int) for size in shape)


def to_python_index(index: Index) -> tuple[Any, ...]:
    """Convert an index to Python's notation."""
    return tuple(map(_to_python_entry, index))


def _to_python_entry(entry: Entry) -> Any:
    if isinstance(entry, int):
        return entry
    if entry in (WHOLE, NEW):
        return slice(None) if entry == WHOLE else None
    return slice(*_as_slice(cast("tuple[int | None, ...]", entry)))


def getitem_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of getitem: pointwise on axes with the entry `:`."""
    indices, out, mixed = _cut_indices(types, attrs)
    return make_axis_map(types, {"x": (indices,)}, {"out": (out,)}, mixed)


def setitem_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of setitem_add: as `indexed`, with the update."""
    indices, part, mixed = _cut_indices(types, attrs)
    inputs = {"x": (indices,), "update": (part,)}
    return make_axis_map(types, inputs, {"out": (indices,)}, mixed)


def _cut_indices(types: Types, attrs: Attrs) -> tuple[Indices, Indices, list[str]]:
    """Return the axes of array and result, and the axes that are sliced or indexed."""
    remaining, out, mixed = (
        list(numbered_indices(first_rank(types, "x"))),
        list[str | None](),
        list[str](),
    )
    indices = tuple(remaining)
    for entry in cast("Index", attrs["index"]):
        axis = None if entry == NEW else remaining.pop(0)
        if axis is not None and entry != WHOLE:
            mixed.append(axis)
        if not isinstance(entry, int):
            out.append(axis)
    return indices, (*out, *remaining), mixed


@op(
    axes=getitem_axis_map,
    function=False,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[3,4] index=(1,-1)",
        "x=f32[b,4] index=(':',0)",
        "x=f32[b,4] index=((1,None),)",
        "x=f64[b,t] index=((None,-1),(None,None,2))",
        "x=f32[b,3] index=((None,None,-1),(-1,0,-2))",
        "x=f32[b] index=((None,3),'new')",
        "x=f64[b] index=((-3,None),)",
        "x=f32[] index=('new',)",
        "x=f32[0,2] index=(':',1)",
    ),
)
def getitem(x: Tensor, *, index: Index) -> Tensor:
    """A part of an array by a static index: `x[1, :, 2:5]`.

        out[i, j, …] = x[start_0 + i * step_0, start_1 + j * step_1, …]

    Inputs:
        x: any[*shape].

    Attributes:
        index: The entry for each axis; the docstring of the module has the grammar.

    Outputs:
        out: any, the sizes that NumPy's basic indexing gives.

    Raises:
        ShapeError: If the index has more entries than axes.
        IndexRangeError: If an integer is out of range.
    """
    if is_symbolic(x.shape):
        return x[to_python_index(index)]
    region = StridedBlock(tuple(x.shape), index)
    block = lax.slice(x, region.starts, region.stops, region.steps)
    return lax.reshape(
        lax.rev(block, region.reversed) if region.reversed else block, region.result
    )


@getitem.infer
def infer_getitem(context: InferenceContext, x: TensorType, *, index: Index) -> TensorType:
    """Infer the type: the sizes of the slices."""
    del context
    return x.with_shape(indexed_shape(x.shape, index))


@getitem.gradient
def getitem_gradient(g: Backward) -> dict[str, AddInto]:
    """Gradient of getitem: add the cotangent to a part of zeros."""
    index = g.attrs["index"]

    def add_into(total: Var, grad: Var) -> Var:
        return emit("setitem_add", total, grad, index=index)

    return {"x": AddInto(g.out_grad, add_into)}


@op(
    axes=setitem_axis_map,
    adds_to=("x",),
    function=False,
    operations=count_per_element("update"),
    examples=(
        "x=f32[3,4] update=f32[4] index=1",
        "x=f32[b,4] update=f32[b] index=(':',0)",
        "x=f32[5] update=f32[2] index=((1,3),)",
        "x=f64[5,b] update=f64[3,b] index=((None,None,-2),)",
        "x=f32[2] update=f32[1,2] index=('new',)",
        "x=f32[0,2] update=f32[0] index=(':',1)",
    ),
)
def setitem_add(x: Tensor, update: Tensor, *, index: Index) -> Tensor:
    """An update added to a part of an array: the adjoint of `getitem`.

        out = x, but out[index] = x[index] + update

    Inputs:
        x: number[*shape].
        update: The type of `x[index]`.

    Attributes:
        index: As for `getitem`.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: If the update does not have the shape of `x[index]`.
        DTypeError: If the update has a different dtype.
        IndexRangeError: If an integer is out of range.
    """
    if is_symbolic(x.shape):
        return x.at[to_python_index(index)].add(update)
    region = StridedBlock(tuple(x.shape), index)
    block = lax.reshape(update, region.block)
    block = lax.rev(block, region.reversed) if region.reversed else block
    if all(step == 1 for step in region.steps):
        return add_block(x, block, region.starts)
    gaps = zip(region.starts, region.stops, region.steps, x.shape, strict=True)
    widths = [(start, size - stop, step - 1) for start, stop, step, size in gaps]
    return x + lax.pad(block, jnp.zeros((), x.dtype), widths)


def add_block(x: Tensor, block: Tensor, starts: Sequence[int]) -> Tensor:
    """Add a dense block to an array at a position."""
    if x.shape == block.shape:
        return x + block
    stops = [start + size for start, size in zip(starts, block.shape, strict=True)]
    total = lax.slice(x, starts, stops) + block
    return lax.dynamic_update_slice(x, total, [np.int32(start) for start in starts])


@setitem_add.infer
def infer_setitem_add(
    context: InferenceContext, x: TensorType, update: TensorType, *, index: Index
) -> TensorType:
    """Infer the type: the type of `x`."""
    check_update(context, update, x.with_shape(indexed_shape(x.shape, index)))
    return x


def check_update(context: InferenceContext, update: TensorType, wanted: TensorType) -> None:
    """Check the type of an update.

    Raises:
        ShapeError: If the shape differs.
        DTypeError: If the dtype differs.
    """
    problem = f"{context.type}: expected an update of the type {wanted}, got {update}."
    if update.rank != wanted.rank:
        raise ShapeError(problem)
    for got, want in zip(update.shape, wanted.shape, strict=True):
        context.unify(got, want, problem)
    if update.dtype != wanted.dtype:
        raise DTypeError(problem, fix="Use br.cast on it.")


@setitem_add.gradient
def setitem_add_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent, the update its part."""
    grads = {"x": g.out_grad}
    if g.wants("update"):
        grads["update"] = emit("getitem", g.out_grad, index=g.attrs["index"])
    return grads


register_linear(getitem, setitem_add)
