"""Pruning: the smallest program that still computes its targets.

First the updates that belong to the targets are chosen. Then dead code elimination
(`eliminate`) keeps the operators that targets and updates depend on.

    state n: f32[]                          parameter w: f32[]
    parameter w: f32[]                      data x: f32[]
    data x: f32[]                           y: f32[] = multiply(x=x, y=w)
    y: f32[] = multiply(x=x, y=w)     ->    return y
    m: f32[] = add(x=n, y=y)
    update n = m
    return y

If `y` read `n`, the update of `n` would be kept, with all its operators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar, cast

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_name
from braces.builder.source_line import with_user_line
from braces.define.axes.axis_map import shape_of
from braces.dims import Dim
from braces.errors import UnknownNameError, suggest
from braces.ir.paths import fix_by_probe
from braces.ir.plain_blocks.escaping_values import bound_inside, with_exported
from braces.ir.records import DATA, Body, ProgramDef, VarInfo
from braces.ir.walk import all_bodies, dimensions, names_bound_by
from braces.passes.cleanup.dead_code import eliminate as eliminate, eliminate_dead_code
from braces.passes.core.pipeline import Pass
from braces.passes.core.random_effects import random_states
from braces.passes.verifier.program import verified

P = TypeVar("P", bound=Builder)


@with_user_line
def prune(program: P, targets: Any) -> P:
    """Return the smallest program that still computes the targets.

    Operators, variables, memories and sub-block operators that no target depends on are
    removed, in nested blocks at any depth. So are the updates and the startup operators of
    variables that are not read any more. Unread data stays if only it defines a size that an
    operator uses, for example that of a random draw per batch element. Three kinds of updates
    are kept:

    - the update of a persistable target, as `"w"` in `prune(prog, [loss, "w"])`;
    - the updates of its states: persistable, not trainable, and either read for the next value
      of the target, or with a next value that is computed for it anyway. So a parameter keeps
      its optimizer's moments, counts and learning rate, and the running statistics of the
      layers before it, but no other parameter: those are frozen;
    - the update of `random_state` if there are random draws, so that each run draws new
      numbers.

    The targets are the results of the program, its default fetches, except persistable ones.

    A training step for some parameters thus has each of them as a target. Two such steps, for
    example for a generator and its critic, are pruned from one program and run in one scope, by
    turns:

        critic_step = br.prune(prog, [critic_loss, *critic_parameters])
        generator_step = br.prune(prog, [generator_loss, *generator_parameters])

    Args:
        program: The program; not modified.
        targets: Variables of the main block, or their names.

    Raises:
        UnknownNameError: If a target does not exist.
        VerifyError: If the program is not well formed.

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
        >>> _ = exe.init(prog, scope)
        >>> for turn in turns * 2:
        ...     _ = exe.run(turn, scope)
        ...     print(*(round(float(scope.var(name).value), 4) for name in "ab"))
        0.5 1.0
        0.5 1.25
        -0.575 1.25
        -0.575 1.1875
    """
    names, full = target_names(program.definition, targets)
    small = prune_program(with_results(full, names))
    results = (name for name in names if not full.main.vars[name].persistable)
    return with_needed_startup(program, with_results(small, tuple(dict.fromkeys(results))))


def with_needed_startup(program: P, definition: ProgramDef) -> P:
    """Return a verified part of a program, with the part of the startup program it needs."""
    new_program = program.like(verified(definition))
    needed = needed_startup(program.startup.definition, new_program.infos)
    new_program.startup = program.like(verified(needed))
    return new_program


def needed_startup(startup: ProgramDef, names: Collection[str]) -> ProgramDef:
    """Return the part of a startup program that sets some persistable variables."""
    updates = {name: value for name, value in startup.updates.items() if name in names}
    return eliminate_dead_code(with_results(startup, ()).with_(updates=updates))


def prune_program(program: ProgramDef) -> ProgramDef:
    """Return a program with the operators and updates that belong to its results."""
    updated_names = updated_with_targets(program, program.main.results)
    updates = {name: value for name, value in program.updates.items() if name in updated_names}
    return without_dead_code(program.with_(updates=updates))


def without_dead_code(program: ProgramDef) -> ProgramDef:
    """Return a program without unneeded operators, and with the data that defines its sizes."""
    return _with_sizes(program, eliminate_dead_code(program))


def _with_sizes(whole: ProgramDef, small: ProgramDef) -> ProgramDef:
    """Return a program with unread data that defines sizes used in it."""
    infos = dict(small.main.vars)
    missing = _used_sizes(small.main) - _defined_sizes(infos.values())
    for name, info in whole.main.vars.items():
        defined_sizes = _defined_sizes([info]) & missing
        if defined_sizes and name not in infos:
            infos[name] = info
            missing -= defined_sizes
    return small.with_(main=small.main.with_(vars=infos)) if infos != small.main.vars else small


def _used_sizes(main: Body) -> set[str]:
    """Return the dimensions that operators use, in sub-blocks too."""
    ops = (op for body, _ in all_bodies(main) for op in body.ops)
    return set[str]().union(*(dimensions(tuple(op.attrs.values())) for op in ops))


def _defined_sizes(infos: Iterable[VarInfo]) -> set[str]:
    """Return the dimensions whose sizes data defines."""
    shapes = (shape_of(info.type) for info in infos if info.kind == DATA)
    sizes = (size for shape in shapes for size in shape)
    return {size.name for size in sizes if isinstance(size, Dim) and size.name}


PRUNE = Pass(
    "prune",
    prune_program,
    "Keep the operators and updates that belong to the results.",
    trusted=True,
)


def with_results(program: ProgramDef, names: Sequence[str]) -> ProgramDef:
    """Return a program with other results."""
    return program.with_(main=program.main.with_(results=tuple(names)))


def updated_with_targets(whole: ProgramDef, targets: Iterable[str]) -> set[str]:
    """Return the updated variables of targets: targets, their states, and the random state."""
    names, old_names = whole.updates.keys() & set(targets), set[str]()
    while True:
        values = [whole.updates[name] for name in names]
        names |= _states_of(whole, eliminate(whole.main, values))
        drawing = eliminate(whole.main, [*targets, *values])
        names |= whole.updates.keys() & random_states(drawing, drawing=True)
        if names == old_names:
            return old_names
        old_names = set(names)


def _states_of(whole: ProgramDef, body: Body) -> set[str]:
    """Return the states that a block reads, or whose next values it computes."""
    read_names = {name for op in body.ops for name in op.reads()} | set(body.results)
    bound_names = names_bound_by(body.ops) | set(bound_inside(body))
    return {
        name
        for name, value in whole.updates.items()
        if not whole.main.vars[name].trainable and (name in read_names or value in bound_names)
    }


def target_names(whole: ProgramDef, targets: Any) -> tuple[list[str], ProgramDef]:
    """Return the names of variables of the main block from variables or names, one or more.

    Returns:
        The names, and the program, in which closed blocks export the values that are named.

    Raises:
        UnknownNameError: If a variable does not exist.
    """
    listed = isinstance(targets, list | tuple | set)
    items: list[Any] = list(cast("list[Any]", targets)) if listed else [targets]
    names = [checked_name(target, "a result") for target in items]
    whole = whole.with_(main=with_exported(whole.main, names))
    for name in names:
        if name not in whole.main.vars:
            raise UnknownNameError(
                f"unknown variable `{name}` in the main block.",
                fix=fix_by_probe(whole, name) or suggest(name, whole.main.vars),
            )
    return names, whole
