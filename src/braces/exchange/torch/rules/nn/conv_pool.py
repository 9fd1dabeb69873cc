"""Rules of convolutions, pooling and resizing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.errors import ShapeError
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.windows import adaptive
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.extend import functions as ops
from braces.extend.building import Var, call
from braces.extend.types import INT64, Padding, Size

Ints = Sequence[int] | int


def per_axis(numbers: Ints, rank: int) -> tuple[int, ...]:
    """Return a number for each axis; a single one is for all."""
    values = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    return values * rank if len(values) == 1 else values


def both_ends(padding: Ints | str, rank: int) -> Padding:
    """Return the padding of both ends of each axis."""
    if isinstance(padding, str):
        return "same" if padding == "same" else "valid"
    return tuple(n for n in per_axis(padding, rank) for _ in range(2))


def batched(rank: int, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a rule to a single example without a batch axis."""

    def apply_rule(x: Var, *rest: Any, **options: Any) -> Any:
        if x.ndim > rank + 1:
            return rule(x, *rest, **options)
        batch_result = rule(ops.expand_dims(x, axis=0), *rest, **options)
        if isinstance(batch_result, Var):
            return ops.squeeze(batch_result, axis=0)
        return tuple(ops.squeeze(part, axis=0) for part in batch_result)

    return apply_rule


# ---- convolutions ----------------------------------------------------------------------------


def conv(rank: int) -> Callable[..., Var]:
    """Return the rule of a convolution."""

    def rule(
        x: Var, w: Var, b: Var | None = None, stride: Ints = 1, padding: Ints | str = 0,
        dilation: Ints = 1, groups: int = 1,
    ) -> Var:  # fmt: skip
        return call(
            f"conv{rank}d", x, w, b,
            stride=per_axis(stride, rank), padding=both_ends(padding, rank),
            dilation=per_axis(dilation, rank),
            groups=groups,
        )  # fmt: skip

    return batched(rank, rule)


def conv_transpose(rank: int) -> Callable[..., Var]:
    """Return the rule of a transposed convolution."""

    def rule(
        x: Var, w: Var, b: Var | None = None, stride: Ints = 1, padding: Ints = 0,
        extra: Ints = 0, groups: int = 1, dilation: Ints = 1,
    ) -> Var:  # fmt: skip
        return call(
            f"conv_transpose{rank}d", x, w, b,
            stride=per_axis(stride, rank), padding=both_ends(padding, rank),
            output_padding=per_axis(extra, rank), dilation=per_axis(dilation, rank),
            groups=groups,
        )  # fmt: skip

    return batched(rank, rule)


def convolution(
    x: Var, w: Var, b: Var | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, extra: Ints, groups: int,
) -> Var:  # fmt: skip
    """A convolution, transposed or not, with the rank of its weight."""
    rank = w.ndim - 2
    if transposed:
        return conv_transpose(rank)(x, w, b, stride, padding, extra, groups, dilation)
    return conv(rank)(x, w, b, stride, padding, dilation, groups)


# ---- pools -----------------------------------------------------------------------------------


def pool_attributes(
    rank: int, window: Ints, stride: Any, padding: Ints, up: bool
) -> dict[str, Any]:
    """Return the attributes that all pools have; the default stride is the window."""
    size = per_axis(window, rank)
    return {
        "window": size,
        "stride": per_axis(stride, rank) if isinstance(stride, int) or stride else size,
        "padding": both_ends(padding, rank),
        "ceil_mode": up,
    }


def max_pool(rank: int, places: str = "") -> Callable[..., Any]:
    """Return the rule of max pooling, with optional indices in the plane."""

    def rule(
        x: Var, window: Ints, stride: Any = None, padding: Ints = 0, dilation: Ints = 1,
        up: bool = False,
    ) -> Any:  # fmt: skip
        attrs = pool_attributes(rank, window, stride, padding, up)
        attrs["dilation"] = per_axis(dilation, rank)
        if not places:
            return call(f"max_pool{rank}d", x, **attrs)
        out, at = call(f"max_pool{places}{rank}d", x, **attrs)
        return out, cast_to_dtype(at, INT64)

    return batched(rank, rule)


def avg_pool(rank: int) -> Callable[..., Var]:
    """Return the rule of average pooling."""

    def rule(
        x: Var, window: Ints, stride: Any = None, padding: Ints = 0, up: bool = False,
        count_margin: bool = True, divisor: int | None = None,
    ) -> Var:  # fmt: skip
        attrs = pool_attributes(rank, window, stride, padding, up)
        if divisor is None:
            return call(f"avg_pool{rank}d", x, count_include_pad=count_margin, **attrs)
        axis_params = (x.shape[2:], attrs["window"], attrs["stride"], per_axis(padding, rank))
        ends = [_margins(*sizes, up) for sizes in zip(*axis_params, strict=True)]
        x = ops.pad(x, [(0, 0), (0, 0), *ends])
        plain = call(f"avg_pool{rank}d", x, window=attrs["window"], stride=attrs["stride"])
        return plain * (math.prod(attrs["window"]) / divisor)

    return batched(rank, rule)


