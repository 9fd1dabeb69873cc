"""The smallest program that still gives its targets.

`eliminate` keeps what the results of one block need. Operators that own blocks trim themselves:
outputs, memories, captures and sub-block operators that nobody needs go, at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, cast

from braces.errors import UnknownNameError, suggest
from braces.ir.program import Program
from braces.ir.records import Body, Op, ProgramDef, Slots
from braces.ops.control.base import BlockOp
from braces.ops.define import OPS, OpDef
from braces.passes.draws import random_states
from braces.passes.verify import verified


def eliminate(body: Body, results: Sequence[str]) -> Body:
    """A block with only what these results need; they become its results."""
    live = set(results)
    kept: list[Op] = []
    for op in reversed(body.ops):
        trimmed = _trimmed(op, live)
        if trimmed is not None:
            kept.append(trimmed)
            live.update(trimmed.reads())
    ops = tuple(reversed(kept))
    bound = {name for op in ops for name in op.binds()} | set(body.params)
    named = bound | live
    infos = {name: info for name, info in body.vars.items() if name in named}
    return body.with_(results=tuple(results), vars=infos, ops=ops)


def _trimmed(op: Op, live: set[str]) -> Op | None:
    wanted = frozenset(name for name in op.binds() if name in live)
    if not wanted:
        return None
    definition = OPS.get(op.type)
    if isinstance(definition, BlockOp):
        return definition.trim(op, wanted, eliminate)
    if definition.separable:
        op = _places(op, definition, wanted)
    optional = {slot.name for slot in definition.outputs if slot.optional}
    outputs = {
        slot: names
        for slot, names in op.outputs.items()
        if slot not in optional or any(name in wanted for name in names)
    }
    return op if len(outputs) == len(op.outputs) else op.with_(outputs=outputs)


def _places(op: Op, definition: OpDef, wanted: frozenset[str]) -> Op:
    """An operator that does the same at each place of its lists, where it is wanted only."""
    lists = {slot.name for slot in (*definition.inputs, *definition.outputs) if slot.many}
    rows = zip(*(names for slot, names in op.outputs.items() if slot in lists), strict=True)
    wanted_at = [not wanted.isdisjoint(row) for row in rows]
    if all(wanted_at) or not any(wanted_at):
        return op

    def cut(slots: Slots) -> Slots:
        return {
            slot: tuple(compress(names, wanted_at)) if slot in lists else names
            for slot, names in slots.items()
        }

    return op.with_(inputs=cut(op.inputs), outputs=cut(op.outputs))


# ---- the public function ---------------------------------------------------------------------


def prune(program: Program, targets: Any) -> Program:
    """The smallest program that still gives the targets.

    Operators, variables, memories and sub-block operators that no target needs are gone, in
    nested blocks at any depth, and so are the updates and the startup operators of variables
    that are not read any more. Three kinds of updates are kept:

    - that of a target which is persistable, as `"w"` in `prune(prog, [loss, "w"])`;
    - those of the states that this one goes on from: of whatever is persistable, not trainable,
      and either read for its next value or given a next value that is computed for it anyway.
      So a parameter takes its optimizer's moments, counts and learning rate along, and the
      running statistics of the layers before it, but no other parameter: those are frozen;
    - that of `random_state` where something is drawn, so that each run draws anew.

    A step that moves some of the parameters is thus a target for each of them. Two such steps,
    for a generator and its critic say, are cut from one program and run in one scope, by turns:

        critic_step = br.prune(prog, [critic_loss, *critic_parameters])
        generator_step = br.prune(prog, [generator_loss, *generator_parameters])

    Args:
        program: Left as it is.
        targets: Variables of the main block, or their names.

    Raises:
        UnknownNameError: A target does not exist.
        VerifyError: The program is not well formed.

    Example:
        Two players move by turns: `a` wants `a * b` small, `b` wants it large.

        >>> import braces as br
        >>> with br.Program() as prog:
        ...     a, b = br.parameter("a", [], init=1.0), br.parameter("b", [], init=1.0)
        ...     game = a * b
        ...     moved = br.optimizer.momentum(0.5, name="low").minimize(game, parameters=[a])
        ...     moved = br.optimizer.momentum(0.5, name="high").minimize(-game, parameters=[b])
        >>> turns = [br.prune(prog, [game, a]), br.prune(prog, [game, b])]
        >>> [list(turn.updates) for turn in turns]
        [['low/trace/a', 'a'], ['high/trace/b', 'b']]
        >>> scope, exe = br.Scope(), br.Executor()
        >>> exe.init(prog, scope)
        >>> for turn in turns * 2:
        ...     _ = exe.run(turn, scope)
        ...     print(*(round(float(scope.var(name).value), 4) for name in "ab"))
        0.5 1.0
        0.5 1.25
        -0.575 1.25
        -0.575 1.1875
    """
    names = _target_names(program, targets)
    definition = program.definition
    updates = _kept_updates(definition, names)
    small = _cut(definition, [*names, *updates, *updates.values()], updates)
    startup = program.startup.definition
    first = {n: v for n, v in startup.updates.items() if n in small.vars}
    small.startup = _cut(startup, [*first.values(), *first], first)
    return small


def _kept_updates(whole: ProgramDef, targets: Sequence[str]) -> dict[str, str]:
    """The updates of targets, of the states that they go on from, and of the random state."""
    found, kept = whole.updates.keys() & set(targets), set[str]()
    while True:
        values = [whole.updates[name] for name in found]
        found |= _moved_with(whole, eliminate(whole.main, values))
        drawing = eliminate(whole.main, [*targets, *values])
        found |= whole.updates.keys() & random_states(drawing, drawing=True)
        if found == kept:
            return {name: value for name, value in whole.updates.items() if name in kept}
        kept = set(found)


def _moved_with(whole: ProgramDef, body: Body) -> set[str]:
    """The states that a block reads, or whose next values it computes."""
    read = {name for op in body.ops for name in op.reads()} | set(body.results)
    bound = {name for op in body.ops for name in op.binds()}
    return {
        name
        for name, value in whole.updates.items()
        if not whole.main.vars[name].trainable and (name in read or value in bound)
    }


def _cut(whole: ProgramDef, names: Sequence[str], updates: Mapping[str, str]) -> Program:
    main = eliminate(whole.main, names).with_(results=())
    return Program(verified(whole.with_(main=main, updates=updates)))


def _target_names(program: Program, targets: Any) -> list[str]:
    listed = isinstance(targets, list | tuple | set)
    several: list[Any] = list(cast("list[Any]", targets)) if listed else [targets]
    names: list[str] = [one if isinstance(one, str) else one.name for one in several]
    for name in names:
        if name not in program.definition.main.vars:
            raise UnknownNameError(
                f"There is no variable `{name}` in the main block.",
                fix=suggest(name, program.definition.main.vars),
            )
    return names
