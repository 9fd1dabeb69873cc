"""Images read at places that lie between their pixels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    mapped,
    numbered,
    shape_of,
)
from braces.define.decorator import Tensor, op
from braces.dims import Size, product
from braces.dtypes import DType
from braces.errors import ProgramError
from braces.lazy import jax, jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import floating, promoted, real_function

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
"""How many pixels count along each axis, by mode."""
PADDINGS = ("zeros", "border", "reflection")
CUBIC = -0.75
"""The slope of the cubic curve at distance 1."""

Tap: TypeAlias = "tuple[Any, Any]"
"""The place of a pixel along an axis, and its weight, for each position."""


def sampled(types: Types, attrs: Attrs) -> AxisMap:
    """Each place of the grid is on its own, and so is each channel."""
    del attrs
    x, grid = (shape_of(types[slot][0]) for slot in ("x", "grid"))
    plane = len(x) - 2
    if plane < 1 or len(grid) != len(x):
        raise AxisError(
            f"needs a grid and images of as many axes, 3 or more, not {len(grid)} and {len(x)}."
        )
    if isinstance(grid[-1], int) and grid[-1] != plane:
        raise AxisError(f"needs {plane} coordinates for each place, not {grid[-1]}.")
    pixels, places = numbered(plane, "pixel"), numbered(plane, "place")
    return mapped(
        types,
        {"x": (("n", "c", *pixels),), "grid": (("n", *places, "coordinate"),)},
        {"out": (("n", "c", *places),)},
        [*pixels, "coordinate"],
    )


def between_pixels(
    what: str, *dtypes: DType, mode: str, padding_mode: str, **attrs: Any
) -> DType:
    """The floating dtype of both."""
    for name, value, known in (
        ("mode", mode, tuple(TAPS)),
        ("padding_mode", padding_mode, PADDINGS),
    ):
        if value not in known:
            raise ProgramError(
                f"{what} has {name}={value!r}.", fix=f"Say one of {', '.join(known)}."
            )
    return real_function(what, *dtypes, **attrs)


def read_pixels(types: Types, attrs: Attrs) -> Size:
    """For each place the weights of pixels, and for each channel their sum."""
    batch, channels, *plane = shape_of(types["x"][0])
    along = TAPS[str(attrs["mode"])]
    pixels = along ** len(plane)
    each = 30 if attrs["padding_mode"] == "reflection" else 10
    weights = 2 * pixels * len(plane) + each * along * len(plane)
    places = shape_of(types["grid"][0])[1:-1]
    return product((batch, *places, 2 * pixels * channels + weights))


# ---- along one axis --------------------------------------------------------------------------


def _position(coordinate: Any, size: int, *, align_corners: bool) -> Any:
    """Where a coordinate from -1 to 1 lies among the pixels."""
    if align_corners:
        return (coordinate + 1) / 2 * (size - 1)
    return ((coordinate + 1) * size - 1) / 2


def _reflected(at: Any, size: int, *, align_corners: bool) -> Any:
    """A position, thrown back at the borders as often as needed."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return jnp.zeros_like(at)
    beyond = jnp.abs(at - low)
    turns = jnp.floor(beyond / span)
    rest = beyond - turns * span
    return low + jnp.where(turns % 2 == 0, rest, span - rest)


