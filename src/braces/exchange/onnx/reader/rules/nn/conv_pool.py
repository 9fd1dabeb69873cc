"""Rules of sliding windows: convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from braces.exchange.common.model.unsupported import FIX_SIZE
from braces.exchange.common.rules.reshape_slice_pad import pad_or_crop
from braces.exchange.common.values.equal_sizes import unify_weight_sizes
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops
from braces.extend.building import Var, as_number, call, emit
from braces.extend.operators import dilated_span
from braces.extend.types import Padding, Shape, Size, divide_exactly, is_float, product

Ints: TypeAlias = "Sequence[int]"


def padding_of(node: OnnxNode, sizes: Sequence[Size], reaches: Ints) -> Padding:
    """Return the padding of both ends of each axis, as our operators take it.

    Args:
        node: The node.
        sizes: The sizes of the spatial axes.
        reaches: The dilated window sizes.
    """
    mode, rank = node.attr("auto_pad", "NOTSET"), len(reaches)
    if mode in ("VALID", "SAME_UPPER"):
        return "valid" if mode == "VALID" else "same"
    if mode in ("NOTSET", ""):
        pads = [int(v) for v in node.attr("pads") or [0] * (2 * rank)]
        return flatten_pads(zip(pads[:rank], pads[rank:], strict=True))
    strides = per_axis(node, "strides", rank)
    return flatten_pads(map(_same_lower, [node] * rank, sizes, reaches, strides))


def _same_lower(node: OnnxNode, size: Size, reach: int, stride: int) -> tuple[int, int]:
    """Return "same" padding with the odd element at the start."""
    if stride == 1:
        total = reach - 1
    elif isinstance(size, int):
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    else:
        node.refuse("unsupported auto_pad along an axis of symbolic size", FIX_SIZE)
    return total - total // 2, total // 2


def conv(node: OnnxNode) -> Var:
    """A convolution over one, two or three axes."""
    return build_convolution(node, node.var(0), node.var(1), node.maybe(2))


def build_convolution(node: OnnxNode, x: Var, w: Var, b: Var | None) -> Var:
    """Build the convolution of a node for these arrays."""
    rank, groups = rank_of(node, x), node.attr("group", 1)
    x = unify_weight_sizes(x, {1: w.shape[1] * groups})
    dilations = per_axis(node, "dilations", rank)
    reaches = list(map(dilated_span, map(int, w.shape[2:]), dilations))
    return call(
        f"conv{rank}d", x, w, b,
        stride=per_axis(node, "strides", rank), padding=padding_of(node, x.shape[2:], reaches),
        dilation=dilations, groups=groups,
    )  # fmt: skip


def deform_conv(node: OnnxNode) -> Var:
    """A deformable convolution over two axes."""
    x, w = node.var(0), node.var(1)
    if rank_of(node, x) != 2:
        node.refuse(f"expected 2 spatial axes, got {x.ndim - 2}")
    return call(
        "deform_conv2d", x, w, node.var(2), node.maybe(3), node.maybe(4),
        stride=per_axis(node, "strides", 2), padding=padding_of(node, x.shape[2:], [1, 1]),
        dilation=per_axis(node, "dilations", 2), groups=node.attr("group", 1),
        offset_groups=node.attr("offset_group", 1),
    )  # fmt: skip


def conv_transpose(node: OnnxNode) -> Var:
    """A transposed convolution over one, two or three axes."""
    x, w, b = node.var(0), node.var(1), node.maybe(2)
    x, rank = unify_weight_sizes(x, {1: w.shape[0]}), rank_of(node, x)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    extra = tuple(node.attr("output_padding") or [0] * rank)
    reaches = list(map(dilated_span, map(int, w.shape[2:]), dilations))
    pads, extra = _crop_and_extend(node, x.shape[2:], reaches, strides, extra)
    return call(
        f"conv_transpose{rank}d", x, w, b,
        stride=strides, padding=pads, output_padding=extra, dilation=dilations,
        groups=node.attr("group", 1),
    )  # fmt: skip


def _crop_and_extend(
    node: OnnxNode,
    sizes: Shape,
    reaches: Ints,
    strides: Sequence[int],
    extra: Sequence[int],
) -> tuple[Padding, tuple[int, ...]]:
    """Return the padding that crops both ends, and the output padding."""
    mode, output_shape = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    if output_shape is None and mode in ("NOTSET", "", "VALID"):
        return padding_of(node, sizes, reaches), tuple(extra)
    if output_shape is None:
        output_shape = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    pads, more = list[tuple[int, int]](), list[int]()
    for n, s, r, e, output_size in zip(
        sizes, strides, reaches, extra, output_shape, strict=True
    ):
        total = (n - 1) * s + r + e - output_size
        if not isinstance(total, int):
            node.refuse("unsupported output_shape with a symbolic size", FIX_SIZE)
        less, other_end = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        pads.append((less, other_end) if mode == "SAME_UPPER" else (other_end, less))
        more.append(e + max(-total, 0))
    return flatten_pads(pads), tuple(more)


def rank_of(node: OnnxNode, x: Var) -> int:
    """Return the number of spatial axes."""
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        node.refuse(f"expected 1 to 3 spatial axes, got {rank}")
    return rank


def per_axis(node: OnnxNode, name: str, rank: int) -> tuple[int, ...]:
    """Return an attribute with a number for each axis, 1 by default."""
    return tuple(node.attr(name) or [1] * rank)


def flatten_pads(pads: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Flatten the pairs of axis ends."""
    return tuple(n for ends in pads for n in ends)


