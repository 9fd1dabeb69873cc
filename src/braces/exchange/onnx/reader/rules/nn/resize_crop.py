"""Rules of images: resize, sampling and crops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.exchange.common.model.unsupported import FIX_SIZE
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.resize import resize_axes, scale_size
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import Dim, DType, Size

OLD = {"coordinates": "asymmetric", "nearest_mode": "floor"}
"""The coordinate mode of models that cannot specify one."""

# ---- sizes -----------------------------------------------------------------------------------


def keep_aspect_ratio(
    node: OnnxNode, sizes: Sequence[Size], wanted: Sequence[Size], policy: str
) -> Any:
    """Return sizes and factors that keep the aspect ratio, at most or at least the target."""
    if any(isinstance(size, Dim) for size in (*sizes, *wanted)):
        node.refuse("unsupported keep_aspect_ratio_policy with symbolic sizes", FIX_SIZE)
    numbers: Any = sizes
    ratios = [int(w) / s for w, s in zip(wanted, numbers, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [int(ratio * size + 0.5) for size in numbers], [ratio] * len(numbers)


def by_scales(
    node: OnnxNode, x: Var, axes: Sequence[int], scales: Sequence[float], **options: Any
) -> Var:
    """Resize axes by factors."""
    sizes = [scale_size(node, x.shape[a], scale) for a, scale in zip(axes, scales, strict=True)]
    return resize_axes(x, axes, sizes, scales, **options)


# ---- resize ----------------------------------------------------------------------------------


def factors_of(node: OnnxNode, at: int) -> list[float] | None:
    """Return the scale factors; `None` if absent or empty."""
    if not node.has(at):
        return None
    factors = node.known_value(at, "The factors").numbers().ravel().tolist()
    return [float(factor) for factor in factors] or None


def upsample(node: OnnxNode) -> Var:
    """The predecessor of Resize."""
    x, mode = node.var(0), mode_of(node)
    if node.version >= 9:
        scales = factors_of(node, 1)
    elif node.version >= 7:
        scales = list(node.attr("scales"))
    else:
        scales = [1.0, 1.0, node.attr("height_scale"), node.attr("width_scale")]
    return by_scales(node, x, range(x.ndim), scales or [], mode=mode, **OLD)


def mode_of(node: OnnxNode) -> str:
    """Return the interpolation mode without the rank that older models include."""
    mode = str(node.attr("mode", "nearest"))
    return "linear" if mode in ("bilinear", "trilinear") else mode


def options_of(node: OnnxNode, rank: int, axes: Sequence[int]) -> dict[str, Any]:
    """Return the interpolation options of a node."""
    if node.version < 11:
        return {"mode": mode_of(node), **OLD}
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel")
    options = {
        "mode": mode_of(node),
        "coordinates": coordinates,
        "nearest_mode": node.attr("nearest_mode", "round_prefer_floor"),
        "cubic_coefficient": node.attr("cubic_coeff_a", -0.75),
        "antialias": node.flag("antialias"),
        "exclude_outside": node.flag("exclude_outside"),
        "extrapolation_value": node.attr("extrapolation_value", 0.0),
    }
    if coordinates == "tf_crop_and_resize":
        options["region"] = region_of(node, rank, axes)
    return options


def region_of(node: OnnxNode, rank: int, axes: Sequence[int]) -> tuple[float, ...]:
    """Return the start and end of the cropped region for each axis."""
    bounds = node.known_value(1, "The region").numbers().ravel().tolist()
    starts, ends = [0.0] * rank, [1.0] * rank
    for at, axis in enumerate(axes):
        starts[axis], ends[axis] = bounds[at], bounds[len(axes) + at]
    return (*starts, *ends)


def resize(node: OnnxNode) -> Var:
    """Resize axes to sizes or by factors."""
    x = node.var(0)
    axes = [axis % x.ndim for axis in node.attr("axes") or range(x.ndim)]
    options = options_of(node, x.ndim, axes)
    scales = factors_of(node, 1 if node.version < 11 else 2)
    if scales is not None:
        return by_scales(node, x, axes, scales, **options)
    sizes = node.ints(3, "The sizes") or list[Size]()
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        own = [x.shape[axis] for axis in axes]
        sizes, scales = keep_aspect_ratio(node, own, sizes, policy)
    return resize_axes(x, axes, sizes, scales, **options)


# ---- sampling --------------------------------------------------------------------------------


def grid_sample(node: OnnxNode) -> Var:
    """Sample images at the positions of a grid."""
    x, mode = node.var(0), str(node.attr("mode", "linear"))
    sampled = ops.grid_sample(
        x,
        node.var(1),
        mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        padding_mode=node.attr("padding_mode", "zeros"),
        align_corners=node.flag("align_corners"),
    )
    return cast_to_dtype(sampled, x.dtype)


def affine_grid(node: OnnxNode) -> Var:
    """The sampling grid of an affine transform for each image."""
    theta, sizes = node.var(0), node.ints(1, "The size")
    plane = (sizes or [])[2:]
    rank = len(plane)
    if rank not in (2, 3) or theta.shape[1:] != (rank, rank + 1):
        node.refuse(f"unsupported matrices of shape {theta.shape[1:]} for {rank} spatial axes")
    grid = broadcast_over_plane(theta[:, :, rank], rank)
    for axis, size in enumerate(plane):
        at = pixel_positions(size, theta.dtype, align_corners=node.flag("align_corners"))
        coordinate = ops.reshape(at, (size, *[1] * (rank - axis)))
        grid = grid + coordinate * broadcast_over_plane(theta[:, :, rank - 1 - axis], rank)
    return grid


def broadcast_over_plane(x: Var, rank: int) -> Var:
    """Broadcast numbers per image and coordinate over the positions."""
    images, coordinates = x.shape
    return ops.reshape(x, (images, *[1] * rank, coordinates))


def pixel_positions(size: Size, dtype: DType, *, align_corners: bool) -> Var:
    """Return pixel positions in [-1, 1]: pixel centers, or with both ends included."""
    count = cast_to_dtype(ops.size(size), dtype)
    span = ops.maximum(count - 1, 1) if align_corners else count
    return (2 * cast_to_dtype(emit("arange", stop=size), dtype) - (count - 1)) / span


# ---- regions ---------------------------------------------------------------------------------

ALIGNED = 16
"""The version that introduced the half-pixel option of `RoiAlign`."""


def roi_align(node: OnnxNode) -> Var:
    """Regions of interest as means or maxima of samples."""
    x, rois, numbers = node.vars()
    legacy_mode = "output_half_pixel" if node.version < ALIGNED else "half_pixel"
    regions = ops.roi_align(
        x,
        rois,
        numbers,
        output_size=(node.attr("output_height", 1), node.attr("output_width", 1)),
        spatial_scale=node.attr("spatial_scale", 1.0),
        sampling_ratio=node.attr("sampling_ratio", 0),
        mode=node.attr("mode", "avg"),
        aligned=node.attr("coordinate_transformation_mode", legacy_mode) == "half_pixel",
    )
    return cast_to_dtype(regions, x.dtype)


def max_roi_pool(node: OnnxNode) -> Var:
    """Max pooling of regions of interest; the first number of each is its image index."""
    x, rois = node.vars()
    return ops.roi_pool(
        x,
        rois[:, 1:],
        ops.cast(rois[:, 0], "int64"),
        output_size=tuple(node.attr("pooled_shape")),
        spatial_scale=node.attr("spatial_scale", 1.0),
    )


IMAGES: Mapping[str, Rule] = {
    "AffineGrid": affine_grid,
    "GridSample": grid_sample,
    "MaxRoiPool": max_roi_pool,
    "Resize": resize,
    "RoiAlign": roi_align,
    "Upsample": upsample,
}
