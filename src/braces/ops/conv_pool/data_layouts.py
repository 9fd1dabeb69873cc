"""Data layouts, padding and output sizes, shared by convolution and pooling.

A layout names the axes of `x` in order: `N` the batch, `C` the channels, the other letters the
spatial axes. Weights follow it: output channels, input channels, window where channels come
first (`NCHW`: `OIHW`); window, input channels, output channels where they come last (`NHWC`:
`HWIO`).

Along a spatial axis of size `n`, a window of `k` elements at distance `dilation` spans
`reach = (k - 1) * dilation + 1`, and the size of the result is

    padding            result
    "valid"            max((n - reach) // stride + 1, 0)
    "same"             (n + stride - 1) // stride; an odd padding has one more at the end
    (p, …)             max((n + low + high - reach) // stride + 1, 0)

With `ceil_mode`, an option of pooling, elements that fill no window get one more window. It
begins before the padding at the end:

    max((n + low - 1 + min(high + stride - reach, 0)) // stride + 1, 0)

Numbers of `padding` are one for all edges, one for each spatial axis, or (low, high) for each
spatial axis in turn. If the size is known, a window that does not fit raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from braces.define.decorator import Padding
from braces.dims import Size, call
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.ops.conv_pool.cpu_algorithms import dilated_span

Pads: TypeAlias = "str | list[tuple[int, int]]"

LAYOUTS: dict[str, str] = {
    "NCW": "OIW", "NWC": "WIO", "NCHW": "OIHW", "NHWC": "HWIO", "NCDHW": "OIDHW",
    "NDHWC": "DHWIO",
}  # fmt: skip
"""Maps the layout of the input to the layout of the weight."""
CHANNELS_FIRST = {len(layout) - 2: layout for layout in LAYOUTS if layout[1] == "C"}
CHANNELS_LAST = {len(layout) - 2: layout for layout in LAYOUTS if layout[-1] == "C"}
"""Layouts by the number of spatial axes."""


def check_layout(layout: str, rank: int) -> str:
    """Check that a layout exists for arrays of this rank, and return it.

    Raises:
        ShapeError: If the layout is unknown or has a different rank.
    """
    layouts = [name for name in LAYOUTS if len(name) == rank]
    if layout not in layouts:
        raise ShapeError(
            f"unknown layout {layout!r} for an array of rank {rank}.",
            fix=f"Use {' or '.join(layouts)}.",
        )
    return layout


def spatial_axes(layout: str) -> tuple[int, ...]:
    """Return the spatial axes of a layout."""
    return tuple(axis for axis, letter in enumerate(layout) if letter not in "NCOI")


def per_axis(values: Sequence[int], count: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Return one number for each spatial axis; a single number is repeated.

    Raises:
        ShapeError: If the number of values is wrong, or a value is below `least`.
    """
    if len(values) not in (1, count):
        raise ShapeError(
            f"`{what}` has {len(values)} entries for {count} spatial axes.",
            given=f"{what}={tuple(values)}",
            fix="Pass one integer for all axes, or one for each.",
        )
    if min(values) < least:
        raise ShapeError(f"`{what}` must be at least {least}.", given=f"{what}={tuple(values)}")
    return tuple(values) * (count // len(values))


def pads_of(padding: Padding, count: int) -> Pads:
    """Convert padding to the form of `jax.lax`: `"SAME"`, or (low, high) for each spatial axis.

    Raises:
        ShapeError: If the padding is neither a known mode nor a number for each axis or edge.
    """
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ShapeError(
                f"unknown padding {padding!r}.", fix="Use 'same', 'valid' or integers."
            )
        return "SAME" if padding == "same" else [(0, 0)] * count
    if len(padding) == 2 * count:
        edges = per_axis(padding, 2 * count, "padding", least=0)
        return list(zip(edges[::2], edges[1::2], strict=True))
    return [(n, n) for n in per_axis(padding, count, "padding", least=0)]


def windowed_size(
    size: Size,
    reach: int,
    stride: int,
    pads: tuple[int, int] | None,
    what: str,
    ceil_mode: bool = False,
) -> Size:
    """Return the number of windows along an axis; `pads` is `None` for "same".

    Raises:
        ShapeError: If the size is known and smaller than the window.
    """
    if pads is None:
        return (size + stride - 1) // stride
    room = room_for(size, reach, stride, pads, ceil_mode)
    if isinstance(room, int) and room < 0:
        raise ShapeError(
            (f"{what}: " if what else "")
            + f"a window of {reach} elements does not fit into an axis of size {size}"
            + (f" with padding {sum(pads)}." if sum(pads) else "."),
            fix="Use padding='same', more padding, or a smaller window.",
        )
    return call("max", room // stride + 1, 0)


def room_for(
    size: Size, reach: int, stride: int, pads: tuple[int, int], ceil_mode: bool
) -> Size:
    """Return the largest start of a window, counted from the start of the padding."""
    low, high = pads
    return size + (low - 1 + min(high + stride - reach, 0) if ceil_mode else low + high - reach)


def windowed_sizes(
    x: TensorType,
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Padding,
    layout: str,
    what: str,
    ceil_mode: bool = False,
) -> dict[int, Size]:
    """Return the sizes of the result by spatial axis."""
    axes = spatial_axes(layout)
    strides = per_axis(stride, len(axes), "stride")
    dilations = per_axis(dilation, len(axes), "dilation")
    pads = pads_of(padding, len(axes))
    return {
        axis: windowed_size(
            x.shape[axis],
            dilated_span(window[i], dilations[i]),
            strides[i],
            None if isinstance(pads, str) else pads[i],
            what,
            ceil_mode,
        )
        for i, axis in enumerate(axes)
    }


def check_windows(
    sizes: Sequence[int],
    reaches: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    ceil_mode: bool = False,
) -> None:
    """Check that windows fit into the spatial axes of a run, whose sizes are known (kernel).

    An empty axis has no windows.

    Raises:
        ShapeError: If an axis, with its padding, is smaller than the window.
    """
    if isinstance(pads, str):
        return
    for size, reach, stride, edges in zip(sizes, reaches, strides, pads, strict=True):
        if size:
            windowed_size(size, reach, stride, edges, "", ceil_mode)


def check_rank(x: TensorType, rank: int, what: str) -> None:
    """Check the rank of an array.

    Raises:
        ShapeError: If the rank differs.
    """
    if x.rank != rank:
        raise ShapeError(
            f"{what}: expected rank {rank}, got {x}.",
            fix="Pass batch, channel and spatial axes; br.expand_dims adds an axis.",
        )
