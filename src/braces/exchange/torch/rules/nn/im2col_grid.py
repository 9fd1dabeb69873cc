"""Rules of planes: pooling with indices, im2col, grids, pixel shuffles and channel dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.errors import ShapeError
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.windows import (
    adaptive_maxima,
    checked_numbers,
    constant,
    window_maxima,
)
from braces.exchange.torch.rules.nn.conv_pool import Ints, batched, both_ends, per_axis
from braces.extend import dims, functions as ops, random
from braces.extend.building import Var, call
from braces.extend.constructs import custom_gradient
from braces.extend.types import INT64, Size

RANKS = (1, 2, 3)

# ---- windows of several sizes ----------------------------------------------------------------


def adaptive_max(rank: int) -> Callable[..., Any]:
    """Return the rule of adaptive max pooling with indices."""

    def rule(x: Var, wanted: Ints) -> tuple[Var, Var]:
        space = checked_numbers(x.shape[2:], "adaptive pooling")
        counts = per_axis(wanted, rank)
        return adaptive_maxima(x, space, counts)

    return batched(rank, rule)


def fractional(rank: int) -> Callable[..., Any]:
    """Return the rule of fractional max pooling with indices."""

    def rule(x: Var, window: Ints, wanted: Ints, samples: Var) -> tuple[Var, Var]:
        space = checked_numbers(x.shape[2:], "fractional pooling")
        axes = zip(space, per_axis(wanted, rank), per_axis(window, rank), strict=True)
        # the samples belong to the axes in reverse order for two axes, in order for three
        order = range(rank)[::-1] if rank == 2 else range(rank)
        return window_maxima(x, [
            _scattered_starts(samples[:, :, at], *sizes)
            for at, sizes in zip(order, axes, strict=True)
        ])  # fmt: skip

    return batched(rank, rule)


def _scattered_starts(sample: Var, size: int, count: int, window: int) -> Var:
    """Return the positions in windows of each channel; the last window is at the end."""
    steps = np.arange(window)
    last = constant(np.broadcast_to(size - window + steps, (1, 1, 1, window)))
    last = ops.broadcast_to(last, (*sample.shape, 1, window))
    if count == 1:
        return last
    alpha = (size - window) / (count - 1)
    samples_ = ops.expand_dims(sample, axis=2)
    counted = constant(np.arange(count - 1).astype(sample.dtype))
    starts = ops.trunc((samples_ + counted) * alpha) - ops.trunc(samples_ * alpha)
    positions = ops.expand_dims(cast_to_dtype(starts, INT64), axis=-1) + constant(steps)
    return ops.concat([positions, last], axis=2)


def max_unpool(rank: int) -> Callable[..., Var]:
    """Return the rule of max unpooling, whose gradient is a gather, as in torch."""

    def rule(x: Var, at: Var, size: Sequence[Size], *rest: Any) -> Var:
        if x.ndim == rank + 1:
            batch_result = rule(ops.expand_dims(x, axis=0), ops.expand_dims(at, axis=0), size)
            return ops.squeeze(batch_result, axis=0)

        @custom_gradient
        def placed(x: Var) -> tuple[Var, Callable[[Var], Var]]:
            out = call(f"max_unpool{rank}d", x, at, shape=(*x.shape[:2], *size))
            return out, lambda grad: _read_back(grad, at)

        return placed(x)

    return rule


def _read_back(grad: Var, at: Var) -> Var:
    """Return the numbers at the indices of unpooling; numbers that share one have the same."""
    batch = grad.shape[:2]
    lines = ops.reshape(grad, (*batch, dims.product(grad.shape[2:])))
    places = ops.reshape(at, (*batch, dims.product(at.shape[2:])))
    return ops.reshape(ops.take_along_axis(lines, places, axis=-1), at.shape)


# ---- columns ---------------------------------------------------------------------------------


def im2col(x: Var, window: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Var:
    """The elements of each window as a column."""
    return call(
        "im2col", x, window=per_axis(window, 2), dilation=per_axis(dilation, 2),
        padding=both_ends(padding, 2),
        stride=per_axis(stride, 2),
    )  # fmt: skip


def col2im(
    x: Var, size: Sequence[Size], window: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Var:
    """Add columns back to windows."""
    channels = dims.divide_exactly(x.shape[1], dims.product(per_axis(window, 2)))
    if channels is None:
        raise ShapeError(f"axis of size {x.shape[1]} is not a multiple of the window {window}.")
    return call(
        "col2im", x, shape=(x.shape[0], channels, *size), window=per_axis(window, 2),
        dilation=per_axis(dilation, 2), padding=both_ends(padding, 2),
        stride=per_axis(stride, 2),
    )  # fmt: skip


# ---- grids -----------------------------------------------------------------------------------


def grid_sampler(x: Var, grid: Var, mode: int, margin: int, corners: bool) -> Var:
    """Sample images at the positions of a grid."""
    return ops.grid_sample(
        x,
        grid,
        mode=("linear", "nearest", "cubic")[mode],
        padding_mode=("zeros", "border", "reflection")[margin],
        align_corners=corners,
    )


def pixel_unshuffle(x: Var, factor: int) -> Var:
    """Move blocks of the plane into channels."""
    *front, c, h, w = x.shape
    high, wide = (dims.divide_exactly(n, factor) for n in (h, w))
    if high is None or wide is None:
        raise ShapeError(f"cannot split a plane of {h} by {w} into blocks of {factor}.")
    rank = len(front)
    blocks = ops.reshape(x, (*front, c, high, factor, wide, factor))
    order = (*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3)
    return ops.reshape(ops.transpose(blocks, order), (*front, c * factor * factor, high, wide))


def channel_shuffle(x: Var, groups: int) -> Var:
    """Interleave the channels of groups."""
    part = dims.divide_exactly(x.shape[1], groups)
    if part is None:
        raise ShapeError(f"cannot split {x.shape[1]} channels into {groups} groups.")
    grouped = ops.reshape(x, (x.shape[0], groups, part, *x.shape[2:]))
    return ops.reshape(ops.swapaxes(grouped, 1, 2), x.shape)


# ---- dropout ---------------------------------------------------------------------------------


def dropout_mask(x: Var, rate: float, *, channels: bool = False) -> Var:
    """Return a random dropout mask, per element or per channel."""
    shape = (*x.shape[:2], *[1] * (x.ndim - 2)) if channels else x.shape
    return cast_to_dtype(random.uniform(shape) >= rate, x.dtype)


def feature_dropout(x: Var, rate: float, training: bool) -> Var:
    """Dropout of whole channels in training mode."""
    if not training or not rate:
        return x
    return x * dropout_mask(x, rate, channels=True) / (1.0 - rate)


def alpha_dropout(*, channels: bool) -> Callable[..., Var]:
    """Return the rule of alpha dropout, which preserves mean and variance after SELU."""
    low = -1.7580993408473766

    def rule(x: Var, rate: float, training: bool) -> Var:
        if not training or not rate:
            return x
        keep_mask = dropout_mask(x, rate, channels=channels)
        scale = ((low * low * rate + 1.0) * (1.0 - rate)) ** -0.5
        return (x * keep_mask + (1.0 - keep_mask) * low) * scale - low * rate * scale

    return rule


PLANES: Mapping[str, Callable[..., Any]] = {
    **{f"adaptive_max_pool{rank}d": adaptive_max(rank) for rank in RANKS},
    **{f"fractional_max_pool{rank}d": fractional(rank) for rank in (2, 3)},
    **{f"max_unpool{rank}d": max_unpool(rank) for rank in (2, 3)},
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), grid_sampler),
    "alpha_dropout": alpha_dropout(channels=False),
    "channel_shuffle": channel_shuffle,
    "col2im": batched(1, col2im),
    "feature_alpha_dropout": alpha_dropout(channels=True),
    "feature_dropout": feature_dropout,
    "im2col": batched(2, im2col),
    "pixel_unshuffle": pixel_unshuffle,
}
