"""References of `braces.ops.nn.normalization`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, floating, positive


def axes_of(x: Array, axis: Any) -> tuple[int, ...]:
    """Axes as sorted non-negative numbers."""
    given = range(x.ndim) if axis is None else np.ravel(axis)
    return tuple(sorted(int(a) % x.ndim for a in given))


def along(x: Array, parameter: Array, axes: tuple[int, ...]) -> Array:
    """A parameter with axes of size 1 for those of `x` that it lacks."""
    return parameter.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])


def scaled(x: Array, scale: Any, bias: Any, axes: tuple[int, ...]) -> Array:
    if scale is not None:
        x = x * along(x, scale, axes)
    return x if bias is None else x + along(x, bias, axes)


def normal(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    if not x.size:
        return x
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def layer_norm(x: Array, scale: Any, bias: Any, *, axis: Any, epsilon: float) -> Array:
    x, axes = floating(x), axes_of(x, axis)
    return scaled(normal(x, axes, epsilon), scale, bias, axes).astype(x.dtype)


def rms_norm(x: Array, scale: Any, *, axis: Any, epsilon: float) -> Array:
    x, axes = floating(x), axes_of(x, axis)
    count = max(int(np.prod([x.shape[a] for a in axes])), 1)
    square = (x * x).sum(axes, keepdims=True) / count
    return scaled(x / np.sqrt(square + epsilon), scale, None, axes).astype(x.dtype)


def group_norm(
    x: Array, scale: Any, bias: Any, *, groups: int, axis: int, epsilon: float
) -> Array:
    x, channel = floating(x), axis % x.ndim
    size = x.shape[channel] // groups
    parts = [np.take(x, range(g * size, (g + 1) * size), channel) for g in range(groups)]
    together = tuple(range(1, x.ndim))
    out = np.concatenate([normal(part, together, epsilon) for part in parts], channel)
    return scaled(out, scale, bias, (channel,)).astype(x.dtype)


def l2_normalize(x: Array, *, axis: Any, epsilon: float) -> Array:
    x, axes = floating(x), axes_of(x, axis)
    square = np.maximum((x * x).sum(axes, keepdims=True), epsilon)
    return (x / np.sqrt(square)).astype(x.dtype)


def batch_norm(
    x: Array,
    running_mean: Array,
    running_var: Array,
    scale: Any,
    bias: Any,
    *,
    training: bool,
    axis: int,
    momentum: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    x, channel = floating(x), axis % x.ndim
    mean, var = running_mean, running_var
    if training and x.size:
        others = tuple(a for a in range(x.ndim) if a != channel)
        mean, var = x.mean(others), x.var(others)
        running_mean = momentum * running_mean + (1 - momentum) * mean
        running_var = momentum * running_var + (1 - momentum) * var
    out = (x - along(x, mean, (channel,))) / np.sqrt(along(x, var, (channel,)) + epsilon)
    out = scaled(out, scale, bias, (channel,)).astype(x.dtype)
    return out, running_mean, running_var


REFERENCES = {
    "layer_norm": Reference(layer_norm, tolerance=1e-4),
    "rms_norm": Reference(rms_norm, tolerance=1e-4),
    "group_norm": Reference(group_norm, tolerance=1e-4),
    "l2_normalize": Reference(l2_normalize),
    "batch_norm": Reference(batch_norm, inputs={"running_var": positive}, tolerance=1e-4),
}
