"""Rules of shape operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.exchange.common.rules import reshape_slice_pad
from braces.exchange.common.rules.reshape_slice_pad import (
    at_axis,
    dynamic_slice,
    not_empty,
    pad_or_crop,
    permute,
    reshape_checked,
    select,
    slice_axis,
)
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constants import Constant
from braces.exchange.common.values.equal_sizes import unify_concat_sizes
from braces.exchange.paddle.graph.environment import is_list
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.exchange.paddle.rules.tensor.tensor_array import slice_element
from braces.extend import dims, functions as ops, layers
from braces.extend.building import Var
from braces.extend.types import FLOAT32, Dim, Size


def reshape(node: PaddleOp) -> Var:
    """A reshape: 0 keeps a size, -1 infers one."""
    x = node.var("X")
    target = node.sizes("shape", "Shape", "ShapeTensor")
    return reshape_checked(x, [x.shape[i] if n == 0 else n for i, n in enumerate(target)])


def transpose(node: PaddleOp) -> Var:
    """A transpose."""
    return permute(node.var("X"), node.attr("axis"))


def squeeze(node: PaddleOp) -> Var:
    """An array without axes of size 1; a symbolic size must be 1 at run time."""
    x = node.var("X")
    axes = {axis % x.ndim for axis in node.attr("axes") or ()} if x.ndim else set[int]()
    if any(isinstance(x.shape[axis], Dim) for axis in axes):
        shape = [1 if at in axes and isinstance(n, Dim) else n for at, n in enumerate(x.shape)]
        x = ops.ensure_shape(x, shape)
    return reshape_slice_pad.squeeze(x, sorted(axes) or None)


def unsqueeze(node: PaddleOp) -> Var:
    """An array with new axes of size 1, inserted one by one."""
    x = node.var("X")
    for axis in node.sizes("axes", "AxesTensor", "AxesTensorList"):
        x = ops.expand_dims(x, axis=int(str(axis)))
    return x


def flatten_matrix(node: PaddleOp) -> Var:
    """A matrix: the axes before one, and those from it on."""
    x, at = node.var("X"), node.attr("axis", 1)
    return ops.reshape(x, (dims.product(x.shape[:at]), dims.product(x.shape[at:])))


def flatten(node: PaddleOp) -> Var:
    """Merge several axes into one."""
    return reshape_slice_pad.flatten(
        node.var("X"), node.attr("start_axis", 1), node.attr("stop_axis", -1)
    )


def concat(node: PaddleOp) -> Var:
    """A concatenation."""
    xs = node.vars("X")
    axis = int(node.number("axis", "AxisTensor", 0))
    if len(xs) == 1:
        return xs[0]
    return ops.concat(unify_concat_sizes(not_empty(xs), axis % xs[0].ndim), axis=axis)


def split(node: PaddleOp) -> Results:
    """Split an axis into equal parts, or into given sizes."""
    x, axis = node.var("X"), int(node.number("axis", "AxisTensor", 0))
    sections = node.sizes("sections", "", "SectionsTensorList")
    if not sections:
        axis_size, count = x.shape[axis], node.attr("num", 0)
        part = dims.divide_exactly(axis_size, count) if count else None
        if part is None:
            node.refuse(f"cannot split an axis of size {axis_size} into {count} equal parts")
        sections = [part] * count
    if -1 in sections:
        remainder = x.shape[axis] - dims.sum_of([n for n in sections if n != -1])
        sections = [remainder if n == -1 else n for n in sections]
    return {"Out": list(ops.split(x, sections=tuple(sections), axis=axis))}


def stack(node: PaddleOp) -> Var:
    """A stack."""
    return ops.stack(node.vars("X"), axis=node.attr("axis", 0))


def unstack(node: PaddleOp) -> Results:
    """The slices along an axis."""
    slices_ = list(ops.unstack(node.var("X"), axis=node.attr("axis", 0)))
    return {node.main: slices_}


def slice_(node: PaddleOp) -> Var:
    """A slice of some axes, with clipped bounds; some axes are reduced to one element."""
    x = node.var("Input")
    if is_list(x):
        return slice_element(node)
    axes = [axis % x.ndim for axis in node.attr("axes")]
    starts, ends = node.places("starts", "Starts"), node.places("ends", "Ends")
    steps = node.places("strides", "Strides") or [1] * len(axes)
    single = {axis % x.ndim for axis in node.attr("decrease_axis") or ()}
    axis_slices = sorted(zip(axes, starts, ends, steps, strict=True), key=lambda part: -part[0])
    for axis, start, end, step in axis_slices:
        if axis in single:
            x = select(x, axis, start)
        elif isinstance(start, Var) or isinstance(end, Var):
            x = _dynamic_slice(x, axis, start, end, step)
        else:
            x = _static_slice(x, axis, start, end, step)
    return x


def _static_slice(x: Var, axis: int, start: Any, end: Any, step: Any) -> Var:
    if isinstance(step, int) and step < 0 and isinstance(start, int) and isinstance(end, int):
        return x[at_axis(axis, slice(start, _backward_end(x.shape[axis], end), step))]
    return slice_axis(x, axis, start, end, step)


def _backward_end(axis_size: Size, end: int) -> int | None:
    """Return the end of a slice backwards; -1 includes the first element.

    Other ends before the first element are those of the first element.
    """
    if end == -1:
        return None
    before_start = end < 0 and isinstance(axis_size, int) and end + axis_size < 0
    return 0 if before_start else end


def _dynamic_slice(x: Var, axis: int, start: Any, end: Any, step: Any) -> Var:
    """Slice with run-time bounds."""
    return dynamic_slice(x, axis, start, end, step)


def expand(node: PaddleOp) -> Var:
    """A broadcast; -1 keeps a size."""
    x = node.var("X")
    target = node.sizes("shape", "Shape", "expand_shapes_tensor")
    return reshape_slice_pad.expand(x, target)


def expand_as(node: PaddleOp) -> Var:
    """A broadcast to the shape of another array."""
    x = node.var("X")
    for slot in ("Y", "target_tensor"):
        if node.has(slot):
            return ops.broadcast_to(x, node.shape(slot))
    return reshape_slice_pad.expand(x, node.attr("target_shape"))


def tile(node: PaddleOp) -> Var:
    """A tile along each axis."""
    x = node.var("X")
    if node.type == "expand":
        return ops.tile(
            x, tuple(node.sizes("expand_times", "ExpandTimes", "expand_times_tensor"))
        )
    return ops.tile(x, tuple(node.sizes("repeat_times", "RepeatTimes", "repeat_times_tensor")))


def flip(node: PaddleOp) -> Var:
    """Reverse the order along axes."""
    axes = node.attr("axis")
    return reshape_slice_pad.flip(node.var("X"), [axes] if isinstance(axes, int) else axes)


def roll(node: PaddleOp) -> Var:
    """Roll along axes, or the flattened array if there are none."""
    x, axes = node.var("X"), [int(axis) for axis in node.many("axis")]
    shifts = node.sizes("shifts", "ShiftsTensor")
    for axis, shift in zip(axes, shifts, strict=True) if axes else ():
        x = _rolled(x, axis % x.ndim, shift)
    if axes:
        return x
    flat = ops.reshape(x, (dims.product(x.shape),))
    return ops.reshape(_rolled(flat, 0, shifts[0]), x.shape)


def _rolled(x: Var, axis: int, shift: Size) -> Var:
    """Roll along one axis; a symbolic shift is one within the axis."""
    if isinstance(shift, int):
        return reshape_slice_pad.roll(x, [shift], [axis])
    front = sizes.minus(x.shape[axis], shift)
    parts = [slice_axis(x, axis, front), slice_axis(x, axis, 0, front)]
    return ops.concat(parts, axis=axis)


PADS = {"constant": "constant", "edge": "edge", "reflect": "reflect", "replicate": "edge",
        "circular": "wrap"}  # fmt: skip
"""The padding modes of Paddle."""


def pad(node: PaddleOp) -> Var:
    """Pad with a constant."""
    x, widths = node.var("X"), node.attr("paddings")
    ends = {axis: (widths[2 * axis], widths[2 * axis + 1]) for axis in range(x.ndim)}
    return pad_or_crop(x, ends, "constant", node.attr("pad_value", 0.0))


def pad_plane(node: PaddleOp) -> Var:
    """Pad an image: both ends of its rows, then of its columns."""
    x, widths = node.var("X"), node.sizes("paddings", "Paddings")
    first = 2 if node.attr("data_format", "NCHW") == "NCHW" else 1
    ends = {first: (widths[0], widths[1]), first + 1: (widths[2], widths[3])}
    mode, fill = PADS[node.attr("mode", "constant")], node.attr("pad_value", 0.0)
    return pad_or_crop(x, ends, mode, fill, of_whole=True)


def pad_space(node: PaddleOp) -> Var:
    """Pad a volume: both ends of each axis, the last one first."""
    x, widths = node.var("X"), node.sizes("paddings", "Paddings")
    last = x.ndim - 1 if node.attr("data_format", "NCDHW").startswith("NC") else x.ndim - 2
    ends = {last - i: (widths[2 * i], widths[2 * i + 1]) for i in range(len(widths) // 2)}
    mode, fill = PADS[node.attr("mode", "constant")], node.attr("value", 0.0)
    return pad_or_crop(x, ends, mode, fill, of_whole=True)


def pixel_shuffle(node: PaddleOp) -> Var:
    """Move channels into blocks of the plane."""
    return layers.pixel_shuffle(node.var("X"), node.attr("upscale_factor", 1))


def triangle(node: PaddleOp) -> Var:
    """The lower or upper triangle of matrices."""
    function = ops.tril if node.attr("lower", True) else ops.triu
    return function(node.var("X"), k=node.attr("diagonal", 0))


def shape(node: PaddleOp) -> Constant:
    """The shape, which is known at import time."""
    return Constant(Constant.sizes(node.shape("Input")).array, np.dtype("int32"))


def size(node: PaddleOp) -> Constant:
    """The number of elements."""
    return Constant.of(dims.product(node.shape("Input")), "int64")


def meshgrid(node: PaddleOp) -> Results:
    """The coordinates of a grid, an array for each axis."""
    xs = node.vars("X")
    grid_shape = [x.shape[0] if x.ndim else 1 for x in xs]
    coordinates = list[Var]()
    for at, x in enumerate(xs):
        ones = [1] * len(xs)
        column = ops.reshape(x, (*ones[:at], grid_shape[at], *ones[at + 1 :]))
        coordinates.append(ops.broadcast_to(column, tuple(grid_shape)))
    return {"Out": coordinates}


def log_space(node: PaddleOp) -> Var:
    """Numbers whose logarithms are evenly spaced."""
    start, stop, base = (float(node.number("", slot)) for slot in ("Start", "Stop", "Base"))
    count, dtype = int(node.number("", "Num")), node.dtype("dtype", FLOAT32)
    return node.runner.lift(Constant.of(np.logspace(start, stop, count, base=base), dtype))


def empty(node: PaddleOp) -> Var:
    """An array whose numbers are undefined in Paddle: zeros."""
    shape = node.sizes("shape", "ShapeTensor", "ShapeTensorList")
    return reshape_slice_pad.fill_shape(shape, 0, node.dtype("dtype", FLOAT32))


SHAPES: Mapping[str, Rule] = {
    **dict.fromkeys(("reshape", "reshape2"), reshape),
    **dict.fromkeys(("transpose", "transpose2"), transpose),
    **dict.fromkeys(("squeeze", "squeeze2"), squeeze),
    **dict.fromkeys(("unsqueeze", "unsqueeze2"), unsqueeze),
    **dict.fromkeys(("flatten", "flatten2"), flatten_matrix),
    **dict.fromkeys(("slice", "strided_slice"), slice_),
    **dict.fromkeys(("expand", "tile"), tile),
    **dict.fromkeys(("expand_as", "expand_as_v2"), expand_as),
    **dict.fromkeys(("unbind", "unstack"), unstack),
    "concat": concat,
    "empty": empty,
    "expand_v2": expand,
    "flatten_contiguous_range": flatten,
    "flip": flip,
    "logspace": log_space,
    "meshgrid": meshgrid,
    "pad": pad,
    "pad2d": pad_plane,
    "pad3d": pad_space,
    "pixel_shuffle": pixel_shuffle,
    "roll": roll,
    "shape": shape,
    "size": size,
    "split": split,
    "stack": stack,
    "tril_triu": triangle,
}
