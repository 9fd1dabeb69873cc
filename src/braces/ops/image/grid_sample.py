"""Grid sampling: images interpolated at arbitrary positions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    shape_of,
)
from braces.define.decorator import Tensor, op
from braces.dims import Size, product
from braces.dtypes import DType
from braces.errors import ProgramError
from braces.lazy import jax, jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, promote_arrays, real_function

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
"""The number of pixels read along each axis, by mode."""
PADDINGS = ("zeros", "border", "reflection")
CUBIC = -0.75
"""The coefficient of cubic convolution: its slope at distance 1."""

Tap: TypeAlias = "tuple[Any, Any]"
"""Pixel indices along an axis and interpolation weights, one for each position."""


def grid_sample_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: pointwise on batch, channels and places of the grid."""
    del attrs
    x, grid = (shape_of(types[slot][0]) for slot in ("x", "grid"))
    plane = len(x) - 2
    if plane < 1 or len(grid) != len(x):
        raise AxisError(
            "expected a grid and images of equal rank, 3 or more, "
            f"got ranks {len(grid)} and {len(x)}."
        )
    if isinstance(grid[-1], int) and grid[-1] != plane:
        raise AxisError(f"expected {plane} coordinates for each point, got {grid[-1]}.")
    pixels, places = numbered_indices(plane, "pixel"), numbered_indices(plane, "place")
    return make_axis_map(
        types,
        {"x": (("n", "c", *pixels),), "grid": (("n", *places, "coordinate"),)},
        {"out": (("n", "c", *places),)},
        [*pixels, "coordinate"],
    )


def grid_sample_dtype(
    what: str, *dtypes: DType, mode: str, padding_mode: str, **attrs: Any
) -> DType:
    """Dtype rule: the promoted floating dtype of both inputs."""
    for name, value, choices in (
        ("mode", mode, tuple(TAPS)),
        ("padding_mode", padding_mode, PADDINGS),
    ):
        if value not in choices:
            raise ProgramError(
                f"{what}: unknown {name}={value!r}.", fix=f"Use one of {', '.join(choices)}."
            )
    return real_function(what, *dtypes, **attrs)


def read_pixels(types: Types, attrs: Attrs) -> Size:
    """Return the operations: the weights of each place, and a weighted sum per channel."""
    batch, channels, *plane = shape_of(types["x"][0])
    taps = TAPS[str(attrs["mode"])]
    pixels = taps ** len(plane)
    per_tap = 30 if attrs["padding_mode"] == "reflection" else 10
    weights = 2 * pixels * len(plane) + per_tap * taps * len(plane)
    places = shape_of(types["grid"][0])[1:-1]
    return product((batch, *places, 2 * pixels * channels + weights))


# ---- along one axis --------------------------------------------------------------------------


def _to_pixel_position(coordinate: Any, size: int, *, align_corners: bool) -> Any:
    """Convert a coordinate from -1 to 1 to a pixel position."""
    if align_corners:
        return (coordinate + 1) / 2 * (size - 1)
    return ((coordinate + 1) * size - 1) / 2


def _reflect(at: Any, size: int, *, align_corners: bool) -> Any:
    """Reflect a position at the borders, as often as needed."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return jnp.zeros_like(at)
    distance = jnp.abs(at - low)
    reflections = jnp.floor(distance / span)
    remainder = distance - reflections * span
    return low + jnp.where(reflections % 2 == 0, remainder, span - remainder)


def _move_inside(at: Any, size: int, padding_mode: str, *, align_corners: bool) -> Any:
    """Move a position into the image, unless padding is zeros."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        at = _reflect(at, size, align_corners=align_corners)
    return jnp.clip(at, 0, size - 1)


def _tap_weights(fraction: Any, mode: str) -> list[Any]:
    """Return the weights of the pixels around a position, from its fractional part."""
    if mode == "linear":
        return [1 - fraction, fraction]
    return [_cubic_weight(abs(d - fraction), near=abs(d - 0.5) < 1) for d in (-1, 0, 1, 2)]


def _cubic_weight(distance: Any, *, near: bool) -> Any:
    if near:
        return ((CUBIC + 2) * distance - (CUBIC + 3)) * distance * distance + 1
    return ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC


