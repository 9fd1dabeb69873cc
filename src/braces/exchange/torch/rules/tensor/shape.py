"""Rules of operators that give the same numbers another shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces import dims
from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.errors import ProgramError, ShapeError
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.rules.reshape_slice_pad import (
    FAR,
    at_axis,
    clipped,
    expand,
    flatten,
    flip,
    in_shape,
    is_one,
    not_empty,
    padded,
    part_of,
    permute,
    roll,
    select,
    squeeze,
)
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.torch.rules.tensor.arithmetic import common
from braces.frontend.core import functions as ops
from braces.frontend.nn.pooling import pixel_shuffle

Sizes = Sequence[Size]


def unflatten(x: Var, axis: int, parts: Sizes) -> Var:
    """One axis as several."""
    at = axis % x.ndim
    return in_shape(x, (*x.shape[:at], *_without_rest(x.shape[at], parts), *x.shape[at + 1 :]))


def _without_rest(whole: Size, parts: Sizes) -> list[Size]:
    """Sizes whose product is that of the axis."""
    others = dims.product([size for size in parts if size != -1])
    rest = dims.divide_exactly(whole, others) if -1 in parts else None
    return [rest if size == -1 and rest is not None else size for size in parts]


def transpose(x: Var, first: int, second: int) -> Var:
    """Two axes exchanged."""
    return ops.swapaxes(x, first, second) if x.ndim else x


def unsqueeze(x: Var, axis: int) -> Var:
    """With a new axis of size 1."""
    return ops.expand_dims(x, axis=axis)


def broadcast_tensors(xs: Sequence[Var]) -> list[Var]:
    """Arrays in the shape that they have together."""
    rank = max(x.ndim for x in xs)
    own = [[*[1] * (rank - x.ndim), *x.shape] for x in xs]
    shape = [next((n for n in found if not is_one(n)), 1) for found in zip(*own, strict=True)]
    return [ops.broadcast_to(x, shape) for x in xs]


def cat(xs: Sequence[Var], axis: int = 0) -> Var:
    """Arrays one after another, in their common dtype; empty ones of one axis do not count."""
    kept = not_empty(xs)
    dtype = common(*kept)
    return ops.concat([in_dtype(x, dtype) for x in kept], axis=axis)


def stack(xs: Sequence[Var], axis: int = 0) -> Var:
    """Arrays beside each other."""
    dtype = common(*xs)
    return ops.stack([in_dtype(x, dtype) for x in xs], axis=axis)


def split(x: Var, size: Size | Sizes, axis: int = 0) -> list[Var]:
    """Parts of an axis: of one size, the last maybe smaller, or of the sizes that are said."""
    if not isinstance(size, int | Dim):
        return list(ops.split(x, sections=tuple(size), axis=axis))
    whole = x.shape[axis]
    if isinstance(whole, Dim) or isinstance(size, Dim):
        count = dims.divide_exactly(whole, size)
        if not isinstance(count, int):
            raise ShapeError(f"How many parts of {size} an axis of {whole} has is not known.")
        return list(ops.split(x, sections=(size,) * count, axis=axis))
    parts = [min(size, whole - at) for at in range(0, whole, size)] or [0]
    return list(ops.split(x, sections=tuple(parts), axis=axis))


def chunk(x: Var, count: int, axis: int = 0) -> list[Var]:
    """So many parts of an axis, the last maybe smaller, or fewer."""
    whole = x.shape[axis]
    if isinstance(whole, int):
        return split(x, max(-(-whole // count), 1), axis)
    part = dims.divide_exactly(whole, count)
    if part is None:
        raise ShapeError(f"An axis of {whole} cannot be split into {count} equal parts.")
    return list(ops.split(x, sections=(part,) * count, axis=axis))


def slice_scatter(
    x: Var, source: Var, axis: int = 0, start: Size | None = None, end: Size | None = None,
    step: int = 1,
) -> Var:  # fmt: skip
    """An array with a part of an axis replaced."""
    at, whole = axis % x.ndim, x.shape[axis]
    low = clipped(whole, start or 0)
    high = clipped(whole, FAR if end is None else end)
    if step != 1:
        return _scatter_steps(x, source, at, low, high, step)
    return _between(x, source, at, low, high)


def _scatter_steps(x: Var, source: Var, at: int, low: Size, high: Size, step: int) -> Var:
    if not isinstance(low, int) or not isinstance(high, int):
        raise ProgramError("A slice with a step and bounds from symbolic sizes is not read.")
    for count, place in enumerate(range(low, high, step)):
        part = source[at_axis(at, slice(count, count + 1))]
        x = _between(x, part, at, place, place + 1)
    return x


def _between(x: Var, part: Var, at: int, low: Size, high: Size) -> Var:
    """What is before a part of an axis, another array in its place, and what is after it."""
    whole = x.shape[at]
    rest = sizes.minus(whole, high)
    pieces = [
        None if low == 0 else one("window", x, start=0, size=low, axis=at),
        ops.broadcast_to(in_dtype(part, x.dtype), _along(x, at, sizes.minus(high, low))),
        None if rest == 0 else one("window", x, start=high, size=rest, axis=at),
    ]
    return ops.concat([piece for piece in pieces if piece is not None], axis=at)


def _along(x: Var, at: int, size: Size) -> list[Size]:
    return [*x.shape[:at], size, *x.shape[at + 1 :]]


def select_scatter(x: Var, source: Var, axis: int, at: int) -> Var:
    """An array with what stands at one place of an axis replaced."""
    place = axis % x.ndim
    low = at if at >= 0 else sizes.plus(x.shape[place], at)
    return _between(x, ops.expand_dims(source, axis=place), place, low, sizes.plus(low, 1))


def repeat(x: Var, counts: Sizes) -> Var:
    """Copies of the whole beside each other, along new leading axes too."""
    return ops.tile(x, tuple(counts))


def repeat_interleave(x: Var, count: Size, axis: int | None = None, **options: Any) -> Var:
    """Each element several times in a row."""
    return ops.repeat(x, count, axis=axis)


def pad(x: Var, widths: Sizes, mode: str = "constant", value: Any = None) -> Var:
    """An array with a margin; widths begin with the last axis."""
    ends = dict[int, tuple[Size, Size]]()
    for count, at in enumerate(range(0, len(widths), 2)):
        ends[x.ndim - 1 - count] = widths[at], widths[at + 1]
    ours = {
        "constant": "constant",
        "reflect": "reflect",
        "replicate": "edge",
        "circular": "wrap",
    }
    fill = 0 if value is None else value
    return padded(x, dict(sorted(ends.items())), ours[mode], fill, of_whole=True)


def constant_pad(x: Var, widths: Sizes, value: Any = 0) -> Var:
    """An array with a margin of one number."""
    return pad(x, widths, "constant", value)


def padding_like(mode: str) -> Callable[..., Var]:
    """An array with a margin of its own numbers."""

    def computed(x: Var, widths: Sizes) -> Var:
        return pad(x, widths, mode)

    return computed


def diagonal(x: Var, k: int = 0, first: int = 0, second: int = 1) -> Var:
    """The diagonal of two axes, as the last one."""
    moved = ops.moveaxis(x, (first, second), (-2, -1))
    rows, columns = moved.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError("A diagonal of axes of symbolic sizes is not read.")
    count = max(min(rows - max(-k, 0), columns - max(k, 0)), 0)
    flat = ops.reshape(moved, (*moved.shape[:-2], rows * columns))
    begin = max(k, 0) + max(-k, 0) * columns
    index = slice(
        begin, begin + (count - 1) * (columns + 1) + 1 if count else begin, columns + 1
    )
    return flat[(..., index)]


def with_diagonal(op_type: str) -> Callable[..., Var]:
    """An operator whose attribute `k` says which diagonal it is about."""

    def computed(x: Var, k: int = 0) -> Var:
        return ops.function_of(op_type)(x, k=k)

    return computed


def as_other(rule: Callable[..., Var]) -> Callable[[Var, Var], Var]:
    """A rule that takes a shape, of the shape of another array."""
    return lambda x, other: rule(x, other.shape)


def hstack(xs: Sequence[Var]) -> Var:
    """Arrays one after another along the second axis, or the only one."""
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


def movedim(x: Var, source: Any, to: Any) -> Var:
    """Some axes moved to other places."""
    return ops.moveaxis(x, source, to)


def narrow(x: Var, axis: int, start: Size, size: Size) -> Var:
    """So many elements of an axis."""
    return part_of(x, axis, start, sizes.plus(start, size))


def matrix_transpose(x: Var) -> Var:
    """A matrix with rows and columns exchanged; a vector as it is."""
    return ops.transpose(x) if x.ndim == 2 else x


def unbind(x: Var, axis: int = 0) -> list[Var]:
    """The slices of an axis."""
    return list(ops.unstack(x, axis=axis))


SHAPES: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("reshape", "view", "_unsafe_view", "view_copy"), in_shape),
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
    "expand": expand,
    "expand_as": as_other(expand),
    "flatten": flatten,
    "flip": flip,
    "hstack": hstack,
    "movedim": movedim,
    "narrow": narrow,
    "pad": pad,
    "permute": permute,
    "pixel_shuffle": pixel_shuffle,
    "repeat": repeat,
    "repeat_interleave.self_int": repeat_interleave,
    "roll": roll,
    "select": select,
    "select_copy": select,
    "select_scatter": select_scatter,
    "slice": part_of,
    "slice_copy": part_of,
    "slice_scatter": slice_scatter,
    "split": split,
    "split_copy": split,
    "split_with_sizes": split,
    "split_with_sizes_copy": split,
    "squeeze": squeeze,
    "squeeze_copy": squeeze,
    "stack": stack,
    "t": matrix_transpose,
    "tile": repeat,
    "transpose": transpose,
    "tril": with_diagonal("tril"),
    "triu": with_diagonal("triu"),
    "unbind": unbind,
    "unflatten": unflatten,
    "unsqueeze": unsqueeze,
    "unsqueeze_copy": unsqueeze,
    "view_as": as_other(in_shape),
}  # fmt: skip
