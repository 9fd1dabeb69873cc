"""Normalization layers, with scales, biases and running statistics.

A layer creates its scale and bias, or uses given ones: `br.layer_norm(x)`, or
`br.layer_norm(x, scale, bias)`; `scale=False` omits the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from braces.builder.append import call, emit
from braces.builder.builder import Builder, current_program
from braces.builder.var import Operand, Var, named_var
from braces.define.decorator import Axes
from braces.dtypes import FLOAT32, DType
from braces.errors import ProgramError
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.parameters import (
    LayerParameters,
    Weight,
    fixed_size,
    is_given,
    roles_to_create,
)
from braces.ops.common.rules import axis_indices, float_dtype, promote


def _weights(
    parameters: LayerParameters,
    weights: Mapping[str, Weight],
    sizes: Callable[[], list[int]],
    dtype: DType,
) -> list[Operand | None]:
    """Return a scale and a bias, given or created; `sizes` is called only to create one."""
    first = {"scale": 1.0, "bias": 0.0}
    shape = sizes() if parameters.names.keys() & first.keys() else []
    return [
        weight if is_given(weight) else parameters.get(role, shape, dtype, first[role])
        for role, weight in weights.items()
    ]


def _sizes_along(x: Var, axis: Axes, layer: str) -> Callable[[], list[int]]:
    def sizes() -> list[int]:
        return [fixed_size(x, a, layer) for a in axis_indices(axis, len(x.shape), layer)]

    return sizes


@transactional
def layer_norm(
    x: Any,
    scale: Weight = None,
    bias: Weight = None,
    *,
    axis: Axes = -1,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Layer normalization: mean 0 and variance 1 along axes of each example, then affine.

        out = (x - mean(x, axis)) / sqrt(var(x, axis) + epsilon) * scale + bias

    Args:
        x: The input.
        scale: The scale itself, [sizes of `axis`]; or whether to create one. By default both
            scale and bias are created.
        bias: The bias itself, or whether to create one, likewise.
        axis: The axes to normalise over; their sizes are not symbolic if a parameter is
            created.
        epsilon: Small constant that keeps the quotient finite if all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names of the created parameters, `[scale, bias]` or `[scale]`; existing ones are
            shared.

    Example:
        >>> import braces as br
        >>> with br.Program() as program:
        ...     x = br.data("x", ["batch", 8])
        ...     made = br.layer_norm(x, name="norm")
        ...     given = br.layer_norm(x, br.get_variable("norm.scale"))
        ...     plain = br.layer_norm(x, scale=False, bias=False)
        ...     print([one.name for one in program.parameters])
        ['norm.scale', 'norm.bias']
    """
    x, weights = operand(x, "layer_norm"), {"scale": scale, "bias": bias}
    layer_params = LayerParameters("layer_norm", name, params, roles_to_create(weights))
    sizes = _sizes_along(x, axis, "layer_norm")
    values = _weights(layer_params, weights, sizes, float_dtype(x.dtype))
    return emit("layer_norm", x, *values, axis=axis, epsilon=epsilon, name=layer_params.name)


