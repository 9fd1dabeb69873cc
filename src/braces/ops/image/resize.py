"""Resizing of arrays by interpolation, and its adjoint."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from braces.builder.append import emit
from braces.builder.scalar_promotion import cast_literal
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    require_tuple,
    shape_of,
)
from braces.define.core.attribute_kinds import KINDS, LEADING_AXIS_RULES, Number
from braces.define.decorator import Tensor, op
from braces.dims import Shape, Size, call, product
from braces.dtypes import DType
from braces.errors import ProgramError
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import Backward, as_floating, real_valued, refuse
from braces.ops.image.interpolation_weights import (
    COORDINATES,
    NEAREST,
    REACHES,
    Array,
    Taps,
    resize_steps,
    resized_axes,
)

MOST_TAPS = 32
"""The largest number of taps for which sums are unrolled; larger ones use a dense matrix."""

Scales: TypeAlias = "tuple[float, ...]"
Region: TypeAlias = "tuple[float, ...]"


def _parse_floats(values: Any) -> tuple[float, ...]:
    return tuple(map(KINDS["float"], values))


KINDS["Scales"] = KINDS["Region"] = _parse_floats
LEADING_AXIS_RULES["Scales"] = lambda scales, size, rank: (1.0, *scales)
LEADING_AXIS_RULES["Region"] = lambda region, size, rank: (
    0.0,
    *region[:rank],
    1.0,
    *region[rank:],
)

# ---- rules -----------------------------------------------------------------------------------


def resize_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of resize: axes that are neither resized nor cropped are pointwise."""
    return _map_axes(types, attrs, shape_of(types["x"][0]), require_tuple(attrs["shape"]))


