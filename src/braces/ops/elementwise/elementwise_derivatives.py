"""Derivative rules of elementwise functions: one formula for forward and reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.define.completion import KernelOp
from braces.dtypes import FLOAT32
from braces.ops.common.half_precision import is_narrow
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import Backward, sum_to
from braces.ops.elementwise.arithmetic import cast_like

Slope: TypeAlias = "Callable[[Var, Var, Var], Var]"
"""Builds the partial derivative of `out` by an input from `x`, `y` and `out`."""


def by_slopes(definition: KernelOp, x: Slope, y: Slope) -> None:
    """Register gradient and JVP rule of a function from its partial derivatives.

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
        terms = [
            slope(left, right, out) * tangents[slot][0]
            for slot, slope in slopes.items()
            if tangents[slot]
        ]
        tangent = terms[0] if len(terms) == 1 else terms[0] + terms[1]
        if tangent.shape != out.shape:
            tangent = emit("broadcast_to", tangent, shape=out.shape)
        return {"out": (cast_like(tangent, out),)}

    definition.gradient(gradient)
    definition.jvp(jvp)


def by_precision(definition: KernelOp, slope: Callable[[Var], Var]) -> None:
    """Restrict the explicit gradient, which reads the result, to dtypes of 32 bits and more.

    A 16-bit result has too few digits for a derivative that vanishes at the bounds of the
    function. For 16-bit floats it is computed from `x` in float32 instead.
    """
    vjp_type = f"{definition.type}.vjp"

    def multiply_by_slope(x: Var, out: Var, change: Var) -> Var:
        if is_narrow(out.dtype):
            return cast_like(change * slope(emit("cast", x, dtype=FLOAT32)), out)
        return apply(vjp_type, {"out": (out,), "out_grad": (change,)})["x_grad"][0]

    def jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
        del attrs
        return {"out": (multiply_by_slope(values["x"][0], values["out"][0], tangents["x"][0]),)}

    definition.gradient(lambda g: {"x": multiply_by_slope(g["x"], g["out"], g.out_grad)})
    definition.jvp(jvp)


def forward_as_backward(*definitions: KernelOp) -> None:
    """Register the VJP rules of unary elementwise functions as their JVP rules.

    Both modes multiply by the derivative, so the same formula serves both.
    """
    for definition in definitions:
        definition.jvp(_build_jvp_rule(definition))


def _build_jvp_rule(definition: KernelOp) -> Callable[..., VarSlots]:
    rule = definition.vjp_rule
    assert rule is not None
    needed = [slot.name for slot in rule.inputs if slot.name != "out_grad"]

    def jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
        inputs = {name: values[name] for name in needed} | {"out_grad": tangents["x"]}
        return {"out": apply(rule.type, inputs, attrs)["x_grad"]}

    return jvp
