"""Operators of which some uses have no derivative: that is said where one is wanted."""

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


def unless(
    definition: KernelOp, refused: Callable[[VarSlots, Attrs], str | None], given: str
) -> None:
    """Take the derivatives that follow from the kernel, but where there are none.

    Args:
        definition: The operator.
        refused: From the inputs and the attributes to the way out, where there is none.
        given: What it gives where it has none, as messages say it.
    """

    def check(values: VarSlots, attrs: Attrs) -> None:
        fix = refused(values, attrs)
        if fix is not None:
            raise GradientError(
                f"{definition.type} has no derivative where it gives {given}.",
                given=describe_operands({s.name: values[s.name] for s in definition.inputs}),
                fix=fix,
            )

    def gradient(g: Backward) -> dict[str, tuple[Var, ...]]:
        check(g.inputs, g.attrs)
        known = {f"{slot}_grad": of for slot, of in g.grads.items() if of[0] is not None}
        operands = cast("dict[str, tuple[Var, ...]]", {**g.inputs, **known})
        wanted = [f"{slot}_grad" for slot in g.inputs if g.wants(slot)]
        made = apply(f"{definition.type}.vjp", operands, g.attrs, wanted=wanted)
        return {slot.removesuffix("_grad"): of for slot, of in made.items()}

    def jvp(values: VarSlots, tangents: VarSlots, attrs: Attrs) -> VarSlots:
        check(values, attrs)
        known = {slot.name: values[slot.name] for slot in definition.inputs}
        moved = {f"{slot}_tangent": of for slot, of in tangents.items() if of}
        wanted = [f"{slot.name}_tangent" for slot in definition.outputs]
        made = apply(f"{definition.type}.jvp", {**known, **moved}, attrs, wanted=wanted)
        return {slot.removesuffix("_tangent"): of for slot, of in made.items()}

    definition.gradient(gradient)
    definition.jvp(jvp)