@transactional
def rms_norm(
    x: Any,
    scale: Weight = None,
    *,
    axis: Axes = -1,
    epsilon: float = 1e-6,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """RMS normalization: mean square 1 along some axes of each example, then a scale.

        out = x / sqrt(mean(x^2, axis) + epsilon) * scale

    Args:
        x: The input.
        scale: The scale itself, [sizes of `axis`]; or whether to create one (the default).
        axis: The axes to normalise over; their sizes are not symbolic if a scale is created.
        epsilon: Small constant that keeps the quotient finite if all numbers are 0.
        name: The layer's name; its parameter is `name.scale`.
        params: Name of the parameter, `[scale]`; an existing one is shared.
    """
    x, weights = operand(x, "rms_norm"), {"scale": scale}
    layer_params = LayerParameters("rms_norm", name, params, roles_to_create(weights))
    values = _weights(
        layer_params, weights, _sizes_along(x, axis, "rms_norm"), float_dtype(x.dtype)
    )
    return emit("rms_norm", x, *values, axis=axis, epsilon=epsilon, name=layer_params.name)


@transactional
def group_norm(
    x: Any,
    groups: int,
    scale: Weight = None,
    bias: Weight = None,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Group normalization: mean 0 and variance 1 over channel groups of each example.

    Args:
        x: The input; the first axis is the batch.
        groups: Number of groups of channels.
        scale: The scale itself, [channels]; or whether to create one. By default both scale and
            bias are created.
        bias: The bias itself, or whether to create one, likewise.
        axis: The channel axis; its size is not symbolic if a parameter is created.
        epsilon: Small constant that keeps the quotient finite if all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names of the created parameters, `[scale, bias]` or `[scale]`; existing ones are
            shared.
    """
    x, weights = operand(x, "group_norm"), {"scale": scale, "bias": bias}
    layer_params = LayerParameters("group_norm", name, params, roles_to_create(weights))
    sizes = _sizes_along(x, axis, "group_norm")
    values = _weights(layer_params, weights, sizes, float_dtype(x.dtype))
    attrs = {"groups": groups, "axis": axis, "epsilon": epsilon}
    return emit("group_norm", x, *values, name=layer_params.name, **attrs)


@transactional
def instance_norm(
    x: Any,
    scale: Weight = None,
    bias: Weight = None,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Instance normalization: mean 0 and variance 1 of each channel of each example.

    It is `group_norm` with one channel per group. Source: Ulyanov, Vedaldi, Lempitsky,
    Instance Normalization, 2016.

    Args:
        x: The input; the first axis is the batch.
        scale: The scale itself, [channels]; or whether to create one. By default both scale and
            bias are created.
        bias: The bias itself, or whether to create one, likewise.
        axis: The channel axis; its size is not symbolic.
        epsilon: Small constant that keeps the quotient finite if all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names of the created parameters, `[scale, bias]` or `[scale]`; existing ones are
            shared.

    Raises:
        ShapeError: If the size of the axis is symbolic, or the axis is out of range.
    """
    x, weights = operand(x, "instance_norm"), {"scale": scale, "bias": bias}
    layer_params = LayerParameters("instance_norm", name, params, roles_to_create(weights))
    sizes = _sizes_along(x, axis, "instance_norm")
    values = _weights(layer_params, weights, sizes, float_dtype(x.dtype))
    attrs = {"groups": sizes()[0], "axis": axis, "epsilon": epsilon}
    return emit("group_norm", x, *values, name=layer_params.name, **attrs)


# ---- over the batch --------------------------------------------------------------------------


@overload
def batch_norm(
    x: Any,
    mean: None = None,
    var: None = None,
    scale: Weight = None,
    bias: Weight = None,
    *,
    training: bool = True,
    axis: int = 1,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var: ...
@overload
def batch_norm(
    x: Any,
    mean: Operand,
    var: Operand,
    scale: Weight = None,
    bias: Weight = None,
    *,
    training: bool = True,
    axis: int = 1,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> tuple[Var, Var, Var]: ...
@transactional
def batch_norm(
    x: Any,
    mean: Operand | None = None,
    var: Operand | None = None,
    scale: Weight = None,
    bias: Weight = None,
    *,
    training: bool = True,
    axis: int = 1,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var | tuple[Var, Var, Var]:
    """Batch normalization: mean 0 and variance 1 of each channel, then an affine map.

    The layer has running statistics as states. Each run moves them towards those of its batch;
    `prog.for_test()` uses them in place of the batch's. Or they are arguments, for example the
    memories of a loop, and their next values are results.

    Layers that share running statistics update them in the order of construction, and a run
    commits the final values. No layer reads another one's update within a run: each normalises
    with its own batch, and in a test program with the statistics at the start of the run. So
    each of them can be run without the others.

    Args:
        x: The input.
        mean: The running mean, [channels], if the layer has no state for it.
        var: The running variance, likewise.
        scale: The scale itself, [channels]; or whether to create one. By default both scale and
            bias are created.
        bias: The bias itself, or whether to create one, likewise.
        training: False normalises with the running statistics, without updating them.
        axis: The channel axis; its size is not symbolic if a parameter is created.
        momentum: Decay rate of the running statistics.
        epsilon: Small constant that keeps the quotient finite if all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`, its states
            `name.mean` and `name.var`.
        params: Names of parameters and states, `[scale, bias, mean, var]`, without absent ones;
            existing ones are shared. `[scale, bias]` shares no statistics.

    Returns:
        The result; if mean and var are given, the result and their next values.

    Raises:
        ProgramError: If a layer with statistics as states is built in an inner block, which
            runs many times or never.
    """
    x, weights = operand(x, "batch_norm"), {"scale": scale, "bias": bias}
    keeps = _keeps_statistics(x, mean, var)
    roles = roles_to_create(weights, beside=not keeps)
    layer_params = LayerParameters(
        "batch_norm", name, params, roles, ("mean", "var") if keeps else ()
    )
    sizes, dtype = _sizes_along(x, axis, "batch_norm"), float_dtype(x.dtype)
    values = _weights(layer_params, weights, sizes, dtype)
    states = _statistics(layer_params, sizes(), dtype) if keeps else ()
    attrs = {"training": training, "axis": axis, "momentum": momentum, "epsilon": epsilon}
    out, *next_statistics = call(
        "batch_norm", x, *(states or (mean, var)), *values, name=layer_params.name, **attrs
    )
    if not states:
        return out, next_statistics[0], next_statistics[1]
    for state, next_value in zip(states, next_statistics, strict=True) if training else ():
        _update_statistic(current_program(), state, next_value, momentum)
    return out


def _keeps_statistics(x: Var, mean: Any, var: Any) -> bool:
    """Return whether the layer has running statistics as states.

    Raises:
        ProgramError: If statistics are not allowed here, or only one of `mean` and `var` is
            given.
    """
    if (mean is None) != (var is None):
        raise ProgramError(
            "batch_norm: expected both running statistics, got one.",
            fix="Write br.batch_norm(x, mean, var), or omit both: the layer then has its own.",
        )
    program = current_program()
    if mean is None and not program.current.runs_once:
        raise ProgramError(
            "batch_norm cannot update its running statistics in an inner block.",
            given=f"{x.name}: {x.type}",
            fix="Normalize outside of loops and branches, use br.layer_norm, or carry the "
            "statistics as memories of the loop: out, mean, var = br.batch_norm(x, mean, var).",
        )
    return mean is None


def _statistics(
    parameters: LayerParameters, channels: list[int], dtype: DType
) -> tuple[Var, Var]:
    dtype_of_states = promote(dtype, FLOAT32)
    return parameters.state("mean", channels, dtype_of_states, 0.0), parameters.state(
        "var", channels, dtype_of_states, 1.0
    )


def _update_statistic(program: Builder, state: Var, new_value: Var, momentum: float) -> None:
    """Update a running statistic, possibly after another layer that shares it.

    `new_value` is the update of this layer alone. The combined update is

        momentum * previous + (1 - momentum) * batch = new_value + momentum * (previous - state)
    """
    previous_update = program.updates.get(state.name)
    if previous_update is None:
        program.update(state.name, new_value.name)
        return
    previous = named_var(program, previous_update)
    program.update_again(state.name, new_value + momentum * (previous - state))
