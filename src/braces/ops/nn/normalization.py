"""Normalisation to mean 0 and variance 1 along some axes, then scale and shift.

Statistics are computed in float32 at least, so that 16-bit inputs lose no precision. The
variance is the population variance (no correction).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    normalize_axes,
    normalize_axis,
    numbered_indices,
    shape_of,
)
from braces.define.axes.axis_rules import mix_along_axis
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Axes, Axis, Tensor, Training, op
from braces.dtypes import DType, is_float
from braces.errors import DTypeError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import at_least_float32, result_dtype
from braces.ops.common.rules import axis_index, axis_indices, real_numbers

# ---- shared by kernels -----------------------------------------------------------------------


def moments(x: Any, axes: Sequence[int]) -> tuple[Any, Any]:
    """Return mean and variance along axes, which stay with size 1."""
    mean = jnp.mean(x, axes, keepdims=True)
    return mean, jnp.mean(jnp.square(x - mean), axes, keepdims=True)


def expand_parameter(parameter: Any, axes: Sequence[int], rank: int) -> Any:
    """Expand a parameter over `axes` to this rank, for broadcasting."""
    return jnp.expand_dims(
        at_least_float32(parameter), [a for a in range(rank) if a not in axes]
    )


def scale_and_shift(x: Any, scale: Any, bias: Any, axes: Sequence[int]) -> Any:
    """Return `x * scale + bias`, both along `axes`; each may be `None`."""
    if scale is not None:
        x = x * expand_parameter(scale, axes, x.ndim)
    return x if bias is None else x + expand_parameter(bias, axes, x.ndim)


# ---- over the axes of each example -----------------------------------------------------------


def normalised_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: normalised axes are non-pointwise; parameters have these axes."""
    indices = numbered_indices(first_rank(types, "x"))
    non_pointwise = tuple(indices[a] for a in normalize_axes(attrs["axis"], len(indices)))
    inputs = {
        slot: (indices if slot == "x" else non_pointwise,) for slot in types if slot != "out"
    }
    return make_axis_map(types, inputs, {"out": (indices,)}, non_pointwise)


