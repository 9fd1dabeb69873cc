"""What random draws follow from: the states that operators which draw read, at any depth."""

from __future__ import annotations

from braces.define.decorator import OPS
from braces.ir.records import Body, Op
from braces.ir.walk import all_ops, ancestors


def random_states(body: Body, *, drawing: bool = False) -> set[str]:
    """The persistable variables of a main block that its draws follow from.

    Args:
        body: The main block.
        drawing: Leave out operators that draw in training only, and are not in training.
    """
    read = {
        name
        for _, op in all_ops(body)
        if is_random(op) and not (drawing and is_calm(op))
        for name in _state(op)
    }
    found = ancestors(body.ops, read) & body.vars.keys()
    return {name for name in found if body.vars[name].persistable}


def is_random(op: Op) -> bool:
    """Whether this operator draws, or is a derivative of one that does."""
    return OPS.get(op.type.partition(".")[0]).random


def is_calm(op: Op) -> bool:
    """Whether this operator is out of training, where it does something else in it."""
    role = OPS.get(op.type).roles.get("Training")
    return role is not None and op.attrs.get(role) is False


def _state(op: Op) -> tuple[str, ...]:
    return op.inputs.get(OPS.get(op.type).inputs[0].name, ())
