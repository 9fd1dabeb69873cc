"""Random effects: the random states that random operators read, at any depth."""

from __future__ import annotations

from braces.define.decorator import OPS
from braces.ir.records import Body, Op
from braces.ir.walk import all_ops, ancestors


def random_states(body: Body, *, drawing: bool = False) -> set[str]:
    """Return the persistable variables of a main block that its random draws depend on.

    Args:
        body: The main block.
        drawing: Ignore operators that draw only in training mode and are in inference mode.
    """
    state_names = {
        name
        for _, op in all_ops(body)
        if is_random(op) and not (drawing and is_in_inference_mode(op))
        for name in _state_names(op)
    }
    source_names = ancestors(body.ops, state_names) & body.vars.keys()
    return {name for name in source_names if body.vars[name].persistable}


def is_random(op: Op) -> bool:
    """Return whether this operator draws random bits, or is a derivative of one that does."""
    return OPS.get(op.type.partition(".")[0]).random


def is_in_inference_mode(op: Op) -> bool:
    """Return whether an operator with a training mode is in inference mode."""
    role = OPS.get(op.type).roles.get("Training")
    return role is not None and op.attrs.get(role) is False


def _state_names(op: Op) -> tuple[str, ...]:
    return op.inputs.get(OPS.get(op.type).inputs[0].name, ())
