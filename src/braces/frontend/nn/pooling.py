"""Pools to a size that is said, to one number, and other ways to bring pictures to a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Dim, Size, divide_exactly
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building, operand
from braces.ops.conv_pool.data_layouts import LAYOUTS, spatial_axes

Sizes: TypeAlias = "Size | Sequence[Size | None]"

# ---- to a size -------------------------------------------------------------------------------


def to_sizes(op_type: str, x: Var, axes: Sequence[int], wanted: Sizes) -> Var:
    """`x` with axes of the sizes that are wanted, each element made of a part of each axis.

    Args:
        op_type: The reduction of each part: `mean` or `max`.
        x: What is made smaller.
        axes: Those that are.
        wanted: The size of each, `None` for one that stays; or one for all.
    """
    given = [wanted] * len(axes) if isinstance(wanted, int | Dim) else list(wanted)
    if all(n is not None and _same(n, 1) for n in given):
        return one(op_type, x, axis=tuple(axes), keepdims=True)
    for at, size in zip(axes, given, strict=True):
        x = x if size is None or _same(size, x.shape[at]) else _parts(op_type, x, at, size)
    return x


def _same(x: Size, y: Size) -> bool:
    return isinstance(x, int) == isinstance(y, int) and x == y


def _parts(op_type: str, x: Var, at: int, count: Size) -> Var:
    """An axis brought to so many parts, which may overlap by one."""
    whole = x.shape[at]
    part = divide_exactly(whole, count)
    if part is not None:
        shape = (*x.shape[:at], count, part, *x.shape[at + 1 :])
        return one(op_type, ops.reshape(x, shape), axis=at + 1)
    if not isinstance(whole, int) or not isinstance(count, int):
        raise ShapeError(f"An axis of {whole} is not brought to {count} parts.")
    index = [slice(i * whole // count, -(-(i + 1) * whole // count)) for i in range(count)]
    front = [slice(None)] * at
    made = [one(op_type, x[(*front, part)], axis=at, keepdims=True) for part in index]
    return ops.concat(made, axis=at)


def picture_axes(what: str, x: Var, rank: int, layout: str) -> tuple[int, ...]:
    """The spatial axes of a picture in this layout.

    Raises:
        ShapeError: It is no layout of so many axes, or `x` has others.
    """
    known = [name for name in LAYOUTS if len(name) == rank + 2]
    if layout not in known or x.ndim != rank + 2:
        raise ShapeError(
            f"{what} cannot read `{x.name}` in the layout {layout!r}.",
            given=f"{x.name}: {x.type}",
            fix=f"Use {' or '.join(known)}, with {rank + 2} axes.",
        )
    return spatial_axes(layout)


def _adaptive(
    what: str, op_type: str, rank: int, x: Any, size: Sizes, layout: str, name: str
) -> Var:
    x = operand(x, what)
    axes = picture_axes(what, x, rank, layout)
    given = (size,) * rank if isinstance(size, int | Dim) else tuple(size)
    if len(given) != rank or any(isinstance(n, int) and n < 1 for n in given):
        raise ShapeError(
            f"{what} needs {rank} sizes of at least 1, not {size!r:.40}.",
            fix="Give one for all axes, or one for each; None leaves an axis as it is.",
        )

    def built() -> Var:
        found = to_sizes(op_type, x, axes, given)
        return ops.identity(x) if found is x else found

    return composed(name or what, built)


@building
def adaptive_avg_pool1d(x: Any, size: Sizes, *, layout: str = "NCW", name: str = "") -> Var:
    """The mean of parts of one axis, as `adaptive_avg_pool2d`; the layout is `NCW` or `NWC`."""
    return _adaptive("adaptive_avg_pool1d", "mean", 1, x, size, layout, name)


@building
def adaptive_avg_pool2d(x: Any, size: Sizes, *, layout: str = "NCHW", name: str = "") -> Var:
    """The mean of parts of a picture, as many as are asked for.

    Part `i` of `n` of an axis of `size` numbers goes from `floor(i * size / n)` to
    `ceil((i + 1) * size / n)`; parts overlap where `n` is no divisor.

    Args:
        x: number[n, c, h, w], or in the order of `layout`.
        size: The sizes of the result, or one for both; `None` leaves an axis as it is.
        layout: `"NCHW"` or `"NHWC"`.
        name: For the block.

    Raises:
        ShapeError: Too many sizes or too few, or one that divides a symbolic axis into parts
            that are not the same.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["b", 3, 7, 8])
        ...     print(br.adaptive_avg_pool2d(x, [2, 4]).type)
        f32[b,3,2,4]
    """
    return _adaptive("adaptive_avg_pool2d", "mean", 2, x, size, layout, name)


@building
def adaptive_avg_pool3d(x: Any, size: Sizes, *, layout: str = "NCDHW", name: str = "") -> Var:
    """The mean of parts along three axes, as `adaptive_avg_pool2d`; `NCDHW` or `NDHWC`."""
    return _adaptive("adaptive_avg_pool3d", "mean", 3, x, size, layout, name)


@building
def adaptive_max_pool1d(x: Any, size: Sizes, *, layout: str = "NCW", name: str = "") -> Var:
    """The largest of parts of one axis; the parts are those of `adaptive_avg_pool2d`."""
    return _adaptive("adaptive_max_pool1d", "max", 1, x, size, layout, name)


@building
def adaptive_max_pool2d(x: Any, size: Sizes, *, layout: str = "NCHW", name: str = "") -> Var:
    """The largest of parts of a picture; the parts are those of `adaptive_avg_pool2d`."""
    return _adaptive("adaptive_max_pool2d", "max", 2, x, size, layout, name)


@building
def adaptive_max_pool3d(x: Any, size: Sizes, *, layout: str = "NCDHW", name: str = "") -> Var:
    """The largest of parts along three axes; the parts are those of `adaptive_avg_pool2d`."""
    return _adaptive("adaptive_max_pool3d", "max", 3, x, size, layout, name)


# ---- to one number ---------------------------------------------------------------------------


@building
def global_avg_pool(
    x: Any, *, layout: str | None = None, keepdims: bool = False, name: str = ""
) -> Var:
    """The mean of each channel of each example.

    Args:
        x: number[n, c, *space], or in the order of `layout`.
        layout: As `"NHWC"`; channels come first where nothing is said.
        keepdims: Whether spatial axes stay, with size 1.
        name: For the result.

    Returns:
        [n, c].

    Raises:
        ShapeError: There is no such layout, or no spatial axis.
    """
    return _global("global_avg_pool", "mean", x, layout, keepdims, name)


@building
def global_max_pool(
    x: Any, *, layout: str | None = None, keepdims: bool = False, name: str = ""
) -> Var:
    """The largest number of each channel of each example; see `global_avg_pool`."""
    return _global("global_max_pool", "max", x, layout, keepdims, name)


def _global(
    what: str, op_type: str, x: Any, layout: str | None, keepdims: bool, name: str
) -> Var:
    x = operand(x, what)
    first = next((one for one in LAYOUTS if len(one) == x.ndim), "")
    axes = picture_axes(what, x, max(x.ndim - 2, 1), first if layout is None else layout)
    return one(op_type, x, axis=axes, keepdims=keepdims, name=name)


# ---- larger, and channels as places ----------------------------------------------------------

MODES = ("nearest", "linear", "cubic")


@building
def upsample(
    x: Any,
    factor: int | Sequence[int],
    mode: str = "nearest",
    *,
    align_corners: bool = False,
    layout: str | None = None,
    name: str = "",
) -> Var:
    """Pictures so many times as large, by numbers between those that are there.

    `br.resize` brings them to any size.

    Args:
        x: number[n, c, *space], or in the order of `layout`.
        factor: How many times, for all spatial axes or for each.
        mode: `"nearest"`, `"linear"` along each axis, or `"cubic"`.
        align_corners: Whether the first and the last number stay at the ends.
        layout: As `"NHWC"`; channels come first where nothing is said.
        name: For the result.

    Raises:
        ShapeError: There is no such layout, or no spatial axis.
        ProgramError: A factor is below 1, there are too many or too few, or an unknown mode.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["b", 3, "h", 8])
        ...     print(br.upsample(x, 2, "linear").type)
        f32[b,3,2*h,16]
    """
    x = operand(x, "upsample")
    first = next((one for one in LAYOUTS if len(one) == x.ndim), "")
    axes = picture_axes("upsample", x, max(x.ndim - 2, 1), layout or first)
    factors = [factor] * len(axes) if isinstance(factor, int) else list(factor)
    if len(factors) != len(axes) or any(one < 1 for one in factors):
        raise ProgramError(
            f"upsample needs {len(axes)} factors of at least 1, not {factor!r:.40}.",
            fix="Give one for all axes, or one for each; br.resize makes smaller.",
        )
    if mode not in MODES or (align_corners and mode == "nearest"):
        raise ProgramError(
            f"upsample has no mode {mode!r:.40}{' with align_corners' * align_corners}.",
            fix=f"Use one of {', '.join(MODES)}; align_corners goes with the last two.",
        )
    times = dict(zip(axes, factors, strict=True))
    shape = tuple(n * times.get(axis, 1) for axis, n in enumerate(x.shape))
    coordinates = "align_corners" if align_corners else "half_pixel"
    return one("resize", x, shape=shape, mode=mode, coordinates=coordinates, name=name)


@building
def pixel_shuffle(x: Any, factor: int, *, layout: str = "NCHW", name: str = "") -> Var:
    """Channels as blocks of pixels: a picture `factor` times as large.

        out[n, c, h * factor + i, w * factor + j] = x[n, (c * factor + i) * factor + j, h, w]

    Source: Shi et al., Real-Time Single Image and Video Super-Resolution, 2016.

    Args:
        x: [n, c * factor^2, h, w], or in the order of `layout`.
        factor: The size of blocks.
        layout: `"NCHW"` or `"NHWC"`; channels are numbered in the same way.
        name: For the result.

    Raises:
        ShapeError: Channels are no multiple of `factor^2`.
    """
    x = operand(x, "pixel_shuffle")
    picture_axes("pixel_shuffle", x, 2, layout)
    _check_factor("pixel_shuffle", factor)
    n, c, h, w = (x.shape[layout.index(letter)] for letter in "NCHW")
    deep = divide_exactly(c, factor * factor)
    if deep is None:
        raise ShapeError(f"{c} channels cannot be split into blocks of {factor} by {factor}.")
    if layout == "NCHW":
        apart = ops.reshape(x, (n, deep, factor, factor, h, w))
        order, shape = (0, 1, 4, 2, 5, 3), (n, deep, h * factor, w * factor)
    else:
        apart = ops.reshape(x, (n, h, w, deep, factor, factor))
        order, shape = (0, 1, 4, 2, 5, 3), (n, h * factor, w * factor, deep)
    return one("reshape", ops.permute_dims(apart, order), shape=shape, name=name)


@building
def pixel_unshuffle(x: Any, factor: int, *, layout: str = "NCHW", name: str = "") -> Var:
    """Blocks of pixels as channels: the inverse of `pixel_shuffle`.

    Args:
        x: [n, c, h * factor, w * factor], or in the order of `layout`.
        factor: The size of blocks.
        layout: `"NCHW"` or `"NHWC"`.
        name: For the result.

    Raises:
        ShapeError: The picture is not made of such blocks.
    """
    x = operand(x, "pixel_unshuffle")
    picture_axes("pixel_unshuffle", x, 2, layout)
    _check_factor("pixel_unshuffle", factor)
    n, c, h, w = (x.shape[layout.index(letter)] for letter in "NCHW")
    high, wide = (divide_exactly(size, factor) for size in (h, w))
    if high is None or wide is None:
        raise ShapeError(f"A plane of {h} by {w} is not made of blocks of {factor}.")
    deep = c * (factor * factor)
    if layout == "NCHW":
        apart = ops.reshape(x, (n, c, high, factor, wide, factor))
        order, shape = (0, 1, 3, 5, 2, 4), (n, deep, high, wide)
    else:
        apart = ops.reshape(x, (n, high, factor, wide, factor, c))
        order, shape = (0, 1, 3, 5, 2, 4), (n, high, wide, deep)
    return one("reshape", ops.permute_dims(apart, order), shape=shape, name=name)


def _check_factor(what: str, factor: Any) -> None:
    if not isinstance(factor, int) or factor < 1:
        raise ShapeError(f"{what} needs a factor of at least 1, not {factor!r:.40}.")
