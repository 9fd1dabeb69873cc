"""Rules of operators that depend on strides; they receive the storage of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

from braces.errors import ShapeError
from braces.exchange.common.rules.along_axis import indices_along
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.symbolic_arithmetic import NotConstant
from braces.exchange.torch.graph.storage_aliasing import Storage, StorageLayout
from braces.extend import dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import Size

Sizes = Sequence[Size]


def as_strided(x: Storage, shape: Sizes, strides: Sizes, offset: Size | None = None) -> Var:
    """A strided view of a storage."""
    return _read_layout(x.numbers(), StorageLayout(shape, strides, _start(x, offset)))


def as_strided_scatter(
    x: Storage, source: Var, shape: Sizes, strides: Sizes, offset: Size | None = None
) -> Var:
    """A tensor after a strided write to its storage."""
    numbers, layout = x.numbers(), StorageLayout(shape, strides, _start(x, offset))
    _is_in_bounds(numbers, layout)
    updates = cast_to_dtype(ops.broadcast_to(source, shape), numbers.dtype)
    return _read_layout(emit("scatter_nd", numbers, updates, _storage_indices(layout)), x.own)


def resize(x: Storage, shape: Sizes) -> Var:
    """A tensor with another shape over the same storage; new elements are zero.

    torch leaves their values open, as in `empty`.
    """
    numbers, layout = x.numbers(), x.made or StorageLayout(shape, _dense_strides(shape))
    required_size = sizes.plus(x.own.offset, dims.product(shape))
    missing_size = sizes.largest(sizes.minus(required_size, numbers.shape[0]), 0)
    if missing_size != 0:
        numbers = ops.pad(numbers, [(0, missing_size)])
    return _read_layout(numbers, StorageLayout(shape, layout.strides, x.own.offset))


def sym_stride(x: Storage, axis: int | None = None) -> Size | list[Size]:
    """The stride of an axis, or of all."""
    return list(x.own.strides) if axis is None else x.own.strides[axis]


def sym_storage_offset(x: Storage) -> Size:
    """The storage offset."""
    return x.own.offset


def sym_is_contiguous(x: Storage, form: Any = None) -> bool:
    """Return whether the layout is contiguous, or contiguous in channels-last order."""
    axes = list(range(len(x.own.shape)))
    if "channels_last" in str(form):
        axes = [0, *axes[2:], 1]
    dense_strides = _dense_strides([x.own.shape[axis] for axis in axes])
    return all(
        x.own.shape[axis] == 1 or sizes.same(x.own.strides[axis], stride)
        for axis, stride in zip(axes, dense_strides, strict=True)
    )


# ---- strided access --------------------------------------------------------------------------


def _start(x: Storage, offset: Size | None) -> Size:
    return x.own.offset if offset is None else offset


def _dense_strides(shape: Sizes) -> list[Size]:
    """Return the strides of a contiguous tensor."""
    return [dims.product(shape[axis + 1 :]) for axis in range(len(shape))]


def _read_layout(numbers: Var, layout: StorageLayout) -> Var:
    """Return the numbers at a layout: a window if it is dense, else a gather."""
    order = layout.dense()
    if not _is_in_bounds(numbers, layout) or order is None:
        return ops.take(numbers, _storage_indices(layout), axis=0)
    count = dims.product(layout.shape)
    if count != numbers.shape[0]:
        numbers = emit("window", numbers, start=layout.offset, size=count, axis=0)
    in_memory_order = ops.reshape(numbers, [layout.shape[axis] for axis in order])
    return ops.transpose(in_memory_order, axes=tuple(map(order.index, range(len(order)))))


def _is_in_bounds(numbers: Var, layout: StorageLayout) -> bool:
    """Return whether a layout is provably in bounds; if not, a run checks it.

    Raises:
        ShapeError: If the layout is provably out of bounds.
    """
    if 0 in layout.shape:
        return True
    extents = (
        sizes.times(sizes.minus(size, 1), stride)
        for size, stride in zip(layout.shape, layout.strides, strict=True)
    )
    try:
        in_bounds = sizes.below(reduce(sizes.plus, extents, layout.offset), numbers.shape[0])
    except NotConstant:
        return False
    if not in_bounds:
        raise ShapeError(
            f"view of shape {list(layout.shape)}, strides {list(layout.strides)} and offset "
            f"{layout.offset} is out of range for storage of size {numbers.shape[0]}."
        )
    return True


def _storage_indices(layout: StorageLayout) -> Var:
    """Return the storage index of each element."""
    far = [
        indices_along(size, axis, len(layout.shape)) * number_of(layout.strides[axis])
        for axis, size in enumerate(layout.shape)
    ]
    return reduce(add, far, number_of(layout.offset))


MEMORY: Mapping[str, Callable[..., Any]] = {
    "as_strided": as_strided,
    "as_strided_copy": as_strided,
    "as_strided_scatter": as_strided_scatter,
    "resize": resize,
    "resize_": resize,
    "sym_is_contiguous": sym_is_contiguous,
    "sym_storage_offset": sym_storage_offset,
    "sym_stride": sym_stride,
}
"""Operators that receive a storage as the first argument."""