@op(
    axes=normalised_axes,
    dtypes=real_numbers,
    function=False,
    operations=8,
    examples=(
        "x=f32[2,3] scale=f32[3] bias=f32[3]",
        "x=f64[b,t,4] scale=f64[4] bias=f64[4] epsilon=0.001",
        "x=f32[b,3,4] scale=f32[3,4] axis=(1,2)",
        "x=f64[2,3,4] bias=f64[3] axis=1",
        "x=f32[2,3] axis=None",
        "x=f32[0,3] scale=f32[3]",
    ),
)
def layer_norm(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    *,
    axis: Axes = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Layer normalisation: mean 0 and variance 1 along some axes, then scale and shift.

        out = (x - mean(x, axis)) / sqrt(var(x, axis) + epsilon) * scale + bias

    Source: Ba, Kiros, Hinton, Layer Normalization, 2016.

    Inputs:
        x: number[*shape].
        scale: float[sizes of `axis`]; absent, it is 1.
        bias: float[sizes of `axis`]; absent, it is 0.

    Attributes:
        axis: The axes that are normalised together; `None` is all of them. `scale` and `bias`
            have these axes in the order of `x`.
        epsilon: Keeps the quotient finite if all numbers are equal.

    Outputs:
        out: The promoted dtype (float32 for integers), the shape of `x`.

    Raises:
        ShapeError: If an axis is out of range, or the shape of `scale` or `bias` differs.
    """
    axes = axis_indices(axis, x.ndim, "layer_norm")
    wider = at_least_float32(x)
    mean, variance = moments(wider, axes)
    normal = (wider - mean) * lax.rsqrt(variance + epsilon)
    return scale_and_shift(normal, scale, bias, axes).astype(result_dtype(x, scale, bias))


@op(
    axes=normalised_axes,
    dtypes=real_numbers,
    function=False,
    operations=4,
    examples=(
        "x=f32[2,3] scale=f32[3]",
        "x=f64[b,t,4] scale=f64[4] epsilon=0.001",
        "x=f32[b,3,4] axis=(1,2)",
        "x=f32[0,3]",
    ),
)
def rms_norm(
    x: Tensor, scale: Tensor | None, *, axis: Axes = -1, epsilon: float = 1e-6
) -> Tensor:
    """RMS normalisation: mean square 1 along some axes of each example, then scale.

        out = x / sqrt(mean(x^2, axis) + epsilon) * scale

    Source: Zhang, Sennrich, Root Mean Square Layer Normalization, 2019.

    Inputs:
        x: number[*shape].
        scale: float[sizes of `axis`]; absent, it is 1.

    Attributes:
        axis: The axes that are normalised together; `None` is all of them.
        epsilon: Keeps the quotient finite if all numbers are 0.

    Outputs:
        out: The promoted dtype (float32 for integers), the shape of `x`.

    Raises:
        ShapeError: If an axis is out of range, or the shape of `scale` differs.
    """
    axes = axis_indices(axis, x.ndim, "rms_norm")
    wider = at_least_float32(x)
    square = jnp.mean(jnp.square(wider), axes, keepdims=True)
    normal = wider * lax.rsqrt(square + epsilon)
    return scale_and_shift(normal, scale, None, axes).astype(result_dtype(x, scale))


def in_groups(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: all axes but the batch are non-pointwise; parameters have the channel axis."""
    shape, groups = shape_of(types["x"][0]), int(str(attrs["groups"]))
    indices, at = numbered_indices(len(shape)), normalize_axis(attrs["axis"], len(shape))
    if at == 0:
        raise AxisError("axis 0, the batch axis, cannot be the channel axis.")
    if groups < 1 or (shape[at] % groups) != 0:
        raise AxisError(
            f"{shape[at]} channels are not divisible by groups={groups}.",
            fix="Use a multiple of groups as the number of channels.",
        )
    channel = (indices[at],)
    inputs = {slot: (indices if slot == "x" else channel,) for slot in types if slot != "out"}
    return make_axis_map(types, inputs, {"out": (indices,)}, indices[1:])


@op(
    axes=in_groups,
    dtypes=real_numbers,
    function=False,
    operations=8,
    examples=(
        "x=f32[2,4,3] scale=f32[4] bias=f32[4] groups=2",
        "x=f64[b,6,h,w] scale=f64[6] bias=f64[6] groups=3",
        "x=f32[b,h,4] groups=4 axis=-1",
        "x=f32[0,4] groups=1",
    ),
)
def group_norm(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    *,
    groups: int,
    axis: Axis = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Group normalisation: mean 0 and variance 1 over groups of channels, then scale and shift.

        out = (x - mean(x)) / sqrt(var(x) + epsilon) * scale + bias

    with mean and variance over a group's channels and all axes but the first. With one channel
    per group it is instance normalisation. Source: Wu, He, Group Normalization, 2018.

    Inputs:
        x: number[n, ...]; the first axis is the batch.
        scale: float[channels]; absent, it is 1.
        bias: float[channels]; absent, it is 0.

    Attributes:
        groups: The number of groups of adjacent channels.
        axis: The axis of the channels; not 0.
        epsilon: Keeps the quotient finite if all numbers are equal.

    Outputs:
        out: The promoted dtype (float32 for integers), the shape of `x`.

    Raises:
        ShapeError: If the number of channels is not divisible by the number of groups, or the
            size of a parameter differs.
    """
    channel = axis_index(axis, x.ndim, "group_norm")
    wider = jnp.moveaxis(at_least_float32(x), channel, 1)
    batch, channels, *space = wider.shape
    grouped = wider.reshape(batch, groups, channels // groups, *space)
    mean, variance = moments(grouped, tuple(range(2, grouped.ndim)))
    normal = ((grouped - mean) * lax.rsqrt(variance + epsilon)).reshape(wider.shape)
    normal = jnp.moveaxis(normal, 1, channel)
    return scale_and_shift(normal, scale, bias, (channel,)).astype(result_dtype(x, scale, bias))


@op(
    axes=mix_along_axis,
    dtypes=real_numbers,
    operations=3,
    examples=(
        "x=f32[2,3]",
        "x=f64[b,4] epsilon=0.001",
        "x=f32[b,3,4] axis=(1,2)",
        "x=f32[0,3]",
    ),
)
def l2_normalize(x: Tensor, *, axis: Axes = -1, epsilon: float = 1e-12) -> Tensor:
    """L2 normalisation: Euclidean norm 1 along some axes.

        out = x / sqrt(max(sum(x^2, axis), epsilon))

    Inputs:
        x: number[*shape].

    Attributes:
        axis: The axes of the norm; `None` is all of them.
        epsilon: The lower bound of the squared norm in the divisor; zeros stay zeros.

    Outputs:
        out: The dtype of `x` (float32 for integers), its shape.

    Raises:
        ShapeError: If an axis is out of range.
    """
    axes = axis_indices(axis, x.ndim, "l2_normalize")
    wider = at_least_float32(x)
    square = jnp.sum(jnp.square(wider), axes, keepdims=True)
    return (wider * lax.rsqrt(jnp.maximum(square, epsilon))).astype(result_dtype(x))


# ---- over the batch --------------------------------------------------------------------------


def over_batch(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: in training all axes but the channels are non-pointwise; else none is.

    Running moments have only the channel axis; without training they do not depend on `x`.
    """
    indices = numbered_indices(first_rank(types, "x"))
    channel = indices[normalize_axis(attrs["axis"], len(indices))]
    non_pointwise = (
        [index for index in indices if index != channel] if attrs["training"] else []
    )
    slots = ("scale", "bias", "running_mean", "running_var")
    inputs = {"x": (indices,)} | {slot: ((channel,),) for slot in slots if slot in types}
    outputs = {"out": (indices,), "next_mean": ((channel,),), "next_var": ((channel,),)}
    return make_axis_map(types, inputs, outputs, non_pointwise, {})


def batch_norm_dtypes(
    what: str, x: DType, mean: DType, variance: DType, *parameters: DType | None, **attrs: Any
) -> tuple[DType, DType, DType]:
    """Dtype rule: the statistics keep their dtypes, which are floating point."""
    for name, dtype in (("running_mean", mean), ("running_var", variance)):
        if not is_float(dtype):
            raise DTypeError(f"{name} of {what}: expected a floating dtype, got {dtype}.")
    return real_numbers(what, x, *parameters, **attrs), mean, variance


def normalised_or_scaled(types: Types, attrs: Attrs) -> int:
    """Cost per element: in training, statistics are computed too."""
    del types
    return 8 if attrs["training"] else 3


@op(
    axes=over_batch,
    dtypes=batch_norm_dtypes,
    outputs=("out", "next_mean", "next_var"),
    function=False,
    operations=count_per_element("x", normalised_or_scaled),
    examples=(
        "x=f32[4,3] scale=f32[3] bias=f32[3] running_mean=f32[3] running_var=f32[3]",
        "x=f64[b,2,h,w] scale=f64[2] bias=f64[2] running_mean=f64[2] running_var=f64[2]",
        "x=f32[b,h,3] running_mean=f32[3] running_var=f32[3] axis=-1 momentum=0.5",
        "x=f64[b,3] scale=f64[3] running_mean=f64[3] running_var=f64[3] training=False",
        "x=f32[0,3] scale=f32[3] bias=f32[3] running_mean=f32[3] running_var=f32[3]",
    ),
)
def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    *,
    training: Training = True,
    axis: Axis = 1,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalisation: mean 0 and variance 1 of each channel, then scale and shift.

        out = (x - mean) / sqrt(var + epsilon) * scale + bias
        next_mean = momentum * running_mean + (1 - momentum) * mean
        next_var = momentum * running_var + (1 - momentum) * var

    In training, `mean` and `var` are those of `x` over all axes but the channels. Otherwise,
    and for an `x` without elements, they are the running statistics, which are returned
    unchanged. Source: Ioffe, Szegedy, Batch Normalization, 2015.

    Inputs:
        x: number[...], with an axis of channels.
        running_mean: float[channels].
        running_var: float[channels].
        scale: float[channels]; absent, it is 1.
        bias: float[channels]; absent, it is 0.

    Attributes:
        training: Whether the statistics are those of `x`; test programs set it to false.
        axis: The axis of the channels.
        momentum: The decay of the running statistics.
        epsilon: Keeps the quotient finite if all numbers are equal.

    Outputs:
        out: The promoted dtype of `x`, `scale` and `bias` (float32 for integers), the shape
            of `x`.
        next_mean: The type of `running_mean`.
        next_var: The type of `running_var`.

    Raises:
        ShapeError: If the axis is out of range, or the size of a parameter differs.
        DTypeError: If the running statistics are not floats.
    """
    channel = axis_index(axis, x.ndim, "batch_norm")
    wider = at_least_float32(x)
    mean, variance = (
        expand_parameter(s, (channel,), x.ndim) for s in (running_mean, running_var)
    )
    next_mean, next_var = running_mean, running_var
    if training and 0 not in x.shape:
        mean, variance = moments(wider, [a for a in range(x.ndim) if a != channel])
        next_mean = _update_running(running_mean, mean, momentum)
        next_var = _update_running(running_var, variance, momentum)
    normal = (wider - mean) * lax.rsqrt(variance + epsilon)
    out = scale_and_shift(normal, scale, bias, (channel,))
    return out.astype(result_dtype(x, scale, bias)), next_mean, next_var


def _update_running(running: Any, batch: Any, momentum: float) -> Any:
    updated = momentum * at_least_float32(running) + (1 - momentum) * batch.reshape(
        running.shape
    )
    return updated.astype(running.dtype)
