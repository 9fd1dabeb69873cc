"""The inference form of a program: without updates, and without what only training does.

An operator that behaves differently in training says so with an attribute that is annotated
`Training`; this pass sets it to false, in every block.
"""

from __future__ import annotations

from collections.abc import Mapping

from braces.ir.program import Program
from braces.ir.records import Body, Op, ProgramDef
from braces.ir.walk import map_bodies
from braces.ops.define import OPS
from braces.passes.draws import random_states
from braces.passes.pipeline import Pass
from braces.passes.verify import verified


def for_test(program: Program) -> Program:
    """A copy of a program for inference.

    Dropout passes its input through, normalisation uses running statistics, and no persistable
    variable changes but `random_state`, where something is drawn in inference too: each run
    draws anew. Gradients and losses stay as variables; prune to what is wanted.

    Raises:
        VerifyError: The program is not well formed.
    """
    test = Program(verified(calmed(program.definition)))
    test.startup = program.startup
    return test


def calmed(program: ProgramDef) -> ProgramDef:
    """A program for inference."""
    main = _calm(program.main)
    return program.with_(main=main, updates=_random_updates(main, program.updates))


FOR_TEST = Pass(
    "for_test", calmed, "Leave out what only training does, and updates.", trusted=True
)


def _random_updates(main: Body, updates: Mapping[str, str]) -> dict[str, str]:
    """The updates of the states that draws follow from, beside the update's own operator."""
    steps = {updates[name] for name in random_states(main, drawing=True) if name in updates}
    others = main.with_(ops=tuple(op for op in main.ops if steps.isdisjoint(op.binds())))
    drawn_from = random_states(others, drawing=True)
    return {name: value for name, value in updates.items() if name in drawn_from}


def _calm(body: Body) -> Body:
    return body.with_(ops=tuple(map(_calm_op, body.ops)))


def _calm_op(op: Op) -> Op:
    definition = OPS.find(op.type)
    role = None if definition is None else definition.roles.get("Training")
    if role is not None:
        op = op.with_(attrs={**op.attrs, role: False})
    return map_bodies(op, _calm)
