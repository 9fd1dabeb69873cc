"""Phases of a training step: forward, gradient, optimizer, and other updates.

    loss: f32[] = mean(x=h)                        forward
    loss_grad: f32[] = …                           gradient
    w_1: f32[4] = …    update w = w_1              optimizer
    s_1: u32[2] = …    update random_state = s_1   update

The recorded calls of `gradients` and `minimize` give the derivatives and the updates. An
operator is forward if a result, a differentiated value or an unread value depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from braces.ir.records import Op, ProgramDef
from braces.ir.walk import ancestors, descendants

FORWARD, GRADIENT, OPTIMIZER, UPDATE = "forward", "gradient", "optimizer", "update"
PHASES = (FORWARD, GRADIENT, OPTIMIZER, UPDATE)


def phases(program: ProgramDef) -> Mapping[str, str]:
    """Return the phase of each operator of the main block by name.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [3])
        ...     _ = br.optimizer.sgd(0.1).minimize(br.sum(w * w))
        >>> [phases(prog.definition)[op.name] for op in prog.block(0).ops][:2]
        ['forward', 'forward']
    """
    ops, records = program.main.ops, program.derivations
    gradients = {name for record in records for name in record.results if name}
    optimized = {name for record in records for name in record.updates.values()}
    members = {
        FORWARD: ancestors(ops, _roots(program, gradients | optimized)),
        GRADIENT: ancestors(ops, gradients),
        OPTIMIZER: ancestors(ops, optimized),
    }
    derived = descendants(ops, gradients)
    return {op.name: _phase_of(op, members, derived) for op in ops}


def _phase_of(op: Op, members: Mapping[str, set[str]], derived: set[str]) -> str:
    names = set(op.binds())
    for phase, phase_names in members.items():
        if not names.isdisjoint(phase_names):
            return phase
    return UPDATE if names.isdisjoint(derived) else GRADIENT


def _roots(program: ProgramDef, derived: set[str]) -> set[str]:
    """Return the values that the forward part computes."""
    main = program.main
    read = {name for op in main.ops for name in op.reads()}
    later = descendants(main.ops, derived) | {*program.updates.values()}
    steps = (record for record in program.derivations if record.updates)
    added = {name for record in steps for name in record.unread}
    unread = {name for op in main.ops for name in op.binds()} - read - later - added
    targets = {name for record in program.derivations for name in record.targets}
    results = {*main.results}
    return (results - derived or results) | targets | unread
