"""Operators that are differentiable for some attributes only; other uses raise an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from braces.builder.append import apply, describe_operands
from braces.builder.var import Var
from braces.define.axes.axis_map import Attrs
from braces.define.completion import KernelOp
from braces.errors import GradientError
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import Backward


def refuse_derivative_if(
    definition: KernelOp, refused: Callable[[VarSlots, Attrs], str | None], description: str
) -> None:
    """Use the derivatives derived from the kernel, except for nondifferentiable uses.

    Args:
        definition: The operator.
        refused: Maps inputs and attributes to a fix if the use has no derivative, else to
            `None`.
        description: The result of nondifferentiable uses, as named in the error message.
    """

    def check(values: VarSlots, attrs: Attrs) -> None:
        fix = refused(values, attrs)
        if fix is not None:
            raise GradientError(
                f"{definition.type} is not differentiable if it computes {description}.",
                given=describe_operands({s.name: values[s.name] for s in definition.inputs}),
                fix=fix,
            )

    def gradient(g: Backward) -> dict[str, tuple[Var, ...]]:
        check(g.inputs, g.attrs)
        cotangents = {f"{slot}_grad": of for slot, of in g.grads.items() if of[0] is not None}
        operands = cast("dict[str, tuple[Var, ...]]", {**g.inputs, **cotangents})
        wanted = [f"{slot}_grad" for slot in g.inputs if g.wants(slot)]
        results = apply(f"{definition.type}.vjp", operands, g.attrs, wanted=wanted)
        return {slot.removesuffix("_grad"): of for slot, of in results.items()}

    def jvp(values: VarSlots, tangents: VarSlots, attrs: Attrs) -> VarSlots:
        check(values, attrs)
        operands = {slot.name: values[slot.name] for slot in definition.inputs}
        nonzero = {f"{slot}_tangent": of for slot, of in tangents.items() if of}
        wanted = [f"{slot.name}_tangent" for slot in definition.outputs]
        results = apply(f"{definition.type}.jvp", {**operands, **nonzero}, attrs, wanted=wanted)
        return {slot.removesuffix("_tangent"): of for slot, of in results.items()}

    definition.gradient(gradient)
    definition.jvp(jvp)
