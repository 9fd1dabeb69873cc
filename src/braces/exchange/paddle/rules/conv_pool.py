"""Rules of sliding windows, and of resizing and sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.resize import resize_axes, scale_size
from braces.exchange.common.rules.windows import adaptive
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import functions as ops
from braces.extend.building import Var, call
from braces.extend.types import Padding, Size, dtype_of

INT32 = dtype_of("int32")


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
    return lambda node: _convolve(node, rank, f"conv{rank}d")


def conv_transpose(rank: int) -> Rule:
    """Return the rule of a transposed convolution."""

    def rule(node: PaddleOp) -> Var:
        if node.attr("output_size"):
            node.refuse("unsupported attribute `output_size`", "Export with output_padding.")
        more = tuple(node.attr("output_padding") or [0] * rank)
        return _convolve(node, rank, f"conv_transpose{rank}d", output_padding=more)

    return rule


def _convolve(node: PaddleOp, rank: int, op_type: str, **attrs: Any) -> Var:
    w = node.var("Filter")

    def convolve(x: Var) -> Var:
        return call(
            op_type, x, w, node.maybe("Bias"),
            stride=tuple(node.attr("strides")), padding=padding_of(node, rank),
            dilation=tuple(node.attr("dilations") or [1] * rank),
            groups=node.attr("groups", 1) or 1, **attrs,
        )  # fmt: skip

    return apply_channels_first(node, node.var("Input"), convolve)


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
    if node.attr("global_pooling", False) or (
        node.attr("adaptive", False) and set(window) == {1}
    ):
        function = ops.max if largest else ops.mean
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)
    if node.attr("adaptive", False):
        return adaptive("max" if largest else "mean", rank)(x, list(window))
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


def pool_with_index(node: PaddleOp) -> Results:
    """Max pooling with indices in the plane; adaptive pooling has no indices."""
    x, window = node.var("X"), tuple(int(n) for n in node.attr("ksize"))
    if node.attr("adaptive", False):
        return {"Out": adaptive("max", 2)(x, list(window))}
    if node.attr("global_pooling", False):
        window = tuple(_number(node, n) for n in x.shape[2:])
    out, at = call(
        "max_pool_with_indices2d", x, window=window, stride=tuple(node.attr("strides")),
        padding=padding_of(node, 2),
    )  # fmt: skip
    return {"Out": out, "Mask": cast_to_dtype(at, INT32)}


def _number(node: PaddleOp, size: Size) -> int:
    if not isinstance(size, int):
        node.refuse(f"unsupported symbolic size {size} of a spatial axis")
    return size


# ---- images ----------------------------------------------------------------------------------

SIZES = ("out_d", "out_h", "out_w")


def resize(mode: str, rank: int) -> Rule:
    """Return the rule of a resize."""

    def rule(node: PaddleOp) -> Var:
        return apply_channels_first(
            node, node.var("X"), lambda x: _build_resize(node, mode, rank, x), "data_layout"
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
    "max_pool2d_with_index": pool_with_index,
    "pool2d": pool(2),
    "pool3d": pool(3),
    **{f"{name}_interp{form}": resize(mode, rank) for form in ("", "_v2")
       for name, mode, rank in (
           ("linear", "linear", 1), ("nearest", "nearest", 2), ("bilinear", "linear", 2),
           ("bicubic", "cubic", 2), ("trilinear", "linear", 3))},
}  # fmt: skip
