"""The inference form of a program: no updates, and nothing that only training does.

An operator that behaves differently in training says so with an attribute that is annotated
`Training`; this pass sets it to false, in every block.
"""

from __future__ import annotations

from braces.ir.program import Program
from braces.ir.records import Body, Op
from braces.ir.walk import map_bodies
from braces.ops.define import OPS
from braces.passes.verify import verified


def for_test(program: Program) -> Program:
    """A copy of a program for inference.

    Dropout passes its input through, normalisation uses running statistics, and no persistable
    variable changes. Gradients and losses stay as variables; prune to what is wanted.

    Raises:
        VerifyError: The program is not well formed.
    """
    definition = program.definition
    calm = definition.with_(main=_calm(definition.main), updates={})
    test = Program(verified(calm))
    test.startup = program.startup
    return test


def _calm(body: Body) -> Body:
    return body.with_(ops=tuple(map(_calm_op, body.ops)))


def _calm_op(op: Op) -> Op:
    definition = OPS.find(op.type)
    role = None if definition is None else definition.roles.get("Training")
    if role is not None:
        op = op.with_(attrs={**op.attrs, role: False})
    return map_bodies(op, _calm)
