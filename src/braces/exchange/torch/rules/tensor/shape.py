"""Rules of shape operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.errors import ProgramError, ShapeError
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import (
    OPEN_END,
    at_axis,
    clip_bound,
    expand,
    flatten,
    flip,
    is_one,
    not_empty,
    pad_or_crop,
    permute,
    reshape_checked,
    roll,
    select,
    slice_axis,
    squeeze,
)
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.torch.rules.tensor.arithmetic import promoted_dtype
from braces.extend import dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.layers import pixel_shuffle
from braces.extend.types import Dim, Size

Sizes = Sequence[Size]


def unflatten(x: Var, axis: int, parts: Sizes) -> Var:
    """Split one axis into several."""
    at = axis % x.ndim
    return reshape_checked(
        x, (*x.shape[:at], *_resolve_rest(x.shape[at], parts), *x.shape[at + 1 :])
    )


def _resolve_rest(axis_size: Size, parts: Sizes) -> list[Size]:
    """Return sizes with -1 inferred if the division is exact."""
    others = dims.product([size for size in parts if size != -1])
    inferred = dims.divide_exactly(axis_size, others) if -1 in parts else None
    return [inferred if size == -1 and inferred is not None else size for size in parts]


def transpose(x: Var, first: int, second: int) -> Var:
    """Two axes exchanged."""
    return ops.swapaxes(x, first, second) if x.ndim else x


def unsqueeze(x: Var, axis: int) -> Var:
    """A new axis of size 1."""
    return ops.expand_dims(x, axis=axis)


def common_shape(*shapes: Sizes) -> list[Size]:
    """Return the shape to which several shapes broadcast."""
    rank = max(map(len, shapes))
    aligned = [[*[1] * (rank - len(shape)), *shape] for shape in shapes]
    return [next((n for n in axis if not is_one(n)), 1) for axis in zip(*aligned, strict=True)]


def broadcast_tensors(xs: Sequence[Var]) -> list[Var]:
    """Arrays broadcast against each other."""
    shape = common_shape(*(x.shape for x in xs))
    return [ops.broadcast_to(x, shape) for x in xs]


def cat(xs: Sequence[Var], axis: int = 0) -> Var:
    """A concatenation with dtype promotion; empty vectors do not count."""
    nonempty = not_empty(xs)
    dtype = promoted_dtype(*nonempty)
    return ops.concat([cast_to_dtype(x, dtype) for x in nonempty], axis=axis)


def stack(xs: Sequence[Var], axis: int = 0) -> Var:
    """A stack with dtype promotion."""
    dtype = promoted_dtype(*xs)
    return ops.stack([cast_to_dtype(x, dtype) for x in xs], axis=axis)


def split(x: Var, size: Size | Sizes, axis: int = 0) -> list[Var]:
    """Split an axis into parts of one size, the last maybe smaller, or of given sizes."""
    if not isinstance(size, int | Dim):
        return list(ops.split(x, sections=tuple(size), axis=axis))
    axis_size = x.shape[axis]
    if isinstance(axis_size, Dim) or isinstance(size, Dim):
        count = dims.divide_exactly(axis_size, size)
        if not isinstance(count, int):
            raise ShapeError(
                f"unsupported symbolic number of parts of an axis of size {axis_size}."
            )
        return list(ops.split(x, sections=(size,) * count, axis=axis))
    parts = [min(size, axis_size - at) for at in range(0, axis_size, size)] or [0]
    return list(ops.split(x, sections=tuple(parts), axis=axis))


def chunk(x: Var, count: int, axis: int = 0) -> list[Var]:
    """Split an axis into at most `count` parts, the last maybe smaller."""
    axis_size = x.shape[axis]
    if isinstance(axis_size, int):
        return split(x, max(-(-axis_size // count), 1), axis)
    part = dims.divide_exactly(axis_size, count)
    if part is None:
        raise ShapeError(f"cannot split an axis of size {axis_size} into {count} equal parts.")
    return list(ops.split(x, sections=(part,) * count, axis=axis))


def slice_scatter(
    x: Var, source: Var, axis: int = 0, start: Size | None = None, end: Size | None = None,
    step: int = 1,
) -> Var:  # fmt: skip
    """Replace a slice of an axis."""
    at, axis_size = axis % x.ndim, x.shape[axis]
    low = clip_bound(axis_size, start or 0)
    high = clip_bound(axis_size, OPEN_END if end is None else end)
    if step != 1:
        return _scatter_steps(x, source, at, low, high, step)
    return _replace_slice(x, source, at, low, high)


def _scatter_steps(x: Var, source: Var, at: int, low: Size, high: Size, step: int) -> Var:
    if not isinstance(low, int) or not isinstance(high, int):
        raise ProgramError("unsupported slice: step other than 1 with symbolic bounds.")
    for count, place in enumerate(range(low, high, step)):
        part = source[at_axis(at, slice(count, count + 1))]
        x = _replace_slice(x, part, at, place, place + 1)
    return x


def _replace_slice(x: Var, part: Var, at: int, low: Size, high: Size) -> Var:
    """Replace a slice by a concatenation: before, new part, after."""
    axis_size = x.shape[at]
    size_after = sizes.minus(axis_size, high)
    segments = [
        None if low == 0 else emit("window", x, start=0, size=low, axis=at),
        ops.broadcast_to(
            cast_to_dtype(part, x.dtype), _with_size(x, at, sizes.minus(high, low))
        ),
        None if size_after == 0 else emit("window", x, start=high, size=size_after, axis=at),
    ]
    return ops.concat([piece for piece in segments if piece is not None], axis=at)


def _with_size(x: Var, at: int, size: Size) -> list[Size]:
    return [*x.shape[:at], size, *x.shape[at + 1 :]]


def select_scatter(x: Var, source: Var, axis: int, at: int) -> Var:
    """Replace one index of an axis."""
    axis_ = axis % x.ndim
    low = at if at >= 0 else sizes.plus(x.shape[axis_], at)
    return _replace_slice(
        x, ops.expand_dims(source, axis=axis_), axis_, low, sizes.plus(low, 1)
    )


def repeat(x: Var, counts: Sizes) -> Var:
    """A tile, with new leading axes."""
    return ops.tile(x, tuple(counts))


def repeat_interleave(x: Var, count: Size, axis: int | None = None, **options: Any) -> Var:
    """Each element repeated."""
    return ops.repeat(x, count, axis=axis)


def pad(x: Var, widths: Sizes, mode: str = "constant", value: Any = None) -> Var:
    """Padding; widths begin with the last axis."""
    ends = dict[int, tuple[Size, Size]]()
    for count, at in enumerate(range(0, len(widths), 2)):
        ends[x.ndim - 1 - count] = widths[at], widths[at + 1]
    modes = {
        "constant": "constant",
        "reflect": "reflect",
        "replicate": "edge",
        "circular": "wrap",
    }
    fill = 0 if value is None else value
    return pad_or_crop(x, dict(sorted(ends.items())), modes[mode], fill, of_whole=True)


def constant_pad(x: Var, widths: Sizes, value: Any = 0) -> Var:
    """Padding with a constant."""
    return pad(x, widths, "constant", value)


def padding_like(mode: str) -> Callable[..., Var]:
    """Return the rule of padding by the array's own elements."""

    def rule(x: Var, widths: Sizes) -> Var:
        return pad(x, widths, mode)

    return rule


