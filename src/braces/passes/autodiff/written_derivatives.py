"""Checks of derivatives that users write: their number, dtypes and shapes.

Type inference takes the type of a gradient from its input, so a rule or kernel that returns
another type would be wrong silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, cast

from braces.builder.append import describe_operands
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.define.core.kernel_call import first_line_of
from braces.define.decorator import OpDef
from braces.define.type_inference import resolve_types, types_of_kernel
from braces.define.written_vjp import WrittenVjp, is_of_user
from braces.dtypes import unifies
from braces.errors import OpDefinitionError
from braces.ir.records import Op
from braces.passes.autodiff.common import as_list

Vars = Mapping[str, tuple[Var, ...]]
"""Variables by slot."""


def check_count(derived: OpDef, op: Op, active: Set[str]) -> None:
    """Refuse a written gradient that lacks an input whose gradient is needed."""
    if not isinstance(derived, WrittenVjp):
        return
    for slot, names in op.inputs.items():
        if derived.output(slot + derived.suffix) is None and not active.isdisjoint(names):
            raise derived.count_error(len(derived.outputs)).located(op.describe())


def check_kernel(
    derived: OpDef,
    op: Op,
    call: tuple[Vars, Mapping[str, Any]],
    slots: list[str],
    inputs: Vars,
) -> list[str]:
    """Check the gradients that a kernel of a user returns; return the slots that have one.

    Args:
        derived: The gradient.
        op: The operator.
        call: Operands and attributes of the gradient.
        slots: The slots whose gradients are needed.
        inputs: The inputs of the operator.

    Raises:
        OpDefinitionError: If the number or the types are not those of the inputs.
    """
    if not (isinstance(derived, WrittenVjp) and derived.of_user):
        return slots
    operands, attrs = call
    unifier = current_program().current.unifier
    operand_types = {
        slot: tuple(var.type for var in several) for slot, several in operands.items()
    }
    try:
        types = resolve_types(operand_types, unifier)
        traced = types_of_kernel(derived, types, derived.bind_attrs(attrs))
        if traced is None:
            return slots
        for slot in filter(traced.__contains__, slots):
            sources = inputs[slot.removesuffix(derived.suffix)]
            if len(traced[slot]) != len(sources):
                raise derived.count_error(len(traced[slot]), len(sources))
            for source, got in zip(sources, traced[slot], strict=True):
                if not unifies(source.type, got, unifier.copy()):
                    raise derived.type_error(slot, source.type, got)
    except OpDefinitionError as error:
        error.given = error.given or describe_operands(operands)
        raise error.located(op.describe()) from error.__cause__
    return [slot for slot in slots if slot in traced]


def check_types(
    op: Op,
    part: str,
    rule: Callable[..., Any],
    known: Vars,
    derivatives: Mapping[str, Sequence[object] | object],
) -> None:
    """Refuse cotangents or tangents of a rule whose types are not those of its variables.

    Args:
        op: The operator.
        part: The name of the rule, `gradient` or `jvp`.
        rule: The rule.
        known: The variables of the operator.
        derivatives: The results, by their slots.
    """
    if not is_of_user(rule):
        return
    unifier = current_program().current.unifier
    for slot, values in derivatives.items():
        several = as_list(cast("Any", values))
        for source, got in zip(known.get(slot, ()), several, strict=False):
            if isinstance(got, Var) and not unifies(source.type, got.type, unifier.copy()):
                kind = "gradient" if part == "gradient" else "tangent"
                raise OpDefinitionError(
                    f"@{op.type}.{part}: expected {source.type} for the {kind} of `{slot}`, "
                    f"got {got.type}.",
                    at=op.describe(),
                    given=describe_operands({slot: [source]}) + f"   {kind}: {got.type}",
                    fix=f"Return a {kind} with this dtype and shape. See {first_line_of(rule)}",
                )