def _inside(at: Any, size: int, padding_mode: str, *, align_corners: bool) -> Any:
    """A position brought among the pixels, but for zeros beyond."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        at = _reflected(at, size, align_corners=align_corners)
    return jnp.clip(at, 0, size - 1)


def _curves(part: Any, mode: str) -> list[Any]:
    """The weights of the pixels around a position that lies so far behind one."""
    if mode == "linear":
        return [1 - part, part]
    return [_cubic(abs(d - part), near=abs(d - 0.5) < 1) for d in (-1, 0, 1, 2)]


def _cubic(distance: Any, *, near: bool) -> Any:
    if near:
        return ((CUBIC + 2) * distance - (CUBIC + 3)) * distance * distance + 1
    return ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC


def _taps(at: Any, size: int, attrs: Attrs) -> Iterator[Tap]:
    """The pixels that count along an axis, and their weights."""
    mode, padding_mode = str(attrs["mode"]), str(attrs["padding_mode"])
    align_corners = bool(attrs["align_corners"])
    if mode != "cubic":
        at = _inside(at, size, padding_mode, align_corners=align_corners)
    if mode == "nearest":
        places, weights = [jnp.round(at)], [jnp.ones_like(at)]
    else:
        base = jnp.floor(at)
        first = -1 if mode == "cubic" else 0
        weights = _curves(at - base, mode)
        places = [base + first + k for k in range(len(weights))]
    for place, weight in zip(places, weights, strict=True):
        known = (place >= 0) & (place <= size - 1)
        if padding_mode != "zeros":
            place = _inside(place, size, padding_mode, align_corners=align_corners)
            known = jnp.ones_like(known)
        whole = jnp.clip(jnp.round(place), 0, size - 1).astype("int32")
        yield whole, jnp.where(known, weight, jnp.zeros_like(weight))


# ---- the operator ----------------------------------------------------------------------------


@op(
    axes=sampled,
    dtypes=between_pixels,
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
    """Images read where a grid says, at places that lie between their pixels.

        out[n, c, i, j] = x[n, c] at grid[n, i, j]

    Coordinates go from -1 to 1 over the image. The first of them runs along the last axis of
    the images, as x and y do. There are gradients of both inputs, of the grid none where `mode`
    is "nearest". Source: Jaderberg et al., Spatial Transformer Networks, 2015.

    Inputs:
        x: number[n, c, *plane]. One axis, two, three or more.
        grid: number[n, *places, len(plane)]. The coordinates of each place.

    Attributes:
        mode: "nearest" takes one pixel, "linear" two along each axis, "cubic" four.
        padding_mode: What lies beyond the image: "zeros", the pixels at its "border", or its
            "reflection".
        align_corners: Whether -1 and 1 are the middles of the first and last pixels, or else
            their outer borders.

    Outputs:
        out: float[n, c, *places].

    Raises:
        ShapeError: The grid has not as many axes as `x`, or not a coordinate for each axis.
        ProgramError: A word is none of those.
        DTypeError: Complex numbers.
    """
    x, grid = promoted(floating(x), floating(grid))
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    coordinates = reversed(jnp.unstack(grid, axis=-1))
    return read_between(
        x,
        [
            _position(at, size, align_corners=align_corners)
            for at, size in zip(coordinates, x.shape[2:], strict=True)
        ],
        attrs,
    )


def read_between(x: Any, positions: Sequence[Any], attrs: Attrs) -> Any:
    """Images read at positions, which count their pixels.

    Args:
        x: number[n, c, *plane].
        positions: For each axis of the plane, float[n, *places].
        attrs: The mode, what lies beyond, and where corners are, as `grid_sample` has them.

    Returns:
        number[n, c, *places].
    """
    made = jnp.zeros((*x.shape[:2], *positions[0].shape[1:]), x.dtype)
    if 0 in x.shape:
        return made
    pairs = zip(positions, x.shape[2:], strict=True)
    taps = [list(_taps(at, size, attrs)) for at, size in pairs]
    for chosen in itertools.product(*taps):
        made = made + _read(x, chosen)
    return made


def _read(x: Any, chosen: tuple[Tap, ...]) -> Any:
    """One pixel for each place, times its weight."""
    number, weight = chosen[0]
    for size, (place, factor) in zip(x.shape[3:], chosen[1:], strict=True):
        number, weight = number * size + place, weight * factor
    flat = x.reshape(*x.shape[:2], -1)
    read = jax.vmap(lambda image, at: jnp.take(image, at, axis=1, mode="clip"))(flat, number)
    return read * weight[:, None]
