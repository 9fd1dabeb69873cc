"""Rules of normalizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.extend import functions as ops
from braces.extend.building import Var, call, emit
from braces.extend.types import FLOAT32, INT64, DType, Size, dtype_of, product


def batch_norm(
    x: Var, scale: Var | None, shift: Var | None, mean: Var | None, variance: Var | None,
    training: bool, momentum: float, epsilon: float,
) -> tuple[Var, Var | None, Var | None, Var | None, Var | None]:  # fmt: skip
    """Batch norm with statistics of the batch, or running ones.

    Returns the output, mean and inverse deviation of the batch, which are empty outside of
    training, and the next running statistics. The running variance is unbiased.
    """
    if mean is None or variance is None:
        zeros = ops.zeros_like(x[(0, slice(None), *[0] * (x.ndim - 2))])
        out = call(
            "batch_norm", x, zeros, zeros + 1.0, scale, shift, training=True, epsilon=epsilon
        )[0]
        return out, *batch_statistics(x, epsilon), None, None
    out, next_mean, next_variance = call(
        "batch_norm", x, mean, variance, scale, shift,
        training=training, momentum=1.0 - momentum, epsilon=epsilon,
    )  # fmt: skip
    if not training:
        nothing = fill_shape((0,), 0, dtype=mean.dtype)
        return out, nothing, nothing, next_mean, next_variance
    next_variance = _unbiased(x, variance, next_variance, momentum)
    return out, *batch_statistics(x, epsilon), next_mean, next_variance


def batch_statistics(x: Var, epsilon: float) -> tuple[Var, Var]:
    """Return the mean and the inverse deviation of each channel of a batch."""
    axes = (0, *range(2, x.ndim))
    wide = cast_to_dtype(x, statistics_dtype(x.dtype))
    return ops.mean(wide, axis=axes), inverse(wide, axes, epsilon, keep=False)


def batch_norm_with_update(
    x: Var, scale: Var | None, shift: Var | None, mean: Var, variance: Var, momentum: float,
    epsilon: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Batch norm in training; the fourth output is memory of torch's own gradient."""
    out = batch_norm(x, scale, shift, mean, variance, True, momentum, epsilon)
    return *out[:3], fill_shape((0,), 0, dtype=dtype_of("uint8")), *out[3:]


def _unbiased(x: Var, variance: Var, biased: Var, momentum: float) -> Var:
    """Return the running variance after an update by the unbiased variance."""
    decayed = (1.0 - momentum) * variance
    count = product([x.shape[0], *x.shape[2:]])
    numbers = cast_to_dtype(emit("size", value=count, dtype=INT64), biased.dtype)
    return decayed + (biased - decayed) * (numbers / (numbers - 1.0))


def batch_norm_alone(
    x: Var, scale: Var | None, shift: Var | None, mean: Var | None, variance: Var | None,
    training: bool, momentum: float, epsilon: float, cudnn: bool = False,
) -> Var:  # fmt: skip
    """The output of batch norm alone."""
    return batch_norm(x, scale, shift, mean, variance, training, momentum, epsilon)[0]


def batch_norm_inference(
    x: Var, scale: Var | None, shift: Var | None, mean: Var, variance: Var, momentum: float,
    epsilon: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Batch norm with running statistics."""
    return batch_norm(x, scale, shift, mean, variance, False, momentum, epsilon)[:3]


def batch_norm_no_stats(
    x: Var, scale: Var | None, shift: Var | None, training: bool, momentum: float,
    epsilon: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Batch norm with statistics of the batch, without running ones."""
    return batch_norm(x, scale, shift, None, None, training, momentum, epsilon)[:3]


def layer_norm(
    x: Var, shape: Sequence[Size], scale: Var | None = None, shift: Var | None = None,
    epsilon: float = 1e-5, cudnn: bool = True,
) -> Var:  # fmt: skip
    """Layer norm over the last axes."""
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    return call("layer_norm", x, scale, shift, axis=axes, epsilon=epsilon)


def native_layer_norm(
    x: Var, shape: Sequence[Size], scale: Var | None, shift: Var | None, epsilon: float
) -> tuple[Var, Var, Var]:
    """Layer norm over the last axes; also returns mean and inverse deviation."""
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    as_wide = cast_to_dtype(x, statistics_dtype(x.dtype))
    mean = ops.mean(as_wide, axis=axes, keepdims=True)
    return layer_norm(x, shape, scale, shift, epsilon), mean, inverse(as_wide, axes, epsilon)


def statistics_dtype(dtype: DType) -> DType:
    """Return the dtype in which statistics are computed."""
    return dtype if dtype.itemsize >= 4 else FLOAT32


def inverse(x: Var, axes: Any, epsilon: float, *, keep: bool = True) -> Var:
    """Return the inverse of the standard deviation."""
    return ops.rsqrt(ops.var(x, axis=axes, keepdims=keep) + epsilon)


def group_norm(
    x: Var, groups: int, scale: Var | None = None, shift: Var | None = None,
    epsilon: float = 1e-5, cudnn: bool = True,
) -> Var:  # fmt: skip
    """Group norm."""
    return call("group_norm", x, scale, shift, groups=groups, epsilon=epsilon)


def native_group_norm(
    x: Var, scale: Var | None, shift: Var | None, n: Size, c: Size, space: Size, groups: int,
    epsilon: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Group norm; also returns means and inverse deviations."""
    grouped = ops.reshape(cast_to_dtype(x, statistics_dtype(x.dtype)), (n, groups, -1))
    mean = ops.mean(grouped, axis=2)
    return (
        group_norm(x, groups, scale, shift, epsilon),
        mean,
        inverse(grouped, 2, epsilon, keep=False),
    )


def instance_norm(
    x: Var, scale: Var | None, shift: Var | None, mean: Var | None, variance: Var | None,
    own: bool, momentum: float, epsilon: float, cudnn: bool = False,
) -> Var:  # fmt: skip
    """Instance norm, or normalization by running statistics."""
    if not own:
        return batch_norm_alone(x, scale, shift, mean, variance, False, momentum, epsilon)
    return call("group_norm", x, scale, shift, groups=x.shape[1], epsilon=epsilon)


def rms_norm(
    x: Var, shape: Sequence[Size], scale: Var | None = None, epsilon: float | None = None
) -> Var:
    """RMS norm over the last axes."""
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    least = float(np.finfo(statistics_dtype(x.dtype)).eps) if epsilon is None else epsilon
    return call("rms_norm", x, scale, axis=axes, epsilon=least)


def fused_rms_norm(
    x: Var, shape: Sequence[Size], scale: Var | None, epsilon: float | None
) -> tuple[Var, None]:
    """RMS norm; torch's second output is only read by its gradient."""
    return rms_norm(x, shape, scale, epsilon), None


def native_batch_norm(*given: Any) -> tuple[Any, ...]:
    """Batch norm without the next running statistics."""
    return batch_norm(*given)[:3]


NORMS: Mapping[str, Callable[..., Any]] = {
    "batch_norm": batch_norm_alone,
    "_batch_norm_with_update_functional": batch_norm_with_update,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "_native_batch_norm_legit.no_stats": batch_norm_no_stats,
    "_native_batch_norm_legit_functional": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm_inference,
    "native_batch_norm": native_batch_norm,
    "native_group_norm": native_group_norm,
    "native_layer_norm": native_layer_norm,
    "_fused_rms_norm": fused_rms_norm,
    "_native_batch_norm_legit": native_batch_norm,
    "rms_norm": rms_norm,
}