def pool_attributes(node: OnnxNode, x: Var) -> dict[str, Any]:
    """Return the attributes that all pools have."""
    rank, window = rank_of(node, x), tuple(node.attr("kernel_shape"))
    dilations = per_axis(node, "dilations", rank)
    return {
        "window": window,
        "stride": per_axis(node, "strides", rank),
        "padding": padding_of(node, x.shape[2:], list(map(dilated_span, window, dilations))),
        "dilation": dilations,
        "ceil_mode": node.flag("ceil_mode"),
    }


def max_pool(node: OnnxNode) -> Any:
    """Max pooling, with optional indices."""
    x = node.var(0)
    rank, attrs = rank_of(node, x), pool_attributes(node, x)
    if not node.wants(1):
        return call(f"max_pool{rank}d", x, **attrs)
    out, at = call(f"max_pool_with_indices{rank}d", x, **attrs)
    return out, _global_indices(x, at, columns_first=node.flag("storage_order"))


def _global_indices(x: Var, at: Var, *, columns_first: bool) -> Var:
    """Convert indices in planes to indices in the whole array, row- or column-major."""
    planes, space = product(x.shape[:2]), x.shape[2:]
    if columns_first:
        at, remaining = ops.zeros_like(at), at
        for axis in reversed(range(len(space))):
            index = ops.remainder(remaining, number_of(space[axis]))
            remaining = ops.floor_divide(remaining, number_of(space[axis]))
            at = at + index * number_of(product(space[:axis]))
    first = emit("arange", stop=planes) * number_of(product(space))
    return at + ops.reshape(first, (*x.shape[:2], *[1] * len(space)))


def number_of(size: Size) -> Var:
    """Return a size as an int64 scalar."""
    return ops.size(size, dtype="int64")


def avg_pool(node: OnnxNode) -> Var:
    """Average pooling."""
    x = node.var(0)
    include_padding = node.flag("count_include_pad")
    name = f"avg_pool{rank_of(node, x)}d"
    return call(name, x, count_include_pad=include_padding, **pool_attributes(node, x))


def lp_pool(node: OnnxNode) -> Var:
    """Lp pooling."""
    x = node.var(0)
    return call(
        f"lp_pool{rank_of(node, x)}d", x, p=node.attr("p", 2), **pool_attributes(node, x)
    )


def over_all(node: OnnxNode) -> Var:
    """The norm of the whole plane."""
    x = node.var(0)
    p = float(node.attr("p", 2))
    total = ops.sum(ops.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True)
    root = ops.where(total == 0, 1.0, total) ** (1 / p)
    return ops.where(total == 0, 0.0, root)


def over_plane(function: Callable[..., Var]) -> Rule:
    """Return the rule of a global pool."""

    def rule(node: OnnxNode) -> Var:
        x = node.var(0)
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return rule


def max_unpool(node: OnnxNode) -> Var:
    """Max unpooling; the indices count in the whole array."""
    x, at = node.var(0), node.var(1)
    rank, window = rank_of(node, x), list(node.attr("kernel_shape"))
    pads, strides = node.attr("pads") or [0] * (2 * rank), per_axis(node, "strides", rank)
    space = [
        (n - 1) * s + k - low - high
        for n, s, k, low, high in zip(
            x.shape[2:], strides, window, pads[:rank], pads[rank:], strict=True
        )
    ]
    plane_indices = ops.remainder(at, number_of(product(space)))
    unpooled = call(f"max_unpool{rank}d", x, plane_indices, shape=(*x.shape[:2], *space))
    output_shape = node.ints(2, "The shape")
    if output_shape is None:
        return unpooled
    more = [(0, want - n) for want, n in zip(output_shape[2:], space, strict=True)]
    return pad_or_crop(unpooled, dict(enumerate(more, 2)), "constant", 0)


def col2im(node: OnnxNode) -> Var:
    """Add columns back to the windows of an array."""
    x = node.var(0)
    image, window = node.ints(1, "The shape") or [], node.ints(2, "The window") or []
    window_size, rank = math.prod(map(as_number, window)), len(window)
    channels = divide_exactly(x.shape[1], window_size)
    if channels is None:
        node.refuse(
            f"axis size {x.shape[1]} is not a multiple of the window size {window_size}"
        )
    floats = x if is_float(x.dtype) else ops.cast(x, "float64")
    return call(
        "col2im", floats, shape=(x.shape[0], channels, *image), window=tuple(window),
        stride=per_axis(node, "strides", rank), dilation=per_axis(node, "dilations", rank),
        padding=padding_of(node, image, [1] * rank),
    )  # fmt: skip


def response_norm(node: OnnxNode) -> Var:
    """Local response norm; an even window reaches one channel further behind than before."""
    x, size = node.var(0), node.attr("size")
    is_even = size % 2 == 0
    out = call(
        "local_response_norm", ops.flip(x, axis=1) if is_even else x, size=size,
        alpha=node.attr("alpha", 1e-4), beta=node.attr("beta", 0.75), k=node.attr("bias", 1.0),
    )  # fmt: skip
    return ops.flip(out, axis=1) if is_even else out


WINDOWS: Mapping[str, Rule] = {
    "AveragePool": avg_pool,
    "Col2Im": col2im,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "DeformConv": deform_conv,
    "GlobalAveragePool": over_plane(ops.mean),
    "GlobalMaxPool": over_plane(ops.max),
    "GlobalLpPool": over_all,
    "LRN": response_norm,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
