"""Operators that are linear in their numbers: the tangent is what they make of tangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from braces.builder.append import apply
from braces.builder.var import Var, tensor_type
from braces.define.completion import KernelOp
from braces.dtypes import is_float
from braces.ops.common.rules import zeros_of

VarSlots: TypeAlias = "Mapping[str, tuple[Var, ...]]"


def linear(*definitions: KernelOp, **changed: Any) -> None:
    """Say that operators are linear in all inputs that are no indices.

    Args:
        definitions: The operators.
        changed: Attributes that are others for tangents.
    """
    for definition in definitions:
        definition.jvp(_rule(definition, changed))


def _rule(definition: KernelOp, changed: Mapping[str, Any]) -> Callable[..., Mapping[str, Any]]:
    def rule(
        values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        operands = {
            slot.name: tangents.get(slot.name) or tuple(map(_still, values[slot.name]))
            for slot in definition.inputs
            if slot.name in values
        }
        return apply(definition.type, operands, {**attrs, **changed})

    return rule


def _still(var: Var) -> Var:
    """What stands for the tangent of an input that does not move: indices stay as they are."""
    return zeros_of(tensor_type(var)) if is_float(var.dtype) else var
