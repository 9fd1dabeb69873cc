"""Adaptive and global pooling, upsampling and pixel shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from braces.builder.append import emit
from braces.builder.var import Var
from braces.dims import Dim, Size, divide_exactly
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.ops.conv_pool.data_layouts import CHANNELS_FIRST, LAYOUTS, spatial_axes
from braces.ops.conv_pool.spatial_ranks import name_for_rank

Sizes: TypeAlias = "Size | Sequence[Size | None]"

# ---- adaptive --------------------------------------------------------------------------------


def pool_to_sizes(op_type: str, x: Var, axes: Sequence[int], wanted: Sizes) -> Var:
    """Reduce axes of `x` to given sizes; each element is a reduction of a part of each axis.

    Args:
        op_type: The reduction of each part: `mean` or `max`.
        x: The input.
        axes: The axes to reduce.
        wanted: The size of each, `None` to keep one; or one size for all.
    """
    sizes = [wanted] * len(axes) if isinstance(wanted, int | Dim) else list(wanted)
    if all(n is not None and _same_size(n, 1) for n in sizes):
        return emit(op_type, x, axis=tuple(axes), keepdims=True)
    for index, size in zip(axes, sizes, strict=True):
        x = (
            x
            if size is None or _same_size(size, x.shape[index])
            else _reduce_axis(op_type, x, index, size)
        )
    return x


def _same_size(x: Size, y: Size) -> bool:
    return isinstance(x, int) == isinstance(y, int) and x == y


def _reduce_axis(op_type: str, x: Var, at: int, count: Size) -> Var:
    """Reduce an axis to a number of parts, which may overlap by one element."""
    size = x.shape[at]
    part = divide_exactly(size, count)
    if part is not None:
        shape = (*x.shape[:at], count, part, *x.shape[at + 1 :])
        return emit(op_type, ops.reshape(x, shape), axis=at + 1)
    if not isinstance(size, int) or not isinstance(count, int):
        raise ShapeError(
            f"pooling an axis of size {size} to size {count} is unsupported: it needs constant "
            "sizes, or a size that divides."
        )
    index = [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    front = [slice(None)] * at
    pieces = [emit(op_type, x[(*front, part)], axis=at, keepdims=True) for part in index]
    return ops.concat(pieces, axis=at)


def image_axes(what: str, x: Var, rank: int, layout: str) -> tuple[int, ...]:
    """Return the spatial axes of an image in a layout.

    Raises:
        ShapeError: If the rank of the layout or of `x` is wrong.
    """
    layouts = [name for name in LAYOUTS if len(name) == rank + 2]
    if layout not in layouts or x.ndim != rank + 2:
        raise ShapeError(
            f"layout {layout!r} does not match `{x.name}` in {what}.",
            given=f"{x.name}: {x.type}",
            fix=f"Use {' or '.join(layouts)}, and an array of rank {rank + 2}.",
        )
    return spatial_axes(layout)


def _pool_adaptively(
    kind: str, op_type: str, rank: int, x: Any, size: Sizes, layout: str, name: str
) -> Var:
    what = f"adaptive_{kind}_pool{rank}d"
    x = operand(x, what)
    axes = image_axes(what, x, rank, layout)
    sizes = (size,) * rank if isinstance(size, int | Dim) else tuple(size)
    if len(sizes) != rank or any(isinstance(n, int) and n < 1 for n in sizes):
        raise ShapeError(
            f"{what}: expected {rank} sizes of at least 1, got {size!r:.40}.",
            fix="Pass one for all axes, or one for each; None leaves an axis unchanged.",
        )

    def build() -> Var:
        pooled = pool_to_sizes(op_type, x, axes, sizes)
        return ops.identity(x) if pooled is x else pooled

    return compose_block(name or what, build)


def _adaptive_pool(rank: int, kind: str, op_type: str, title: str):
    @transactional
    @name_for_rank(rank, f"adaptive_{kind}_pool", kind=kind, op=op_type, title=title)
    def adaptive_pool(
        x: Any, size: Sizes, *, layout: str = CHANNELS_FIRST[rank], name: str = ""
    ) -> Var:
        """Adaptive $title pooling of $axes to a given output size.

        Each element of the result is the $op of a part. Part `i` of `n` of an axis of `size`
        numbers goes from `floor(i * size / n)` to `ceil((i + 1) * size / n)`; parts overlap if
        `n` does not divide `size`.

        Args:
            x: number[n, c, *space], or in the order of `layout`.
            size: The sizes of the result, or one for all; `None` keeps the size of an axis.
            layout: `"$first"` or `"$last"`.
            name: The name of the block.

        Raises:
            ShapeError: If the number of sizes is wrong, or a symbolic axis is not divisible by
                its size.

        Example:
            >>> import braces as br
            >>> with br.Program():
            ...     x = br.data("x", ["b", 3, 7, 8])
            ...     print(br.layers.adaptive_${kind}_pool2d(x, [2, 4]).type)
            f32[b,3,2,4]
        """
        return _pool_adaptively(kind, op_type, rank, x, size, layout, name)

    return adaptive_pool


adaptive_avg_pool1d = _adaptive_pool(1, "avg", "mean", "average")
adaptive_avg_pool2d = _adaptive_pool(2, "avg", "mean", "average")
adaptive_avg_pool3d = _adaptive_pool(3, "avg", "mean", "average")
adaptive_max_pool1d = _adaptive_pool(1, "max", "max", "max")
adaptive_max_pool2d = _adaptive_pool(2, "max", "max", "max")
adaptive_max_pool3d = _adaptive_pool(3, "max", "max", "max")


# ---- global ----------------------------------------------------------------------------------


@transactional
def global_avg_pool(
    x: Any, *, layout: str | None = None, keepdims: bool = False, name: str = ""
) -> Var:
    """Global average pooling: the mean of each channel of each example.

    Args:
        x: number[n, c, *space], or in the order of `layout`.
        layout: For example `"NHWC"`; channels first by default.
        keepdims: Whether to keep spatial axes, with size 1.
        name: The name of the result.

    Returns:
        [n, c].

    Raises:
        ShapeError: If the layout is unknown, or has no spatial axis.
    """
    return _pool_globally("global_avg_pool", "mean", x, layout, keepdims, name)


@transactional
def global_max_pool(
    x: Any, *, layout: str | None = None, keepdims: bool = False, name: str = ""
) -> Var:
    """Global max pooling: the maximum of each channel; see `global_avg_pool`."""
    return _pool_globally("global_max_pool", "max", x, layout, keepdims, name)


def _pool_globally(
    what: str, op_type: str, x: Any, layout: str | None, keepdims: bool, name: str
) -> Var:
    x = operand(x, what)
    first = next((text for text in LAYOUTS if len(text) == x.ndim), "")
    axes = image_axes(what, x, max(x.ndim - 2, 1), first if layout is None else layout)
    return emit(op_type, x, axis=axes, keepdims=keepdims, name=name)


# ---- upsampling and pixel shuffles -----------------------------------------------------------

MODES = ("nearest", "linear", "cubic")


@transactional
def upsample(
    x: Any,
    factor: int | Sequence[int],
    mode: str = "nearest",
    *,
    align_corners: bool = False,
    layout: str | None = None,
    name: str = "",
) -> Var:
    """Upsample images by integer factors, by interpolation.

    `br.image.resize` resizes to any size.

    Args:
        x: number[n, c, *space], or in the order of `layout`.
        factor: The factor of all spatial axes, or of each.
        mode: `"nearest"`, `"linear"` along each axis, or `"cubic"`.
        align_corners: Whether the corner elements of input and output are aligned.
        layout: For example `"NHWC"`; channels first by default.
        name: The name of the result.

    Raises:
        ShapeError: If the layout is unknown, or has no spatial axis.
        ProgramError: If a factor is below 1, the number of factors is wrong, or the mode is
            unknown.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["b", 3, "h", 8])
        ...     print(br.image.upsample(x, 2, "linear").type)
        f32[b,3,2*h,16]
    """
    x = operand(x, "upsample")
    first = next((axes_text for axes_text in LAYOUTS if len(axes_text) == x.ndim), "")
    axes = image_axes("upsample", x, max(x.ndim - 2, 1), layout or first)
    factors = [factor] * len(axes) if isinstance(factor, int) else list(factor)
    if len(factors) != len(axes) or any(number < 1 for number in factors):
        raise ProgramError(
            f"upsample: expected {len(axes)} factors of at least 1, got {factor!r:.40}.",
            fix="Pass one for all axes, or one for each; br.image.resize also downsamples.",
        )
    if mode not in MODES or (align_corners and mode == "nearest"):
        raise ProgramError(
            f"upsample: unsupported mode {mode!r:.40}{' with align_corners' * align_corners}.",
            fix=f"Use one of {', '.join(MODES)}; align_corners requires one of the last two.",
        )
    times = dict(zip(axes, factors, strict=True))
    shape = tuple(n * times.get(axis, 1) for axis, n in enumerate(x.shape))
    coordinates = "align_corners" if align_corners else "half_pixel"
    return emit("resize", x, shape=shape, mode=mode, coordinates=coordinates, name=name)


@transactional
def pixel_shuffle(x: Any, factor: int, *, layout: str = "NCHW", name: str = "") -> Var:
    """Rearrange channels into blocks of pixels: an image `factor` times as large.

        out[n, c, h * factor + i, w * factor + j] = x[n, (c * factor + i) * factor + j, h, w]

    Source: Shi et al., Real-Time Single Image and Video Super-Resolution, 2016.

    Args:
        x: [n, c * factor^2, h, w], or in the order of `layout`.
        factor: The size of blocks.
        layout: `"NCHW"` or `"NHWC"`; the order of channels is the same.
        name: The name of the result.

    Raises:
        ShapeError: If the number of channels is not a multiple of `factor^2`.
    """
    x = operand(x, "pixel_shuffle")
    image_axes("pixel_shuffle", x, 2, layout)
    _check_factor("pixel_shuffle", factor)
    n, c, h, w = (x.shape[layout.index(letter)] for letter in "NCHW")
    depth = divide_exactly(c, factor * factor)
    if depth is None:
        raise ShapeError(
            f"pixel_shuffle: expected channels divisible by {factor} * {factor}, got {c}."
        )
    if layout == "NCHW":
        blocks = ops.reshape(x, (n, depth, factor, factor, h, w))
        order, shape = (0, 1, 4, 2, 5, 3), (n, depth, h * factor, w * factor)
    else:
        blocks = ops.reshape(x, (n, h, w, depth, factor, factor))
        order, shape = (0, 1, 4, 2, 5, 3), (n, h * factor, w * factor, depth)
    return emit("reshape", ops.permute_dims(blocks, order), shape=shape, name=name)


@transactional
def pixel_unshuffle(x: Any, factor: int, *, layout: str = "NCHW", name: str = "") -> Var:
    """Rearrange blocks of pixels into channels: the inverse of `pixel_shuffle`.

    Args:
        x: [n, c, h * factor, w * factor], or in the order of `layout`.
        factor: The size of blocks.
        layout: `"NCHW"` or `"NHWC"`.
        name: The name of the result.

    Raises:
        ShapeError: If a spatial size is not divisible by `factor`.
    """
    x = operand(x, "pixel_unshuffle")
    image_axes("pixel_unshuffle", x, 2, layout)
    _check_factor("pixel_unshuffle", factor)
    n, c, h, w = (x.shape[layout.index(letter)] for letter in "NCHW")
    rows, columns = (divide_exactly(size, factor) for size in (h, w))
    if rows is None or columns is None:
        raise ShapeError(
            f"pixel_unshuffle: expected sizes divisible by {factor}, got {h} and {w}."
        )
    depth = c * (factor * factor)
    if layout == "NCHW":
        blocks = ops.reshape(x, (n, c, rows, factor, columns, factor))
        order, shape = (0, 1, 3, 5, 2, 4), (n, depth, rows, columns)
    else:
        blocks = ops.reshape(x, (n, rows, factor, columns, factor, c))
        order, shape = (0, 1, 3, 5, 2, 4), (n, rows, columns, depth)
    return emit("reshape", ops.permute_dims(blocks, order), shape=shape, name=name)


def _check_factor(what: str, factor: Any) -> None:
    if not isinstance(factor, int) or factor < 1:
        raise ShapeError(f"{what}: expected a factor of at least 1, got {factor!r:.40}.")
