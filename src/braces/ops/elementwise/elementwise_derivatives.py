"""Derivatives of elementwise functions by their slopes: one formula for both modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.define.completion import KernelOp
from braces.dtypes import FLOAT32
from braces.ops.common.half_precision import is_narrow
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import Backward, sum_to
from braces.ops.elementwise.arithmetic import in_dtype

Slope: TypeAlias = "Callable[[Var, Var, Var], Var]"
"""From `x`, `y` and `out` to the derivative of `out` by one of the inputs."""


def by_slopes(definition: KernelOp, x: Slope, y: Slope) -> None:
    """Write gradient and directional derivative of a function of `x` and `y`.

    x_grad = out_grad * slope_x,   out_tangent = slope_x * x_tangent + slope_y * y_tangent
    """
    slopes = {"x": x, "y": y}

    def gradient(g: Backward) -> dict[str, Var]:
        return {
            slot: sum_to(g.out_grad * slope(g["x"], g["y"], g["out"]), g[slot])
            for slot, slope in slopes.items()
            if g.wants(slot)
        }

    def jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
        del attrs
        (left,), (right,), (out,) = values["x"], values["y"], values["out"]
        parts = [
            slope(left, right, out) * tangents[slot][0]
            for slot, slope in slopes.items()
            if tangents[slot]
        ]
        moved = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        if moved.shape != out.shape:
            moved = one("broadcast_to", moved, shape=out.shape)
        return {"out": (in_dtype(moved, out),)}

    definition.gradient(gradient)
    definition.jvp(jvp)


def by_precision(definition: KernelOp, slope: Callable[[Var], Var]) -> None:
    """Take the written gradient, which reads the result, for numbers of 32 bits and more only.

    A 16-bit result has too few digits for a slope that vanishes at its bounds; that of 16-bit
    numbers is computed from `x` in float32 instead.
    """
    written = f"{definition.type}.vjp"

    def moved(x: Var, out: Var, change: Var) -> Var:
        if is_narrow(out.dtype):
            return in_dtype(change * slope(one("cast", x, dtype=FLOAT32)), out)
        return apply(written, {"out": (out,), "out_grad": (change,)})["x_grad"][0]

    def jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
        del attrs
        return {"out": (moved(values["x"][0], values["out"][0], tangents["x"][0]),)}

    definition.gradient(lambda g: {"x": moved(g["x"], g["out"], g.out_grad)})
    definition.jvp(jvp)


def forward_as_backward(*definitions: KernelOp) -> None:
    """Say that functions of one number take tangents as they take cotangents.

    The written gradient is a product with the slope, which is all that either mode needs.
    """
    for definition in definitions:
        definition.jvp(_jvp(definition))


def _jvp(definition: KernelOp) -> Callable[..., VarSlots]:
    rule = definition.vjp_rule
    assert rule is not None
    needed = [slot.name for slot in rule.inputs if slot.name != "out_grad"]

    def jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
        inputs = {name: values[name] for name in needed} | {"out_grad": tangents["x"]}
        return {"out": apply(rule.type, inputs, attrs)["x_grad"]}

    return jvp
