"""Arrays brought to other sizes, by what lies between their numbers."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from braces.builder.append import one
from braces.builder.scalar_promotion import literal
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    mapped,
    numbered,
    shape_of,
    tuple_of,
)
from braces.define.core.attribute_kinds import KINDS, LED, Number
from braces.define.decorator import Tensor, op
from braces.dims import Shape, Size, call, product
from braces.dtypes import DType
from braces.errors import ProgramError
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import linear
from braces.ops.common.rules import Backward, floating, real_valued, refuse
from braces.ops.image.interpolation_weights import (
    COORDINATES,
    NEAREST,
    REACHES,
    Array,
    Taps,
    steps,
    stretched,
)

MOST_TAPS = 32
"""Sums of up to so many numbers are written out; others are products with a matrix."""

Scales: TypeAlias = "tuple[float, ...]"
Region: TypeAlias = "tuple[float, ...]"


def _reals(given: Any) -> tuple[float, ...]:
    return tuple(map(KINDS["float"], given))


KINDS["Scales"] = KINDS["Region"] = _reals
LED["Scales"] = lambda scales, size, rank: (1.0, *scales)
LED["Region"] = lambda region, size, rank: (0.0, *region[:rank], 1.0, *region[rank:])

# ---- rules -----------------------------------------------------------------------------------


def resized(types: Types, attrs: Attrs) -> AxisMap:
    """Axes that keep their size, and all of it, are kept."""
    return _between(types, attrs, shape_of(types["x"][0]), tuple_of(attrs["shape"]))


def unresized(types: Types, attrs: Attrs) -> AxisMap:
    """The same, where the sizes are those of what was brought to others."""
    return _between(types, attrs, tuple_of(attrs["shape"]), shape_of(types["x"][0]))


def _between(types: Types, attrs: Attrs, small: Shape, large: Shape) -> AxisMap:
    """The map from the axes of `x` to those of the attribute `shape`."""
    wanted = tuple_of(attrs["shape"])
    if len(small) != len(large):
        raise AxisError(
            f"needs a size for each of {len(shape_of(types['x'][0]))} axes, not {len(wanted)}.",
            fix="Write those that stay too: [*x.shape[:2], 64, 64].",
        )
    if any(isinstance(size, int) and size < 0 for size in wanted):
        raise AxisError("cannot make a negative size.", given=f"shape={wanted}")
    x, out = numbered(len(small)), list(numbered(len(small)))
    for axis in stretched(small, large, attrs):
        out[axis] = f"new.{axis}"
    new = {name: n for name, n in zip(out, wanted, strict=True) if name.startswith("new")}
    mixed = [*new, *(name for name in x if name not in out)]
    return mapped(types, {"x": (x,)}, {"out": (tuple(out),)}, mixed, sizes=new)


def _check(what: str, shape: Shape, attrs: dict[str, Any]) -> None:
    """Refuse attributes that are none of the words, or not as many numbers as are needed."""
    words = {"mode": REACHES, "coordinates": COORDINATES, "nearest_mode": NEAREST}
    for name, known in words.items():
        if attrs[name] not in known:
            raise ProgramError(
                f"{what} has {name}={attrs[name]!r}.", fix=f"Say one of {', '.join(known)}."
            )
    for name, wanted in (("scales", len(shape)), ("region", 2 * len(shape))):
        if attrs[name] is not None and len(attrs[name]) != wanted:
            raise ProgramError(f"{what} needs {wanted} numbers: {name}={attrs[name]!r}.")
    if not all(0 < scale < math.inf for scale in attrs["scales"] or ()):
        raise ProgramError(f"{what} has scales={attrs['scales']!r}.", fix="Each is above 0.")
    if attrs["antialias"] and attrs["mode"] == "nearest":
        raise ProgramError(f"{what} takes one number, and no mean.", fix="Say mode='linear'.")


def between_numbers(what: str, x: DType, *, shape: Shape, **attrs: Any) -> DType:
    """The dtype of `x` where its numbers are taken as they are; else a floating one.

    It can hold what lies outside of the array.
    """
    _check(what, shape, attrs)
    found = x
    if attrs["mode"] != "nearest":
        refuse(what, x, "b")
        found = real_valued(what, x)
    literal(attrs.get("extrapolation_value", 0.0), found)
    return found


# ---- how much there is to do -----------------------------------------------------------------


def summed(types: Types, attrs: Attrs) -> Size:
    """A product and a sum for each number that counts, axis by axis."""
    return _operations(shape_of(types["x"][0]), tuple_of(attrs["shape"]), attrs)


def summed_back(types: Types, attrs: Attrs) -> Size:
    """As much as the other way round."""
    return _operations(tuple_of(attrs["shape"]), shape_of(types["x"][0]), attrs)


def _operations(shape: Shape, wanted: Shape, attrs: Attrs) -> Size:
    total: Size = 0
    reach = REACHES[str(attrs["mode"])]
    for axis in stretched(shape, wanted, attrs) if reach else ():
        wide: Any = 1
        if attrs["antialias"] and wanted[axis] != 0:
            up: Any = shape[axis] + wanted[axis] - 1
            wide = call("max", call("floordiv", up, wanted[axis]), 1)
        shape = (*shape[:axis], wanted[axis], *shape[axis + 1 :])
        total = total + product((*shape, 4 * reach * wide))
    return total


# ---- kernels ---------------------------------------------------------------------------------


def _combined(x: Any, axis: int, taps: Taps) -> Any:
    """Sums of numbers along an axis."""
    taken = taps.weights.shape[1]
    if taken > MOST_TAPS:
        matrix = taps.matrix(x.shape[axis]).astype(x.dtype)
        return jnp.moveaxis(jnp.tensordot(x, matrix, (axis, 1)), -1, axis)
    made = 0
    for k in range(taken):
        weights = taps.weights[:, k].astype(x.dtype)
        part = _taken(x, axis, taps.places[:, k])
        made = made + part * weights.reshape(-1, *[1] * (x.ndim - axis - 1))
    return made


def _taken(x: Any, axis: int, places: Array) -> Any:
    return jnp.take(x, places, axis=axis, mode="clip")


@op(
    axes=resized,
    dtypes=between_numbers,
    operations=summed,
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
    """An array brought to another shape: images made larger or smaller.

        out[i, j] = sum_{k, l} weight(i, k) * weight(j, l) * x[k, l]

    Along each axis, a new number lies somewhere among the old ones, as `coordinates` says, and
    is made of those around it, as `mode` says. Axes that keep their size stay as they are. The
    gradient goes the same way back, and scatters nothing.

    Inputs:
        x: any[*sizes]; numbers where `mode` is not "nearest".

    Attributes:
        shape: The new size of each axis; may be symbolic.
        mode: "nearest" takes one number, "linear" two along each axis, "cubic" four.
        coordinates: Where new numbers lie. "half_pixel": numbers are in the middle of pixels;
            "align_corners": the first and last ones stay first and last; "asymmetric": the
            first stays; "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"
            and "tf_crop_and_resize", which `region` belongs to, as ONNX's Resize has them.
        nearest_mode: What becomes of positions between two numbers: "round_prefer_floor",
            "round_prefer_ceil", "floor" or "ceil".
        cubic_coefficient: The slope of the cubic curve at distance 1; -0.5 and -0.75 are usual.
        antialias: Whether an axis that becomes shorter is made of means over all its numbers.
        exclude_outside: Whether nothing beyond the borders counts; else the numbers at the
            borders go on.
        scales: For each axis new numbers for each old one, where that is not the quotient of
            the sizes.
        region: For each axis where the part begins that is resized, then where each ends, as
            shares of the axis.
        extrapolation_value: What lies outside of the array, in a region that is larger.

    Outputs:
        out: any[*shape]; the dtype of `x` for "nearest", else its floating dtype.

    Raises:
        ShapeError: `shape` has not one size for each axis.
        ProgramError: A word is none of those, or there are not as many numbers as needed.
        DTypeError: Bools, where `mode` is not "nearest", or a dtype that cannot hold
            `extrapolation_value`.
    """
    attrs = dict(
        mode=mode, coordinates=coordinates, nearest_mode=nearest_mode, antialias=antialias,
        cubic_coefficient=cubic_coefficient, exclude_outside=exclude_outside, scales=scales,
        region=region,
    )  # fmt: skip
    if 0 in x.shape or 0 in shape:
        return jnp.zeros(shape, x.dtype if mode == "nearest" else floating(x).dtype)
    return _resized(x, shape, attrs, extrapolation_value)


def _resized(x: Any, shape: Any, attrs: Attrs, value: float) -> Any:
    if attrs["mode"] != "nearest":
        return _weighted(x, shape=shape, value=value, attrs=attrs)
    made = x
    for axis, taps, beyond in steps(x.shape, shape, attrs):
        made = _filled(_taken(made, axis, taps.places[:, 0]), axis, beyond, value)
    return made


@in_float32
def _weighted(x: Any, *, shape: Any, value: float, attrs: Attrs) -> Any:
    made = floating(x)
    for axis, taps, beyond in steps(x.shape, shape, attrs):
        made = _filled(_combined(made, axis, taps), axis, beyond, value)
    return made


def _filled(x: Any, axis: int, beyond: Array, value: float) -> Any:
    """What lies outside along an axis, set to a value."""
    if not beyond.any():
        return x
    flags = beyond.reshape(-1, *[1] * (x.ndim - axis - 1))
    return jnp.where(flags, np.asarray(value).astype(x.dtype), x)


@resize.gradient
def resize_gradient(g: Backward) -> dict[str, Var]:
    """The sums the other way round."""
    return {"x": one("resize_back", g.out_grad, **_back(g, g["x"].shape))}


def _back(g: Backward, shape: Shape) -> dict[str, Any]:
    kept = {name: value for name, value in g.attrs.items() if name != "extrapolation_value"}
    return {**kept, "shape": shape}


@op(
    axes=unresized,
    dtypes=between_numbers,
    function=False,
    operations=summed_back,
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
    """The adjoint of `resize`: each number goes back to those that it was made of.

        out[k, l] = sum_{i, j} weight(i, k) * weight(j, l) * x[i, j]

    Inputs:
        x: number[*sizes], as `resize` gives it.

    Attributes:
        shape: The sizes of what was resized; may be symbolic.
        mode: As in `resize`, and so are all others.
        coordinates: Where new numbers lie.
        nearest_mode: What becomes of positions between two numbers.
        cubic_coefficient: The slope of the cubic curve at distance 1.
        antialias: Whether shorter axes are means.
        exclude_outside: Whether nothing beyond the borders counts.
        scales: For each axis new numbers for each old one.
        region: Where the part begins and ends that was resized.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: `shape` has not one size for each axis.
        ProgramError: A word is none of those, or there are not as many numbers as needed.
    """
    attrs = dict(
        mode=mode, coordinates=coordinates, nearest_mode=nearest_mode, antialias=antialias,
        cubic_coefficient=cubic_coefficient, exclude_outside=exclude_outside, scales=scales,
        region=region,
    )  # fmt: skip
    if 0 in x.shape or 0 in shape:
        return jnp.zeros(shape, x.dtype if mode == "nearest" else floating(x).dtype)
    return _brought_back(x, shape=shape, attrs=attrs)


@in_float32
def _brought_back(x: Any, *, shape: Any, attrs: Attrs) -> Any:
    made = x if attrs["mode"] == "nearest" else floating(x)
    for axis, taps, _ in steps(shape, x.shape, attrs):
        made = _combined(made, axis, taps.transposed(shape[axis]))
    return made


@resize_back.gradient
def resize_back_gradient(g: Backward) -> dict[str, Var]:
    """What `resize` makes of the cotangent."""
    return {"x": one("resize", g.out_grad, **_back(g, g["x"].shape))}


linear(resize, extrapolation_value=0.0)
linear(resize_back)