def _taps(at: Any, size: int, attrs: Attrs) -> Iterator[Tap]:
    """Iterate over the pixels that a position reads along an axis, with their weights."""
    mode, padding_mode = str(attrs["mode"]), str(attrs["padding_mode"])
    align_corners = bool(attrs["align_corners"])
    if mode != "cubic":
        at = _move_inside(at, size, padding_mode, align_corners=align_corners)
    if mode == "nearest":
        places, weights = [jnp.round(at)], [jnp.ones_like(at)]
    else:
        base = jnp.floor(at)
        first = -1 if mode == "cubic" else 0
        weights = _tap_weights(at - base, mode)
        places = [base + first + k for k in range(len(weights))]
    for place, weight in zip(places, weights, strict=True):
        is_inside = (place >= 0) & (place <= size - 1)
        if padding_mode != "zeros":
            place = _move_inside(place, size, padding_mode, align_corners=align_corners)
            is_inside = jnp.ones_like(is_inside)
        indices = jnp.clip(jnp.round(place), 0, size - 1).astype("int32")
        yield indices, jnp.where(is_inside, weight, jnp.zeros_like(weight))


# ---- the operator ----------------------------------------------------------------------------


@op(
    axes=grid_sample_axis_map,
    dtypes=grid_sample_dtype,
    operations=read_pixels,
    examples=(
        "x=f32[2,3,4,5] grid=f32[2,3,2,2]",
        "x=f64[b,2,4,5] grid=f64[b,3,t,2] mode=nearest padding_mode=border",
        "x=f64[b,2,h,w] grid=f64[b,3,4,2] align_corners=True padding_mode=reflection",
        "x=f64[1,2,5] grid=f64[1,3,1] mode=cubic",
        "x=f64[1,1,5] grid=f64[1,3,1] mode=cubic padding_mode=reflection",
        "x=f64[1,1,3,4,2] grid=f64[1,2,2,2,3] padding_mode=border",
        "x=f32[2,3,7] grid=f32[2,4,1]",
        "x=f32[0,3,4,4] grid=f32[0,2,2,2]",
    ),
)
@in_float32
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Images interpolated at the positions of a grid.

        out[n, c, i, j] = x[n, c] at grid[n, i, j]

    Coordinates go from -1 to 1 over the image. The first coordinate belongs to the last axis of
    the images: the order is (x, y). Both inputs have gradients, except the grid if `mode` is
    "nearest". Source: Jaderberg et al., Spatial Transformer Networks, 2015.

    Inputs:
        x: number[n, c, *plane]. One axis, two, three or more.
        grid: number[n, *places, len(plane)]. The coordinates of each place.

    Attributes:
        mode: "nearest" reads one pixel, "linear" two along each axis, "cubic" four.
        padding_mode: The values outside of the image: "zeros", the pixels at its "border", or
            its "reflection".
        align_corners: Whether -1 and 1 are the centers of the first and last pixels; otherwise
            they are the outer borders.

    Outputs:
        out: float[n, c, *places].

    Raises:
        ShapeError: If the ranks of the grid and `x` differ, or the number of coordinates is
            wrong.
        ProgramError: If `mode` or `padding_mode` is unknown.
        DTypeError: If the dtype is complex.
    """
    x, grid = promote_arrays(as_floating(x), as_floating(grid))
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    coordinates = reversed(jnp.unstack(grid, axis=-1))
    return interpolate_at(
        x,
        [
            _to_pixel_position(at, size, align_corners=align_corners)
            for at, size in zip(coordinates, x.shape[2:], strict=True)
        ],
        attrs,
    )


def interpolate_at(x: Any, positions: Sequence[Any], attrs: Attrs) -> Any:
    """Interpolate images at pixel positions.

    Args:
        x: number[n, c, *plane].
        positions: For each axis of the plane, float[n, *places].
        attrs: `mode`, `padding_mode` and `align_corners`, as for `grid_sample`.

    Returns:
        number[n, c, *places].
    """
    total = jnp.zeros((*x.shape[:2], *positions[0].shape[1:]), x.dtype)
    if 0 in x.shape:
        return total
    pairs = zip(positions, x.shape[2:], strict=True)
    taps = [list(_taps(at, size, attrs)) for at, size in pairs]
    for combination in itertools.product(*taps):
        total = total + _read_pixel(x, combination)
    return total


def _read_pixel(x: Any, combination: tuple[Tap, ...]) -> Any:
    """Gather one pixel for each place and multiply it by its weight."""
    index, weight = combination[0]
    for size, (place, factor) in zip(x.shape[3:], combination[1:], strict=True):
        index, weight = index * size + place, weight * factor
    flat = x.reshape(*x.shape[:2], -1)
    pixels = jax.vmap(lambda image, at: jnp.take(image, at, axis=1, mode="clip"))(flat, index)
    return pixels * weight[:, None]
