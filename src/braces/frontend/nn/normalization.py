"""Layers that normalise, with their scales, biases and running statistics.

A layer makes its scale and its bias, or is given them: `br.layer_norm(x)`, or
`br.layer_norm(x, scale, bias)`; `scale=False` does without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from braces.builder.append import call, one
from braces.builder.builder import Builder, current_program
from braces.builder.var import Operand, Var, named_var
from braces.define.decorator import Axes
from braces.dtypes import FLOAT32, DType
from braces.errors import ProgramError
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.parameters import Parameters, Weight, fixed_size, is_given, to_make
from braces.ops.common.rules import axis_indices, float_dtype, promote


def _weights(
    made: Parameters, said: Mapping[str, Weight], sizes: Callable[[], list[int]], dtype: DType
) -> list[Operand | None]:
    """A scale and a bias as given or made; `sizes` is asked only where one is made."""
    first = {"scale": 1.0, "bias": 0.0}
    shape = sizes() if made.names.keys() & first.keys() else []
    return [
        one if is_given(one) else made.get(role, shape, dtype, first[role])
        for role, one in said.items()
    ]


def _sizes_along(x: Var, axis: Axes, layer: str) -> Callable[[], list[int]]:
    def sizes() -> list[int]:
        return [fixed_size(x, a, layer) for a in axis_indices(axis, len(x.shape), layer)]

    return sizes


@building
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
    """Mean 0 and variance 1 along some axes of each example, then scaled and shifted.

        out = (x - mean(x, axis)) / sqrt(var(x, axis) + epsilon) * scale + bias

    Args:
        x: The input.
        scale: The scale itself, [sizes of `axis`]; or whether one is made. Where neither scale
            nor bias is given, both are made.
        bias: Likewise.
        axis: The axes that are normalised together; of known sizes, where a parameter is made.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names for the parameters that are made, `[scale, bias]` or `[scale]`; those that
            exist are shared.

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
    x, said = operand(x, "layer_norm"), {"scale": scale, "bias": bias}
    made = Parameters("layer_norm", name, params, to_make(said))
    sizes = _sizes_along(x, axis, "layer_norm")
    given = _weights(made, said, sizes, float_dtype(x.dtype))
    return one("layer_norm", x, *given, axis=axis, epsilon=epsilon, name=made.name)


