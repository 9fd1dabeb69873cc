"""Layers that normalise, with their scales, biases and running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.dtypes import FLOAT32, DType
from braces.errors import ProgramError
from braces.frontend.guard import building, operand
from braces.frontend.parameters import Parameters, fixed_size
from braces.ir.program import Program, default_program
from braces.ops.build import Var, call, one, var_of
from braces.ops.rules import axis_indices, float_dtype, promote


def _scale_and_bias(
    made: Parameters, sizes: Sequence[int], dtype: DType
) -> tuple[Var | None, Var | None]:
    return made.get("scale", sizes, dtype, 1.0), made.get("bias", sizes, dtype, 0.0)


def _roles(scale: bool, bias: bool) -> list[str]:
    return ["scale"] * scale + ["bias"] * bias


@building
def layer_norm(
    x: Any,
    *,
    axis: int | Sequence[int] = -1,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
    scale: bool = True,
    bias: bool = True,
) -> Var:
    """Mean 0 and variance 1 along some axes of each example, then scaled and shifted.

    Args:
        x: The input.
        axis: The axes that are normalised together, of known sizes.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names for the parameters, `[scale, bias]` or `[scale]`; those that exist are
            shared.
        scale: Whether there is a scale.
        bias: Whether there is a bias.
    """
    x = operand(x, "layer_norm")
    made = Parameters("layer_norm", name, params, _roles(scale, bias))
    sizes = _sizes_along(x, axis, "layer_norm")
    given = _scale_and_bias(made, sizes, float_dtype(x.dtype))
    return one("layer_norm", x, *given, axis=axis, epsilon=epsilon, name=made.name)


def _sizes_along(x: Var, axis: int | Sequence[int], layer: str) -> list[int]:
    axes = axis if isinstance(axis, int) else tuple(axis)
    return [fixed_size(x, a, layer) for a in axis_indices(axes, len(x.shape), layer)]


@building
def rms_norm(
    x: Any,
    *,
    axis: int | Sequence[int] = -1,
    epsilon: float = 1e-6,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Mean square 1 along some axes of each example, then scaled.

    Args:
        x: The input.
        axis: The axes that are normalised together, of known sizes.
        epsilon: Keeps the quotient finite where all numbers are 0.
        name: The layer's name; its parameter is `name.scale`.
        params: A name for the parameter, `[scale]`; it is shared where it exists.
    """
    x = operand(x, "rms_norm")
    made = Parameters("rms_norm", name, params, ["scale"])
    sizes = _sizes_along(x, axis, "rms_norm")
    scale = made.get("scale", sizes, float_dtype(x.dtype), 1.0)
    return one("rms_norm", x, scale, axis=axis, epsilon=epsilon, name=made.name)


@building
def group_norm(
    x: Any,
    groups: int,
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
        axis: The axis of the channels, of known size.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        params: Names for the parameters, `[scale, bias]` or `[scale]`; those that exist are
            shared.
    """
    x = operand(x, "group_norm")
    made = Parameters("group_norm", name, params, ["scale", "bias"])
    channels = [fixed_size(x, axis, "group_norm")]
    given = _scale_and_bias(made, channels, float_dtype(x.dtype))
    attrs = {"groups": groups, "axis": axis, "epsilon": epsilon}
    return one("group_norm", x, *given, name=made.name, **attrs)


@building
def batch_norm(
    x: Any,
    *,
    axis: int = 1,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    name: str | None = None,
    params: Sequence[str] | None = None,
    scale: bool = True,
    bias: bool = True,
) -> Var:
    """Mean 0 and variance 1 of each channel over the batch, then scaled and shifted.

    Each run moves the running statistics towards those of its batch; `prog.for_test()` uses
    them in place of the batch's.

    Layers that share running statistics move them one after the other, in the order in which
    they are built, and a run commits what comes out. None of them reads what another one of the
    run moved: each normalises with its own batch, and in a test program with the statistics
    that the run began with, so that one of them can be run without the others.

    Args:
        x: The input.
        axis: The axis of the channels, of known size.
        momentum: How much of the running statistics a run keeps.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`, its states
            `name.mean` and `name.var`.
        params: Names for both, `[scale, bias, mean, var]`, without those that there are not;
            those that exist are shared. `[scale, bias]` shares no statistics.
        scale: Whether there is a scale.
        bias: Whether there is a bias.

    Raises:
        ProgramError: The layer is built in an inner block, which runs many times or never.
    """
    x = operand(x, "batch_norm")
    program = default_program()
    if program.current is not program.table:
        raise ProgramError(
            "batch_norm cannot keep its running statistics in an inner block.",
            given=f"{x.name}: {x.type}",
            fix="Normalise outside of loops and branches, use br.layers.layer_norm, or carry "
            "the statistics as memories of the loop with the operator br.batch_norm.",
        )
    made = Parameters("batch_norm", name, params, _roles(scale, bias), ("mean", "var"))
    channels, dtype = [fixed_size(x, axis, "batch_norm")], float_dtype(x.dtype)
    scales = _scale_and_bias(made, channels, dtype)
    kept = promote(dtype, FLOAT32)
    running = made.state("mean", channels, kept, 0.0), made.state("var", channels, kept, 1.0)
    attrs = {"axis": axis, "momentum": momentum, "epsilon": epsilon}
    out, *moved = call("batch_norm", x, *running, *scales, name=made.name, **attrs)
    for state, after in zip(running, moved, strict=True):
        _move(program, state, after, momentum)
    return out


def _move(program: Program, state: Var, after: Var, momentum: float) -> None:
    """Update a running statistic, after another layer that shares it did so.

    `after` is where this layer alone takes it. One after the other they come to

        momentum * before + (1 - momentum) * batch = after + momentum * (before - state)
    """
    so_far = program.updates.pop(state.name, None)
    if so_far is not None:
        before = var_of(program, program.table, so_far)
        after = after + momentum * (before - state)
    program.update(state.name, after.name)