def resize_back_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of the adjoint: as for resize, from the attribute `shape` to the input."""
    return _map_axes(types, attrs, require_tuple(attrs["shape"]), shape_of(types["x"][0]))


def _map_axes(types: Types, attrs: Attrs, small: Shape, large: Shape) -> AxisMap:
    """Map the axes of `x` to those of the attribute `shape`."""
    wanted = require_tuple(attrs["shape"])
    if len(small) != len(large):
        raise AxisError(
            f"`shape` has {len(wanted)} sizes; expected {len(shape_of(types['x'][0]))}.",
            fix="Include the sizes that do not change: [*x.shape[:2], 64, 64].",
        )
    if any(isinstance(size, int) and size < 0 for size in wanted):
        raise AxisError("negative size in `shape`.", given=f"shape={wanted}")
    x, out = numbered_indices(len(small)), list(numbered_indices(len(small)))
    for axis in resized_axes(small, large, attrs):
        out[axis] = f"new.{axis}"
    new = {name: n for name, n in zip(out, wanted, strict=True) if name.startswith("new")}
    mixed = [*new, *(name for name in x if name not in out)]
    return make_axis_map(types, {"x": (x,)}, {"out": (tuple(out),)}, mixed, sizes=new)


def _check(what: str, shape: Shape, attrs: dict[str, Any]) -> None:
    """Check the attributes: known words, and the right number of scales and region bounds."""
    words = {"mode": REACHES, "coordinates": COORDINATES, "nearest_mode": NEAREST}
    for name, choices in words.items():
        if attrs[name] not in choices:
            raise ProgramError(
                f"{what}: unknown {name}={attrs[name]!r}.",
                fix=f"Use one of {', '.join(choices)}.",
            )
    for name, count in (("scales", len(shape)), ("region", 2 * len(shape))):
        if attrs[name] is not None and len(attrs[name]) != count:
            raise ProgramError(
                f"{what}: expected {count} numbers for `{name}`, got {attrs[name]!r}."
            )
    if not all(0 < scale < math.inf for scale in attrs["scales"] or ()):
        raise ProgramError(
            f"{what}: invalid scales={attrs['scales']!r}.", fix="Use positive finite numbers."
        )
    if attrs["antialias"] and attrs["mode"] == "nearest":
        raise ProgramError(
            f"{what}: antialias=True is not supported with mode='nearest'.",
            fix="Use mode='linear'.",
        )


def resize_dtype(what: str, x: DType, *, shape: Shape, **attrs: Any) -> DType:
    """Dtype rule: the dtype of `x` for "nearest", else its floating dtype.

    The dtype must be able to hold `extrapolation_value`.
    """
    _check(what, shape, attrs)
    dtype = x
    if attrs["mode"] != "nearest":
        refuse(what, x, "b")
        dtype = real_valued(what, x)
    cast_literal(attrs.get("extrapolation_value", 0.0), dtype)
    return dtype


# ---- cost ------------------------------------------------------------------------------------


def resize_flops(types: Types, attrs: Attrs) -> Size:
    """Return the operations of resize: a product and a sum for each tap, axis by axis."""
    return _count_operations(shape_of(types["x"][0]), require_tuple(attrs["shape"]), attrs)


def resize_back_flops(types: Types, attrs: Attrs) -> Size:
    """Return the operations of the adjoint: as many as those of resize."""
    return _count_operations(require_tuple(attrs["shape"]), shape_of(types["x"][0]), attrs)


def _count_operations(shape: Shape, wanted: Shape, attrs: Attrs) -> Size:
    total: Size = 0
    reach = REACHES[str(attrs["mode"])]
    for axis in resized_axes(shape, wanted, attrs) if reach else ():
        wide: Any = 1
        if attrs["antialias"] and wanted[axis] != 0:
            up: Any = shape[axis] + wanted[axis] - 1
            wide = call("max", call("floordiv", up, wanted[axis]), 1)
        shape = (*shape[:axis], wanted[axis], *shape[axis + 1 :])
        total = total + product((*shape, 4 * reach * wide))
    return total


# ---- kernels ---------------------------------------------------------------------------------


def _apply_taps(x: Any, axis: int, taps: Taps) -> Any:
    """Apply taps along an axis: weighted sums of elements."""
    tap_count = taps.weights.shape[1]
    if tap_count > MOST_TAPS:
        matrix = taps.matrix(x.shape[axis]).astype(x.dtype)
        return jnp.moveaxis(jnp.tensordot(x, matrix, (axis, 1)), -1, axis)
    total = 0
    for k in range(tap_count):
        weights = taps.weights[:, k].astype(x.dtype)
        part = _take(x, axis, taps.places[:, k])
        total = total + part * weights.reshape(-1, *[1] * (x.ndim - axis - 1))
    return total


def _take(x: Any, axis: int, places: Array) -> Any:
    return jnp.take(x, places, axis=axis, mode="clip")


@op(
    axes=resize_axis_map,
    dtypes=resize_dtype,
    operations=resize_flops,
    examples=(
        "x=f32[2,3,4,6] shape=(2,3,8,9)",
        "x=f64[b,2,4,5] shape=(b,2,8,3) mode=cubic",
        "x=f32[b,3,h,w] shape=(b,3,2*h,2*w) mode=nearest",
        "x=f64[b,7] shape=(b,3) antialias=True",
        "x=f64[2,70] shape=(2,2) mode=cubic antialias=True exclude_outside=True",
        "x=f64[2,5,4] shape=(2,3,6) coordinates=align_corners",
        "x=f64[2,5] shape=(2,6) mode=cubic coordinates=half_pixel_symmetric"
        " scales=(1.0,1.3) cubic_coefficient=-0.5",
        "x=f64[1,5,4] shape=(1,4,3) coordinates=tf_crop_and_resize"
        " region=(0,0.4,-0.2,1,1.2,0.9) extrapolation_value=3.0",
        "x=i32[2,5] shape=(2,3) mode=nearest nearest_mode=ceil coordinates=asymmetric",
        "x=u8[2,5] shape=(2,3)",
        "x=f32[0,4] shape=(0,8)",
    ),
)
def resize(
    x: Tensor,
    *,
    shape: Shape,
    mode: str = "linear",
    coordinates: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coefficient: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    scales: Scales | None = None,
    region: Region | None = None,
    extrapolation_value: Number = 0.0,
) -> Tensor:
    """An array resized to another shape by interpolation.

        out[i, j] = sum_{k, l} weight(i, k) * weight(j, l) * x[k, l]

    Along each axis, `coordinates` maps an output element to a position in the input, and `mode`
    interpolates there. Axes that keep their size are unchanged. The gradient is computed by
    gathers, without a scatter.

    Inputs:
        x: any[*sizes]; numbers where `mode` is not "nearest".

    Attributes:
        shape: The new size of each axis; may be symbolic.
        mode: "nearest" reads one element, "linear" two along each axis, "cubic" four.
        coordinates: The coordinate transformation, as in ONNX's Resize. "half_pixel": elements
            are centers of pixels; "align_corners": first and last elements are aligned;
            "asymmetric": the first elements are aligned; "half_pixel_symmetric",
            "pytorch_half_pixel", "tf_half_pixel_for_nn"; "tf_crop_and_resize" uses `region`.
        nearest_mode: The rounding of positions for "nearest": "round_prefer_floor",
            "round_prefer_ceil", "floor" or "ceil".
        cubic_coefficient: The slope of the cubic curve at distance 1; -0.5 and -0.75 are usual.
        antialias: Whether downsampling averages over all input elements.
        exclude_outside: Whether elements beyond the borders have weight zero; else the border
            elements are repeated.
        scales: Output elements per input element for each axis; by default the quotient of the
            sizes.
        region: The start of the cropped region for each axis, then its end for each axis, as
            fractions of the axis.
        extrapolation_value: The value outside of the array, if the region is larger.

    Outputs:
        out: any[*shape]; the dtype of `x` for "nearest", else its floating dtype.

    Raises:
        ShapeError: If the number of sizes in `shape` differs from the number of axes.
        ProgramError: If a mode is unknown, or the number of values in `scales` or `region` is
            wrong.
        DTypeError: If `x` is bool and `mode` is not "nearest", or the dtype cannot represent
            `extrapolation_value`.
    """
    attrs = dict(
        mode=mode, coordinates=coordinates, nearest_mode=nearest_mode, antialias=antialias,
        cubic_coefficient=cubic_coefficient, exclude_outside=exclude_outside, scales=scales,
        region=region,
    )  # fmt: skip
    if 0 in x.shape or 0 in shape:
        return jnp.zeros(shape, x.dtype if mode == "nearest" else as_floating(x).dtype)
    return _resize(x, shape, attrs, extrapolation_value)


def _resize(x: Any, shape: Any, attrs: Attrs, value: float) -> Any:
    if attrs["mode"] != "nearest":
        return _resize_by_weights(x, shape=shape, value=value, attrs=attrs)
    values = x
    for axis, taps, beyond in resize_steps(x.shape, shape, attrs):
        values = _fill_outside(_take(values, axis, taps.places[:, 0]), axis, beyond, value)
    return values


@in_float32
def _resize_by_weights(x: Any, *, shape: Any, value: float, attrs: Attrs) -> Any:
    values = as_floating(x)
    for axis, taps, beyond in resize_steps(x.shape, shape, attrs):
        values = _fill_outside(_apply_taps(values, axis, taps), axis, beyond, value)
    return values


def _fill_outside(x: Any, axis: int, beyond: Array, value: float) -> Any:
    """Fill the positions outside along an axis with a value."""
    if not beyond.any():
        return x
    flags = beyond.reshape(-1, *[1] * (x.ndim - axis - 1))
    return jnp.where(flags, np.asarray(value).astype(x.dtype), x)


@resize.gradient
def resize_gradient(g: Backward) -> dict[str, Var]:
    """Gradient of resize: the adjoint."""
    return {"x": emit("resize_back", g.out_grad, **_adjoint_attrs(g, g["x"].shape))}


def _adjoint_attrs(g: Backward, shape: Shape) -> dict[str, Any]:
    shared = {name: value for name, value in g.attrs.items() if name != "extrapolation_value"}
    return {**shared, "shape": shape}


@op(
    axes=resize_back_axis_map,
    dtypes=resize_dtype,
    function=False,
    operations=resize_back_flops,
    examples=(
        "x=f32[2,3,8,9] shape=(2,3,4,6)",
        "x=f64[b,2,8,3] shape=(b,2,4,5) mode=cubic",
        "x=f32[b,3,2*h,2*w] shape=(b,3,h,w) mode=nearest",
        "x=f64[b,3] shape=(b,7) antialias=True",
        "x=f64[2,2] shape=(2,70) mode=cubic antialias=True",
        "x=f64[1,4,3] shape=(1,5,4) coordinates=tf_crop_and_resize"
        " region=(0,0.4,-0.2,1,1.2,0.9)",
        "x=f32[0,8] shape=(0,4)",
    ),
)
def resize_back(
    x: Tensor,
    *,
    shape: Shape,
    mode: str = "linear",
    coordinates: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coefficient: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    scales: Scales | None = None,
    region: Region | None = None,
) -> Tensor:
    """The adjoint of `resize`: each value is added to the elements it was interpolated from.

        out[k, l] = sum_{i, j} weight(i, k) * weight(j, l) * x[i, j]

    Inputs:
        x: number[*sizes], as `resize` gives it.

    Attributes:
        shape: The shape of the input of `resize`; may be symbolic.
        mode: As in `resize`, like all other attributes.
        coordinates: The coordinate transformation.
        nearest_mode: The rounding of positions for "nearest".
        cubic_coefficient: The slope of the cubic curve at distance 1.
        antialias: Whether downsampling averages.
        exclude_outside: Whether elements beyond the borders have weight zero.
        scales: Output elements per input element for each axis.
        region: The start and end of the cropped region.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: If `shape` does not have one size for each axis.
        ProgramError: If a mode is unknown, or `scales` or `region` has the wrong number of
            values.
    """
    attrs = dict(
        mode=mode, coordinates=coordinates, nearest_mode=nearest_mode, antialias=antialias,
        cubic_coefficient=cubic_coefficient, exclude_outside=exclude_outside, scales=scales,
        region=region,
    )  # fmt: skip
    if 0 in x.shape or 0 in shape:
        return jnp.zeros(shape, x.dtype if mode == "nearest" else as_floating(x).dtype)
    return _apply_adjoint(x, shape=shape, attrs=attrs)


@in_float32
def _apply_adjoint(x: Any, *, shape: Any, attrs: Attrs) -> Any:
    values = x if attrs["mode"] == "nearest" else as_floating(x)
    for axis, taps, _ in resize_steps(shape, x.shape, attrs):
        values = _apply_taps(values, axis, taps.transposed(shape[axis]))
    return values


@resize_back.gradient
def resize_back_gradient(g: Backward) -> dict[str, Var]:
    """Gradient of the adjoint: resize."""
    return {"x": emit("resize", g.out_grad, **_adjoint_attrs(g, g["x"].shape))}


register_linear(resize, extrapolation_value=0.0)
register_linear(resize_back)