@building
def rms_norm(
    x: Any,
    scale: Weight = None,
    *,
    axis: Axes = -1,
    epsilon: float = 1e-6,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Mean square 1 along some axes of each example, then scaled.

        out = x / sqrt(mean(x^2, axis) + epsilon) * scale

    Args:
        x: The input.
        scale: The scale itself, [sizes of `axis`]; or whether one is made, which it is where
            nothing is said.
        axis: The axes that are normalised together; of known sizes, where a scale is made.
        epsilon: Keeps the quotient finite where all numbers are 0.
        name: The layer's name; its parameter is `name.scale`.
        params: A name for the parameter, `[scale]`; it is shared where it exists.
    """
    x, said = operand(x, "rms_norm"), {"scale": scale}
    made = Parameters("rms_norm", name, params, to_make(said))
    given = _weights(made, said, _sizes_along(x, axis, "rms_norm"), float_dtype(x.dtype))
    return one("rms_norm", x, *given, axis=axis, epsilon=epsilon, name=made.name)


@building
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
    """Mean 0 and variance 1 over groups of channels of each example, then scaled and shifted.

    Args:
        x: The input; the first axis is the batch.
        groups: Into how many groups the channels are cut.
        scale: The scale itself, [channels]; or whether one is made. Where neither scale nor
            bias is given, both are made.
        bias: Likewise.
        axis: The axis of the channels; of known size, where a parameter is made.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names for the parameters that are made, `[scale, bias]` or `[scale]`; those that
            exist are shared.
    """
    x, said = operand(x, "group_norm"), {"scale": scale, "bias": bias}
    made = Parameters("group_norm", name, params, to_make(said))
    sizes = _sizes_along(x, axis, "group_norm")
    given = _weights(made, said, sizes, float_dtype(x.dtype))
    attrs = {"groups": groups, "axis": axis, "epsilon": epsilon}
    return one("group_norm", x, *given, name=made.name, **attrs)


@building
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
    """Mean 0 and variance 1 of each channel of each example, then scaled and shifted.

    It is `group_norm` with as many groups as channels. Source: Ulyanov, Vedaldi, Lempitsky,
    Instance Normalization, 2016.

    Args:
        x: The input; the first axis is the batch.
        scale: The scale itself, [channels]; or whether one is made. Where neither scale nor
            bias is given, both are made.
        bias: Likewise.
        axis: The axis of the channels; of known size.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names for the parameters that are made, `[scale, bias]` or `[scale]`; those that
            exist are shared.

    Raises:
        ShapeError: The size of the axis is symbolic, or there is no such axis.
    """
    x, said = operand(x, "instance_norm"), {"scale": scale, "bias": bias}
    made = Parameters("instance_norm", name, params, to_make(said))
    sizes = _sizes_along(x, axis, "instance_norm")
    given = _weights(made, said, sizes, float_dtype(x.dtype))
    attrs = {"groups": sizes()[0], "axis": axis, "epsilon": epsilon}
    return one("group_norm", x, *given, name=made.name, **attrs)


# ---- along the batch -------------------------------------------------------------------------


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
@building
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
    """Mean 0 and variance 1 of each channel over the batch, then scaled and shifted.

    The layer keeps running statistics. Each run moves them towards those of its batch;
    `prog.for_test()` uses them in place of the batch's. Or they are given, as memories of a
    loop are, and what comes after them is a result.

    Layers that share running statistics move them one after the other, in the order in which
    they are built, and a run commits what comes out. None of them reads what another one of the
    run moved: each normalises with its own batch, and in a test program with the statistics
    that the run began with, so that one of them can be run without the others.

    Args:
        x: The input.
        mean: The running mean itself, [channels], where the layer does not keep its own.
        var: The running variance, likewise.
        scale: The scale itself, [channels]; or whether one is made. Where nothing is given,
            both scale and bias are made.
        bias: Likewise.
        training: False normalises with the running statistics, and leaves them.
        axis: The axis of the channels; of known size, where a parameter is made.
        momentum: How much of the running statistics a run keeps.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`, its states
            `name.mean` and `name.var`.
        params: Names for both, `[scale, bias, mean, var]`, without those that there are not;
            those that exist are shared. `[scale, bias]` shares no statistics.

    Returns:
        The result; where mean and var are given, the result and the next ones of both.

    Raises:
        ProgramError: A layer that keeps statistics is built in an inner block, which runs many
            times or never.
    """
    x, said = operand(x, "batch_norm"), {"scale": scale, "bias": bias}
    keeps = _keeps_statistics(x, mean, var)
    roles = to_make(said, beside=not keeps)
    made = Parameters("batch_norm", name, params, roles, ("mean", "var") if keeps else ())
    sizes, dtype = _sizes_along(x, axis, "batch_norm"), float_dtype(x.dtype)
    given = _weights(made, said, sizes, dtype)
    states = _statistics(made, sizes(), dtype) if keeps else ()
    attrs = {"training": training, "axis": axis, "momentum": momentum, "epsilon": epsilon}
    out, *moved = call(
        "batch_norm", x, *(states or (mean, var)), *given, name=made.name, **attrs
    )
    if not states:
        return out, moved[0], moved[1]
    for state, after in zip(states, moved, strict=True) if training else ():
        _move(current_program(), state, after, momentum)
    return out


def _keeps_statistics(x: Var, mean: Any, var: Any) -> bool:
    """Whether the layer has running statistics of its own, where it may have them.

    Raises:
        ProgramError: It may not, or one of two is given.
    """
    if (mean is None) != (var is None):
        raise ProgramError(
            "batch_norm is given one of two running statistics.",
            fix="Write br.batch_norm(x, mean, var), or neither: the layer then keeps its own.",
        )
    program = current_program()
    if mean is None and not program.current.runs_once:
        raise ProgramError(
            "batch_norm cannot keep its running statistics in an inner block.",
            given=f"{x.name}: {x.type}",
            fix="Normalise outside of loops and branches, use br.layer_norm, or carry the "
            "statistics as memories of the loop: out, mean, var = br.batch_norm(x, mean, var).",
        )
    return mean is None


def _statistics(made: Parameters, channels: list[int], dtype: DType) -> tuple[Var, Var]:
    kept = promote(dtype, FLOAT32)
    return made.state("mean", channels, kept, 0.0), made.state("var", channels, kept, 1.0)


def _move(program: Builder, state: Var, after: Var, momentum: float) -> None:
    """Update a running statistic, after another layer that shares it did so.

    `after` is where this layer alone takes it. One after the other they come to

        momentum * before + (1 - momentum) * batch = after + momentum * (before - state)
    """
    so_far = program.updates.get(state.name)
    if so_far is None:
        program.update(state.name, after.name)
        return
    before = named_var(program, so_far)
    program.update_again(state.name, after + momentum * (before - state))
