"""Layers that normalise, with their scales, biases and running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.dtypes import FLOAT32, DType
from braces.errors import ProgramError
from braces.frontend.guard import building, operand
from braces.frontend.parameters import Parameters, fixed_size
from braces.frontend.variables import persistable
from braces.ir.program import default_program
from braces.ir.records import STATE
from braces.ops.build import Var, call, one
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
    scale: bool = True,
    bias: bool = True,
) -> Var:
    """Mean 0 and variance 1 along some axes of each example, then scaled and shifted.

    Args:
        x: The input.
        axis: The axes that are normalised together, of known sizes.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
        scale: Whether there is a scale.
        bias: Whether there is a bias.
    """
    x = operand(x, "layer_norm")
    made = Parameters("layer_norm", name, roles=_roles(scale, bias))
    sizes = _sizes_along(x, axis, "layer_norm")
    given = _scale_and_bias(made, sizes, float_dtype(x.dtype))
    return one("layer_norm", x, *given, axis=axis, epsilon=epsilon, name=made.name)


def _sizes_along(x: Var, axis: int | Sequence[int], layer: str) -> list[int]:
    axes = axis if isinstance(axis, int) else tuple(axis)
    return [fixed_size(x, a, layer) for a in axis_indices(axes, len(x.shape), layer)]


@building
def rms_norm(
    x: Any, *, axis: int | Sequence[int] = -1, epsilon: float = 1e-6, name: str | None = None
) -> Var:
    """Mean square 1 along some axes of each example, then scaled.

    Args:
        x: The input.
        axis: The axes that are normalised together, of known sizes.
        epsilon: Keeps the quotient finite where all numbers are 0.
        name: The layer's name; its parameter is `name.scale`.
    """
    x = operand(x, "rms_norm")
    made = Parameters("rms_norm", name, roles=["scale"])
    sizes = _sizes_along(x, axis, "rms_norm")
    scale = made.get("scale", sizes, float_dtype(x.dtype), 1.0)
    return one("rms_norm", x, scale, axis=axis, epsilon=epsilon, name=made.name)


@building
def group_norm(
    x: Any, groups: int, *, axis: int = 1, epsilon: float = 1e-5, name: str | None = None
) -> Var:
    """Mean 0 and variance 1 over groups of channels of each example, then scaled and shifted.

    Args:
        x: The input; the first axis is the batch.
        groups: Into how many groups the channels are cut.
        axis: The axis of the channels, of known size.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`.
    """
    x = operand(x, "group_norm")
    made = Parameters("group_norm", name, roles=["scale", "bias"])
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
    scale: bool = True,
    bias: bool = True,
) -> Var:
    """Mean 0 and variance 1 of each channel over the batch, then scaled and shifted.

    Each run moves the running statistics towards those of its batch; `prog.for_test()` uses
    them in place of the batch's.

    Args:
        x: The input.
        axis: The axis of the channels, of known size.
        momentum: How much of the running statistics a run keeps.
        epsilon: Keeps the quotient finite where all numbers are equal.
        name: The layer's name; its parameters are `name.scale` and `name.bias`, its states
            `name.mean` and `name.var`.
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
    made = Parameters("batch_norm", name, roles=_roles(scale, bias))
    channels, dtype = [fixed_size(x, axis, "batch_norm")], float_dtype(x.dtype)
    names = [f"{made.name}.mean", f"{made.name}.var"]
    running = [
        persistable(n, channels, value, promote(dtype, FLOAT32), kind=STATE, trainable=False)
        for n, value in zip(names, (0.0, 1.0), strict=True)
    ]
    given = (x, *running, *_scale_and_bias(made, channels, dtype))
    attrs = {"axis": axis, "momentum": momentum, "epsilon": epsilon}
    out, *moved = call("batch_norm", *given, name=made.name, **attrs)
    for state, after in zip(names, moved, strict=True):
        program.update(state, after.name)
    return out
