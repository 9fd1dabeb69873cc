"""Rules of images: other sizes, and parts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import DType
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.rules.resize import brought, larger
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.frontend.core import functions as ops

OLD = {"coordinates": "asymmetric", "nearest_mode": "floor"}
"""How positions are told where a model cannot say it."""

# ---- sizes -----------------------------------------------------------------------------------


def of_one_ratio(node: Node, sizes: Sequence[Size], wanted: Sequence[Size], policy: str) -> Any:
    """Sizes and factors where the ratio of sides stays: no side larger, or none smaller."""
    if any(isinstance(size, Dim) for size in (*sizes, *wanted)):
        node.refuse("keeps the ratio of symbolic sizes", "Fix them: sizes=.")
    known: Any = sizes
    ratios = [int(w) / s for w, s in zip(wanted, known, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [int(ratio * size + 0.5) for size in known], [ratio] * len(known)


def by_scales(
    node: Node, x: Var, axes: Sequence[int], scales: Sequence[float], **options: Any
) -> Var:
    """An array with axes so many times as long."""
    sizes = [larger(node, x.shape[a], scale) for a, scale in zip(axes, scales, strict=True)]
    return brought(x, axes, sizes, scales, **options)


# ---- resize ----------------------------------------------------------------------------------


def factors_of(node: Node, at: int) -> list[float] | None:
    """Factors, where they are given and not empty."""
    if not node.has(at):
        return None
    found = node.known(at, "The factors").numbers().ravel().tolist()
    return [float(factor) for factor in found] or None


def upsample(node: Node) -> Var:
    """What images were resized by before there was Resize."""
    x, mode = node.var(0), mode_of(node)
    if node.version >= 9:
        scales = factors_of(node, 1)
    elif node.version >= 7:
        scales = list(node.attr("scales"))
    else:
        scales = [1.0, 1.0, node.attr("height_scale"), node.attr("width_scale")]
    return by_scales(node, x, range(x.ndim), scales or [], mode=mode, **OLD)


def mode_of(node: Node) -> str:
    """How new numbers are made; older models say which lines they draw."""
    found = str(node.attr("mode", "nearest"))
    return "linear" if found in ("bilinear", "trilinear") else found


def options_of(node: Node, rank: int, axes: Sequence[int]) -> dict[str, Any]:
    """What of the attributes says how numbers are made."""
    if node.version < 11:
        return {"mode": mode_of(node), **OLD}
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel")
    found = {
        "mode": mode_of(node),
        "coordinates": coordinates,
        "nearest_mode": node.attr("nearest_mode", "round_prefer_floor"),
        "cubic_coefficient": node.attr("cubic_coeff_a", -0.75),
        "antialias": node.flag("antialias"),
        "exclude_outside": node.flag("exclude_outside"),
        "extrapolation_value": node.attr("extrapolation_value", 0.0),
    }
    if coordinates == "tf_crop_and_resize":
        found["region"] = region_of(node, rank, axes)
    return found


def region_of(node: Node, rank: int, axes: Sequence[int]) -> tuple[float, ...]:
    """Where the part begins that is resized, and where it ends, for each axis."""
    given = node.known(1, "The region").numbers().ravel().tolist()
    starts, ends = [0.0] * rank, [1.0] * rank
    for at, axis in enumerate(axes):
        starts[axis], ends[axis] = given[at], given[len(axes) + at]
    return (*starts, *ends)


def resize(node: Node) -> Var:
    """An array with axes of other sizes, or so many times as long."""
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
        sizes, scales = of_one_ratio(node, own, sizes, policy)
    return brought(x, axes, sizes, scales, **options)


# ---- sampling --------------------------------------------------------------------------------


def grid_sample(node: Node) -> Var:
    """Images read where a grid says."""
    x, mode = node.var(0), str(node.attr("mode", "linear"))
    made = ops.grid_sample(
        x,
        node.var(1),
        mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        padding_mode=node.attr("padding_mode", "zeros"),
        align_corners=node.flag("align_corners"),
    )
    return in_dtype(made, x.dtype)


def affine_grid(node: Node) -> Var:
    """The places of an image, moved, turned and stretched by a matrix for each image."""
    theta, sizes = node.var(0), node.ints(1, "The size")
    plane = (sizes or [])[2:]
    rank = len(plane)
    if rank not in (2, 3) or theta.shape[1:] != (rank, rank + 1):
        node.refuse(f"has matrices of the shape {theta.shape[1:]} for {rank} axes")
    made = in_front(theta[:, :, rank], rank)
    for axis, size in enumerate(plane):
        at = places(size, theta.dtype, align_corners=node.flag("align_corners"))
        along = ops.reshape(at, (size, *[1] * (rank - axis)))
        made = made + along * in_front(theta[:, :, rank - 1 - axis], rank)
    return made


def in_front(x: Var, rank: int) -> Var:
    """Numbers for each image and coordinate, the same at each place."""
    images, coordinates = x.shape
    return ops.reshape(x, (images, *[1] * rank, coordinates))


def places(size: Size, dtype: DType, *, align_corners: bool) -> Var:
    """Where pixels lie between -1 and 1: at their middles, which may reach both ends."""
    count = in_dtype(ops.size(size), dtype)
    whole = ops.maximum(count - 1, 1) if align_corners else count
    return (2 * in_dtype(one("arange", stop=size), dtype) - (count - 1)) / whole


# ---- regions ---------------------------------------------------------------------------------

ALIGNED = 16
"""Since this version of `RoiAlign` a model says whether half a pixel is taken away."""


def roi_align(node: Node) -> Var:
    """Regions as means of samples, or as largest ones."""
    x, rois, numbers = node.vars()
    old = "output_half_pixel" if node.version < ALIGNED else "half_pixel"
    made = ops.roi_align(
        x,
        rois,
        numbers,
        output_size=(node.attr("output_height", 1), node.attr("output_width", 1)),
        spatial_scale=node.attr("spatial_scale", 1.0),
        sampling_ratio=node.attr("sampling_ratio", 0),
        mode=node.attr("mode", "avg"),
        aligned=node.attr("coordinate_transformation_mode", old) == "half_pixel",
    )
    return in_dtype(made, x.dtype)


def max_roi_pool(node: Node) -> Var:
    """Regions as largest pixels; the first number of each is that of its image."""
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
