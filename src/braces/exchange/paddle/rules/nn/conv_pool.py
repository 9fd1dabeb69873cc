"""Rules of sliding windows, and of resizing and sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.resize import resize_axes, scale_size
from braces.exchange.common.rules.windows import adaptive, adaptive_maxima, checked_numbers
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import dims, functions as ops
from braces.extend.building import Var, call
from braces.extend.types import INT32, INT64, Padding, Size

Margins = Callable[[PaddleOp, Var, Var, Sequence[int]], "dict[str, Any]"]
"""Returns the attributes of the ends of the axes of a convolution."""


def channels_last(node: PaddleOp, name: str = "data_format") -> bool:
    """Return whether channels are the last axis."""
    return str(node.attr(name, "NCHW")).endswith("C")


def apply_channels_first(
    node: PaddleOp, x: Var, rule: Callable[[Var], Var], name: str = "data_format"
) -> Var:
    """Apply a rule for channels-first arrays."""
    if not channels_last(node, name):
        return rule(x)
    return ops.moveaxis(rule(ops.moveaxis(x, -1, 1)), 1, -1)


def padding_of(node: PaddleOp, rank: int) -> Padding:
    """Return the padding of both ends of each axis, as our operators take it."""
    algorithm = node.attr("padding_algorithm", "EXPLICIT")
    if algorithm in ("SAME", "VALID"):
        return "same" if algorithm == "SAME" else "valid"
    paddings = [int(n) for n in node.attr("paddings") or [0] * rank]
    if len(paddings) == 2 * rank:
        return tuple(paddings)
    return tuple(n for n in paddings for _ in range(2))


def conv(rank: int) -> Rule:
    """Return the rule of a convolution."""
    return lambda node: _convolve(node, rank, f"conv{rank}d", _margins)


def conv_transpose(rank: int) -> Rule:
    """Return the rule of a transposed convolution."""

    def rule(node: PaddleOp) -> Var:
        return _convolve(node, rank, f"conv_transpose{rank}d", _transposed_margins)

    return rule


def _convolve(node: PaddleOp, rank: int, op_type: str, margins: Margins) -> Var:
    w = node.var("Filter")

    def convolve(x: Var) -> Var:
        dilation = tuple(node.attr("dilations") or [1] * rank)
        dilation = (1,) * rank if _is_same(node) else dilation
        return call(
            op_type, x, w, node.maybe("Bias"), stride=tuple(node.attr("strides")),
            dilation=dilation, groups=node.attr("groups", 1) or 1,
            **margins(node, x, w, dilation),
        )  # fmt: skip

    return apply_channels_first(node, node.var("Input"), convolve)


def _is_same(node: PaddleOp) -> bool:
    """Return whether the padding is "SAME", which ignores dilations."""
    return node.attr("padding_algorithm", "EXPLICIT") == "SAME"


def _margins(node: PaddleOp, x: Var, w: Var, dilation: Sequence[int]) -> dict[str, Any]:
    return {"padding": padding_of(node, x.ndim - 2)}


def _transposed_margins(
    node: PaddleOp, x: Var, w: Var, dilation: Sequence[int]
) -> dict[str, Any]:
    """Return the padding, and the extra elements of an output size."""
    rank = x.ndim - 2
    wanted = [int(str(n)) for n in node.sizes("output_size", "OutputSizeTensor")]
    more = [int(n) for n in node.attr("output_padding") or [0] * rank]
    padding = padding_of(node, rank)
    if not wanted and not _is_same(node):
        return {"padding": padding, "output_padding": tuple(more)}
    strides = [int(n) for n in node.attr("strides")]
    space = [_number(node, n) for n in x.shape[2:]]
    windows = [_number(node, n) for n in w.shape[2:]]
    if _is_same(node):
        padding = _same_padding(space, windows, strides)
    ends = [0] * (2 * rank) if isinstance(padding, str) else list(padding)
    for axis, size in enumerate(wanted):
        span = (windows[axis] - 1) * dilation[axis] + 1
        less = ends[2 * axis] + ends[2 * axis + 1]
        more[axis] = size - ((space[axis] - 1) * strides[axis] - less + span)
    return {"padding": tuple(ends), "output_padding": tuple(more)}


def _same_padding(
    space: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> tuple[int, ...]:
    """Return the padding with which a convolution divides sizes by its strides."""
    ends = list[int]()
    for size, window, stride in zip(space, windows, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        ends += [total // 2, total - total // 2]
    return tuple(ends)


def pool(rank: int) -> Rule:
    """Return the rule of a max or average pool."""

    def rule(node: PaddleOp) -> Var:
        largest = node.attr("pooling_type", "max") == "max"
        return apply_channels_first(
            node, node.var("X"), partial(_build_pool, node, rank, largest)
        )

    return rule


def _build_pool(node: PaddleOp, rank: int, largest: bool, x: Var) -> Var:
    window = tuple(int(n) for n in node.attr("ksize") or ())
    is_adaptive = bool(node.attr("adaptive", False))
    if node.attr("global_pooling", False) or (is_adaptive and set(window) == {1}):
        return _global_max(x)[0] if largest else _global_mean(x)
    if is_adaptive:
        return _adaptive_max(x, window)[0] if largest else adaptive("mean", rank)(x, window)
    attrs: dict[str, Any] = {
        "window": window,
        "stride": tuple(node.attr("strides") or [1] * rank),
        "padding": padding_of(node, rank),
        "ceil_mode": bool(node.attr("ceil_mode", False)),
    }
    if largest:
        return call(f"max_pool{rank}d", x, **attrs)
    include_padding = not node.attr("exclusive", True)
    return call(f"avg_pool{rank}d", x, count_include_pad=include_padding, **attrs)


def _global_mean(x: Var) -> Var:
    return ops.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _global_max(x: Var) -> tuple[Var, Var]:
    """Return the maximum of the axes of space, of which the first counts, and its index."""
    flat = ops.reshape(x, (*x.shape[:2], dims.product(x.shape[2:])))
    at = cast_to_dtype(ops.argmax(flat, axis=-1, keepdims=True), INT64)
    shape = (*x.shape[:2], *[1] * (x.ndim - 2))
    return ops.reshape(ops.take_along_axis(flat, at, axis=-1), shape), ops.reshape(at, shape)


def _adaptive_max(x: Var, counts: Sequence[int]) -> tuple[Var, Var]:
    return adaptive_maxima(x, checked_numbers(x.shape[2:], "adaptive pooling"), list(counts))


def pool_with_index(rank: int) -> Rule:
    """Return the rule of max pooling with indices in the plane or volume."""

    def rule(node: PaddleOp) -> Results:
        x, window = node.var("X"), tuple(int(n) for n in node.attr("ksize"))
        if node.attr("global_pooling", False):
            out, at = _global_max(x)
        elif node.attr("adaptive", False):
            out, at = _adaptive_max(x, window)
        else:
            out, at = call(
                f"max_pool_with_indices{rank}d", x, window=window,
                stride=tuple(node.attr("strides")), padding=padding_of(node, rank),
                ceil_mode=bool(node.attr("ceil_mode", False)),
            )  # fmt: skip
        return {"Out": out, "Mask": cast_to_dtype(at, INT32)}

    return rule


def _number(node: PaddleOp, size: Size) -> int:
    if not isinstance(size, int):
        node.refuse(f"unsupported symbolic size {size} of a spatial axis")
    return size


# ---- images ----------------------------------------------------------------------------------

SIZES = ("out_d", "out_h", "out_w")


def resize(mode: str) -> Rule:
    """Return the rule of a resize of all axes of space."""

    def rule(node: PaddleOp) -> Var:
        return apply_channels_first(
            node,
            node.var("X"),
            lambda x: _build_resize(node, mode, x.ndim - 2, x),
            "data_layout",
        )

    return rule


def _build_resize(node: PaddleOp, mode: str, rank: int, x: Var) -> Var:
    axes, factors = list(range(2, 2 + rank)), _factors(node, rank)
    has_tensor = node.has("SizeTensor") or node.has("OutSize")
    if has_tensor:
        target_sizes, factors = node.sizes("", "OutSize", "SizeTensor"), None
    elif factors is not None:
        target_sizes = [
            scale_size(node, x.shape[a], f) for a, f in zip(axes, factors, strict=True)
        ]
    else:
        target_sizes = [node.attr(name) for name in SIZES[-rank:]]
    corners = bool(node.attr("align_corners", True))
    return resize_axes(
        x, axes, target_sizes, None if corners else factors, **_options(node, mode, corners)
    )


def _factors(node: PaddleOp, rank: int) -> list[float] | None:
    """Return the positive scale factors, if there are any; a single one is for all axes."""
    known = node.known_value("Scale") if node.has("Scale") else None
    if node.has("Scale") and known is None:
        node.refuse("expected a constant as `Scale`", "Export the model with sizes.")
    factors = known.items() if known is not None else node.many("scale")
    if not factors or min(factors) <= 0:
        return None
    return [float(f) for f in (factors * rank if len(factors) == 1 else factors)]


def _options(node: PaddleOp, mode: str, corners: bool) -> dict[str, Any]:
    """Return the coordinate options of a resize."""
    if mode == "nearest":
        if corners:
            return {"mode": mode, "coordinates": "align_corners",
                    "nearest_mode": "round_prefer_ceil"}  # fmt: skip
        return {"mode": mode, "coordinates": "asymmetric", "nearest_mode": "floor"}
    if corners:
        return {"mode": mode, "coordinates": "align_corners"}
    half = mode == "cubic" or node.attr("align_mode", 1) == 0
    return {"mode": mode, "coordinates": "half_pixel" if half else "asymmetric"}


def grid_sample(node: PaddleOp) -> Var:
    """Sample images at the positions of a grid."""
    mode = str(node.attr("mode", "bilinear"))
    return ops.grid_sample(
        node.var("X"), node.var("Grid"),
        mode="linear" if mode == "bilinear" else mode,
        padding_mode=node.attr("padding_mode", "zeros"),
        align_corners=bool(node.attr("align_corners", True)),
    )  # fmt: skip


WINDOWS: Mapping[str, Rule] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), conv(2)),
    "conv3d": conv(3),
    **dict.fromkeys(("conv2d_transpose", "depthwise_conv2d_transpose"), conv_transpose(2)),
    "conv3d_transpose": conv_transpose(3),
    "grid_sampler": grid_sample,
    "max_pool2d_with_index": pool_with_index(2),
    "max_pool3d_with_index": pool_with_index(3),
    "pool2d": pool(2),
    "pool3d": pool(3),
    **{f"{name}_interp{form}": resize(mode) for form in ("", "_v2")
       for name, mode in (
           ("linear", "linear"), ("nearest", "nearest"), ("bilinear", "linear"),
           ("bicubic", "cubic"), ("trilinear", "linear"))},
}  # fmt: skip