def diagonal(x: Var, k: int = 0, first: int = 0, second: int = 1) -> Var:
    """The diagonal of two axes, as the last one."""
    matrices = ops.moveaxis(x, (first, second), (-2, -1))
    rows, columns = matrices.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError("diagonal: unsupported symbolic sizes.")
    count = max(min(rows - max(-k, 0), columns - max(k, 0)), 0)
    flat = ops.reshape(matrices, (*matrices.shape[:-2], rows * columns))
    begin = max(k, 0) + max(-k, 0) * columns
    index = slice(
        begin, begin + (count - 1) * (columns + 1) + 1 if count else begin, columns + 1
    )
    return flat[(..., index)]


def with_diagonal(op_type: str) -> Callable[..., Var]:
    """Return the rule of an operator with a diagonal offset `k`."""

    def rule(x: Var, k: int = 0) -> Var:
        return ops.function_of(op_type)(x, k=k)

    return rule


def as_other(rule: Callable[..., Var]) -> Callable[[Var, Var], Var]:
    """Apply a rule to the shape of another array."""
    return lambda x, other: rule(x, other.shape)


def hstack(xs: Sequence[Var]) -> Var:
    """A concatenation along the second axis, or the only one."""
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


def movedim(x: Var, source: Any, to: Any) -> Var:
    """Axes moved to other positions."""
    return ops.moveaxis(x, source, to)


def narrow(x: Var, axis: int, start: Size, size: Size) -> Var:
    """Consecutive elements of an axis."""
    return slice_axis(x, axis, start, sizes.plus(start, size))


def matrix_transpose(x: Var) -> Var:
    """The transpose of a matrix; a vector stays."""
    return ops.transpose(x) if x.ndim == 2 else x


def unbind(x: Var, axis: int = 0) -> list[Var]:
    """The slices along an axis."""
    return list(ops.unstack(x, axis=axis))


SHAPES: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("reshape", "view", "_unsafe_view", "view_copy"), reshape_checked),
    **{f"{kind}{rank}d": padding_like(mode) for rank in (1, 2, 3) for kind, mode in (
        ("reflection_pad", "reflect"), ("replication_pad", "replicate"))},
    "broadcast_tensors": broadcast_tensors,
    "broadcast_to": expand,
    "cat": cat,
    "chunk": chunk,
    "concat": cat,
    "concatenate": cat,
    "constant_pad_nd": constant_pad,
    "diag": with_diagonal("diag"),
    "diagonal": diagonal,
    "diagonal_copy": diagonal,
    "expand": expand,
    "expand_copy": expand,
    "expand_as": as_other(expand),
    "flatten": flatten,
    "flip": flip,
    "hstack": hstack,
    "movedim": movedim,
    "narrow": narrow,
    "narrow_copy": narrow,
    "pad": pad,
    "permute": permute,
    "permute_copy": permute,
    "pixel_shuffle": pixel_shuffle,
    "repeat": repeat,
    "repeat_interleave.self_int": repeat_interleave,
    "roll": roll,
    "select": select,
    "select_copy": select,
    "select_scatter": select_scatter,
    "slice": slice_axis,
    "slice_copy": slice_axis,
    "slice_scatter": slice_scatter,
    "split": split,
    "split_copy": split,
    "split_with_sizes": split,
    "split_with_sizes_copy": split,
    "squeeze": squeeze,
    "squeeze_copy": squeeze,
    "stack": stack,
    "t": matrix_transpose,
    "t_copy": matrix_transpose,
    "tile": repeat,
    "transpose": transpose,
    "transpose_copy": transpose,
    "tril": with_diagonal("tril"),
    "triu": with_diagonal("triu"),
    "unbind": unbind,
    "unbind_copy": unbind,
    "unflatten": unflatten,
    "unsqueeze": unsqueeze,
    "unsqueeze_copy": unsqueeze,
    "view_as": as_other(reshape_checked),
}  # fmt: skip
