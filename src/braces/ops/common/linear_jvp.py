"""JVP rules of linear operators: the operator applied to the tangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from braces.builder.append import apply
from braces.builder.var import Var, tensor_type
from braces.define.completion import KernelOp
from braces.dtypes import is_float
from braces.ops.common.rules import build_zeros

VarSlots: TypeAlias = "Mapping[str, tuple[Var, ...]]"


def register_linear(*definitions: KernelOp, **changed: Any) -> None:
    """Register the JVP rule of operators that are linear in all inputs except indices.

    Args:
        definitions: The operators.
        changed: Attributes that differ when the operator is applied to tangents.
    """
    for definition in definitions:
        definition.jvp(_build_jvp_rule(definition, changed))


def _build_jvp_rule(
    definition: KernelOp, changed: Mapping[str, Any]
) -> Callable[..., Mapping[str, Any]]:
    def rule(
        values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        operands = {
            slot.name: tangents.get(slot.name) or tuple(map(_zero_tangent, values[slot.name]))
            for slot in definition.inputs
            if slot.name in values
        }
        return apply(definition.type, operands, {**attrs, **changed})

    return rule


def _zero_tangent(var: Var) -> Var:
    """Return the tangent of a constant input: zeros, or the input itself for indices."""
    return build_zeros(tensor_type(var)) if is_float(var.dtype) else var