def _margins(size: Size, window: int, stride: int, padding: int, up: bool) -> tuple[int, int]:
    """Return a padding with which all windows are in bounds."""
    if not up:
        return padding, padding
    if not isinstance(size, int):
        raise ShapeError(f"unsupported ceil_mode along an axis of symbolic size {size}.")
    count = -(-(size + 2 * padding - window) // stride) + 1
    count -= (count - 1) * stride >= size + padding
    return padding, max((count - 1) * stride + window - size - padding, 0)


# ---- images ----------------------------------------------------------------------------------


def resize_image(x: Var, wanted: Any, scales: Any, **options: Any) -> Var:
    """Resize an image to a size or by factors."""
    space = x.shape[2:]
    if wanted is None:
        wanted = [_scale_size(n, factor) for n, factor in zip(space, scales, strict=True)]
        if options["coordinates"] != "align_corners":
            options["scales"] = (1.0, 1.0, *scales)
    return ops.resize(x, (*x.shape[:2], *wanted), **options)


def _scale_size(size: Size, factor: float) -> Size:
    if float(factor).is_integer():
        return sizes.times(size, int(factor))
    if not isinstance(size, int):
        raise ShapeError(f"unsupported scale factor {factor} for an axis of size {size}.")
    return int(size * factor)


def nearest(x: Var, wanted: Any, scales: Any = None) -> Var:
    """Nearest-neighbor resize."""
    return resize_image(
        x, wanted, scales, mode="nearest", coordinates="asymmetric", nearest_mode="floor"
    )


def nearest_exact(x: Var, wanted: Any, scales: Any = None) -> Var:
    """Nearest-neighbor resize by pixel centers."""
    return resize_image(
        x,
        wanted,
        scales,
        mode="nearest",
        coordinates="half_pixel",
        nearest_mode="round_prefer_ceil",
    )


def interpolating_resize(mode: str) -> Callable[..., Var]:
    """Return the rule of an interpolating resize."""

    def rule(x: Var, wanted: Any, corners: bool, scales: Any = None) -> Var:
        return resize_image(x, wanted, scales, mode=mode, coordinates=_coordinates(corners))

    return rule


def smoothed_resize(mode: str) -> Callable[..., Var]:
    """Return the rule of an interpolating resize that averages when it shrinks.

    Pixels have centers in all cases; aligned corners change the scales alone.
    """

    def rule(x: Var, wanted: Any, corners: bool, *scales: Any) -> Var:
        options: dict[str, Any] = {
            "mode": mode,
            "antialias": True,
            "exclude_outside": True,
            "cubic_coefficient": -0.5,
        }
        factors = scales[0] if len(scales) == 1 else scales
        space = x.shape[2:]
        if wanted is None:
            wanted = [_scale_size(n, factor) for n, factor in zip(space, factors, strict=True)]
        if corners:
            factors = [_corner_scale(*pair) for pair in zip(space, wanted, strict=True)]
        if factors and None not in factors:
            options["scales"] = (1.0, 1.0, *factors)
        return ops.resize(x, (*x.shape[:2], *wanted), coordinates="half_pixel", **options)

    return rule


def _corner_scale(size: Size, count: Size) -> float:
    """Return output elements per input element between aligned corners."""
    if not isinstance(size, int) or not isinstance(count, int) or min(size, count) < 2:
        raise ShapeError("antialias: unsupported align_corners=True for this size.")
    return (count - 1) / (size - 1)


def _coordinates(corners: bool) -> str:
    return "align_corners" if corners else "half_pixel"


def any_convolution(*given: Any) -> Var:
    """A convolution; the backend flags are ignored."""
    return convolution(*given[:9])


RANKS = (1, 2, 3)
WITH_INDICES = "_with_indices"

WINDOWS: Mapping[str, Callable[..., Any]] = {
    **{f"conv{r}d{how}": conv(r) for r in RANKS for how in ("", ".padding")},
    "conv_transpose1d": conv_transpose(1),
    "conv_transpose2d.input": conv_transpose(2),
    "conv_transpose3d.input": conv_transpose(3),
    "convolution": convolution,
    "_convolution": any_convolution,
    **{f"max_pool{r}d": max_pool(r) for r in RANKS},
    **{f"max_pool{r}d_with_indices": max_pool(r, WITH_INDICES) for r in RANKS},
    **{f"avg_pool{r}d": avg_pool(r) for r in RANKS},
    **{f"{how}adaptive_avg_pool{r}d": adaptive("mean", r) for r in RANKS for how in ("", "_")},
    "upsample_nearest1d.vec": nearest,
    "upsample_nearest2d.vec": nearest,
    "upsample_nearest3d.vec": nearest,
    **{f"_upsample_nearest_exact{rank}d.vec": nearest_exact for rank in RANKS},
    "upsample_linear1d.vec": interpolating_resize("linear"),
    "upsample_bilinear2d.vec": interpolating_resize("linear"),
    "upsample_trilinear3d.vec": interpolating_resize("linear"),
    "upsample_bicubic2d.vec": interpolating_resize("cubic"),
    "_upsample_bilinear2d_aa": smoothed_resize("linear"),
    "_upsample_bicubic2d_aa": smoothed_resize("cubic"),
}
