"""Rules of shapes: reshapes, slices, padding and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from braces.errors import ShapeError
from braces.exchange.common.rules.reshape_slice_pad import (
    OPEN_END,
    build_range,
    clip_bound,
    dynamic_slice,
    fill_shape,
    pad_or_crop,
    reshape_checked,
)
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constants import MOST_ELEMENTS, Constant, Value
from braces.exchange.common.values.equal_sizes import unify_concat_sizes
from braces.exchange.onnx.reader.file.dtypes import densify
from braces.exchange.onnx.reader.graph.constant_folding import shape_of
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.graph.run_time_sizes import (
    Part,
    RunTimeSize,
    as_size_or_number,
    sizes_at,
    split_parts,
)
from braces.exchange.onnx.reader.rules.tensor.reductions import axes_of
from braces.exchange.onnx.reader.rules.tensor.run_time_shapes import (
    assert_not_stretched,
    assert_shape,
    broadcast_sizes,
    run_time_range,
    run_time_shape,
)
from braces.extend import dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.layers import pixel_shuffle
from braces.extend.types import FLOAT32, Size


def constant(node: OnnxNode) -> Constant:
    """The constant of a node."""
    tensor_value = node.tensor("value")
    if tensor_value is not None:
        return tensor_value
    for name, dtype in (("int", "int64"), ("float", "float32")):
        for name_ in (f"value_{name}", f"value_{name}s"):
            if name_ in node.attrs:
                return Constant.of(node.attrs[name_], dtype)
    if "sparse_value" in node.attrs:
        return Constant.of(densify(node.attrs["sparse_value"]))
    node.refuse("unsupported strings")


def shape(node: OnnxNode) -> Constant:
    """The shape, or a slice of it."""
    part = slice(node.attr("start", 0), node.attr("end"))
    return Constant.sizes(shape_of(node.value(0))[part])


def size(node: OnnxNode) -> Constant:
    """The number of elements."""
    array = np.empty((), object)
    array[()] = dims.product(shape_of(node.value(0)))
    return Constant.of(array)


def reshape(node: OnnxNode) -> Var:
    """A reshape."""
    x = node.var(0)
    if node.version < 5:
        target: list[Part] = list(node.attr("shape"))
    else:
        target = split_parts(node.names, node.proto.input[1])
    if not node.flag("allowzero"):
        target = [x.shape[i] if n == 0 else n for i, n in enumerate(target)]
    return reshape_checked(x, run_time_shape(node, x, target))


def flatten(node: OnnxNode) -> Var:
    """A matrix: the axes before one, and those from it on."""
    x = node.var(0)
    at = node.attr("axis", 1)
    at += x.ndim if at < 0 else 0
    return ops.reshape(x, (dims.product(x.shape[:at]), dims.product(x.shape[at:])))


def transpose(node: OnnxNode) -> Var:
    """A transpose; by default the axes are reversed."""
    x = node.var(0)
    return (
        ops.transpose(x, axes=tuple(node.attr("perm") or range(x.ndim)[::-1])) if x.ndim else x
    )


def unsqueeze(node: OnnxNode) -> Var:
    """An array with new axes of size 1."""
    x, axes = node.var(0), axes_of(node, 1, 13) or ()
    rank = x.ndim + len(axes)
    return ops.expand_dims(x, axis=sorted(axis % rank for axis in axes)) if axes else x


def at_least_two(size: Size) -> Size:
    """Return a size that each run checks not to be 1, for a squeeze without axes."""
    return sizes.largest(size, 2)


def squeeze(node: OnnxNode) -> Var:
    """An array without axes of size 1.

    A symbolic size of an axis that is given must be 1 at run time. Without axes, no symbolic
    size may be 1.
    """
    x, axes = node.var(0), axes_of(node, 1, 13)
    if axes is None:
        if sizes.symbolic(*x.shape):
            x = assert_shape(x, [n if isinstance(n, int) else at_least_two(n) for n in x.shape])
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    squeezed_axes = {axis % x.ndim for axis in axes}
    if not squeezed_axes:
        return x
    if sizes.symbolic(*(x.shape[axis] for axis in squeezed_axes)):
        x = ops.ensure_shape(x, [1 if i in squeezed_axes else n for i, n in enumerate(x.shape)])
    return ops.squeeze(x, axis=sorted(squeezed_axes))


def concat(node: OnnxNode) -> Var:
    """A concatenation; the sizes of other axes are unified."""
    xs = node.vars()
    axis = node.axis("axis", 1, xs[0].ndim)
    return ops.concat(unify_concat_sizes(xs, axis), axis=axis)


def split(node: OnnxNode) -> tuple[Value, ...]:
    """Split an axis into given sizes, or equal ones of which the last may be smaller.

    Parts of a known value are known.
    """
    shape, output_count = node.shape(), len(node.proto.output)
    axis = node.axis("axis", 0, len(shape))
    part_sizes = node.ints(1, "The sizes") if node.version >= 13 else node.attr("split")
    if part_sizes is None:
        if node.attr("num_outputs", output_count) != output_count:
            node.refuse(f"expected {node.attr('num_outputs')} outputs, got {output_count}")
        part_sizes = _equal_parts(shape[axis], output_count)
    x = node.value(0)
    if isinstance(x, Constant) and x.small and not x.weight and sum(part_sizes) == shape[axis]:
        parts = np.split(x.array, np.cumsum(np.asarray(part_sizes, np.int64))[:-1], axis)
        return tuple(Constant(part, x.dtype) for part in parts)
    return tuple(ops.split(node.var(0), sections=tuple(part_sizes), axis=axis))


def _equal_parts(size: Size, count: int) -> list[Size]:
    if isinstance(size, int):
        part = -(-size // count)
        return [*[part] * (count - 1), size - part * (count - 1)]
    part = dims.divide_exactly(size, count)
    if part is None:
        raise ShapeError(f"cannot split an axis of size {size} into {count} equal parts.")
    return [part] * count


def slice_(node: OnnxNode) -> Var:
    """A slice of some axes; bounds are clipped to their ends."""
    x = node.var(0)
    if node.version < 10:
        starts, ends, axes = (node.attr(name) for name in ("starts", "ends", "axes"))
        steps = None
    else:
        starts, ends = (split_parts(node.names, node.proto.input[at]) for at in (1, 2))
        axes, steps = node.ints(3, "The axes"), node.ints(4, "The steps")
    slice_axes = range(len(starts)) if axes is None else axes
    for axis, start, end, step in zip(
        slice_axes, starts, ends, steps or [1] * len(starts), strict=True
    ):
        x = _slice_axis(node, x, int(axis) % x.ndim, start, end, step)
    return x


def _slice_axis(node: OnnxNode, x: Var, axis: int, start: Part, end: Part, step: Size) -> Var:
    if not isinstance(step, int):
        node.refuse("expected an integer step, got a symbolic size")
    if isinstance(start, RunTimeSize) or isinstance(end, RunTimeSize):
        return dynamic_slice(x, axis, as_size_or_number(start), as_size_or_number(end), step)
    if isinstance(start, int) and isinstance(end, int):
        first, last = (None if abs(n) >= OPEN_END else n for n in (start, end))
        if step == 1 and not first and last in (None, x.shape[axis]):
            return x
        return x[(slice(None),) * axis + (slice(first, last, step),)]
    if step != 1:
        node.refuse("unsupported step other than 1 with symbolic bounds")
    low, high = (clip_bound(x.shape[axis], bound) for bound in (start, end))
    if low == 0 and high == x.shape[axis]:  # a full slice keeps the size
        return x
    return emit("window", x, start=low, size=sizes.minus(high, low), axis=axis)


def expand(node: OnnxNode) -> Var:
    """A broadcast along axes of size 1 and along new ones."""
    x, target = node.var(0), split_parts(node.names, node.proto.input[1])
    x = assert_not_stretched(x, target)
    return ops.broadcast_to(x, broadcast_sizes(node, x.shape, target))


def tile(node: OnnxNode) -> Var:
    """A tile along each axis."""
    return ops.tile(node.var(0), sizes_at(node, 1) or ())


def constant_of_shape(node: OnnxNode) -> Value:
    """An array filled with one number."""
    fill = node.tensor("value") or Constant.of(np.zeros(1, FLOAT32))
    target, value = sizes_at(node, 0) or [], fill.array.ravel()[0]
    numbers = [n for n in target if isinstance(n, int)]
    if len(numbers) == len(target) and prod(numbers) <= MOST_ELEMENTS:
        return Constant(np.full(numbers, value, fill.dtype), fill.dtype)
    return fill_shape(target, value, fill.dtype)


def range_(node: OnnxNode) -> Var:
    """A range: known, symbolic with step 1, or data-dependent."""
    bounds = [node.maybe_known(at) for at in range(3)]
    if None in bounds:
        return run_time_range(node, [None if b is None else b.items()[0] for b in bounds])
    known_bounds = [bound for bound in bounds if bound is not None]
    return build_range(
        node, [bound.items()[0] for bound in known_bounds], known_bounds[0].dtype
    )


def eye_like(node: OnnxNode) -> Var:
    """Ones on a diagonal."""
    x = node.var(0)
    return ops.eye(*x.shape, k=node.attr("k", 0), dtype=node.dtype_attr("dtype", x.dtype))


def pad(node: OnnxNode) -> Var:
    """Pad the ends of axes; negative widths crop."""
    x, mode = node.var(0), node.attr("mode", "constant")
    if node.version < 11:
        widths, axes = list[Size](node.attr("pads") or ()), None
        fill = node.attr("value", 0.0)
    else:
        widths = sizes_at(node, 1) or list[Size]()
        axes, fill = node.ints(3, "The axes"), _fill(node)
    padded_axes = [int(a) % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    ends = list(zip(widths[: len(padded_axes)], widths[len(padded_axes) :], strict=True))
    return pad_or_crop(x, dict(zip(padded_axes, ends, strict=True)), mode, fill)


def _fill(node: OnnxNode) -> Any:
    """Return the fill value: a number, or a variable if it depends on feeds."""
    if node.has(2) and node.maybe_known(2) is None:
        return node.var(2)
    return node.number(2, "The value", 0)


def depth_to_space(node: OnnxNode) -> Var:
    """Move blocks of channels into the plane."""
    b = node.attr("blocksize")
    x = _whole_blocks(node.var(0), {1: b * b}, "channels")
    if node.attr("mode", "DCR") != "DCR":
        return pixel_shuffle(x, b)
    n, c, h, w = x.shape
    deep = c // (b * b)
    blocks = ops.reshape(x, (n, b, b, deep, h, w))
    return ops.reshape(ops.transpose(blocks, (0, 3, 4, 1, 5, 2)), (n, deep, h * b, w * b))


def space_to_depth(node: OnnxNode) -> Var:
    """Move blocks of the plane into channels, before or after the existing ones."""
    b = node.attr("blocksize")
    x = _whole_blocks(node.var(0), {2: b, 3: b}, "plane")
    n, c, h, w = x.shape
    blocks = ops.reshape(x, (n, c, h // b, b, w // b, b))
    deep = (1, 3, 5) if node.attr("mode", "DCR") != "DCR" else (3, 5, 1)
    return ops.reshape(ops.transpose(blocks, (0, *deep, 2, 4)), (n, c * b * b, h // b, w // b))


def _whole_blocks(x: Var, blocks: Mapping[int, int], what: str) -> Var:
    """Return an array whose axes are multiples of block sizes; checked in the run if unknown.

    Raises:
        ShapeError: If a size is known and not a multiple.
    """
    shape = list(x.shape)
    for axis, block in blocks.items():
        if isinstance(x.shape[axis], int) and dims.divide_exactly(x.shape[axis], block) is None:
            sizes = " by ".join(str(x.shape[at]) for at in blocks)
            raise ShapeError(f"cannot split {what} of size {sizes} into blocks of {block}.")
        shape[axis] = x.shape[axis] // block * block
    return x if tuple(shape) == x.shape else ops.ensure_shape(x, shape)


def triangle(node: OnnxNode) -> Var:
    """The upper or lower triangle of matrices."""
    function: Callable[..., Var] = ops.triu if node.flag("upper", default=True) else ops.tril
    return function(node.var(0), k=node.number(1, "The diagonal", 0))


SHAPES: Mapping[str, Rule] = {
    "Concat": concat,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Pad": pad,
    "Range": range_,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": triangle,
    "Unsqueeze": unsqueeze,
}
