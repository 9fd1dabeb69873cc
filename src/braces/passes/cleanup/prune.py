"""The smallest program that still gives its targets.

Which updates go with targets is chosen first, then `eliminate` keeps what targets and updates
need.

    state n: f32[]                          parameter w: f32[]
    parameter w: f32[]                      data x: f32[]
    data x: f32[]                           y: f32[] = multiply(x=x, y=w)
    y: f32[] = multiply(x=x, y=w)     ->    return y
    m: f32[] = add(x=n, y=y)
    update n = m
    return y

Had `y` read `n`, the update of `n` would have been kept, and all that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

from braces.builder.builder import Builder
from braces.define.axes.axis_map import shape_of
from braces.dims import Dim
from braces.errors import UnknownNameError, suggest
from braces.ir.plain_blocks.escaping_values import bound_inside, with_shown
from braces.ir.records import DATA, Body, ProgramDef, VarInfo
from braces.ir.walk import all_bodies, dimensions
from braces.passes.cleanup.dead_code import eliminate as eliminate, eliminated
from braces.passes.core.pipeline import Pass
from braces.passes.core.random_effects import random_states
from braces.passes.verify.program import verified

P = TypeVar("P", bound=Builder)


def prune(program: P, targets: Any) -> P:
    """The smallest program that still gives the targets.

    Operators, variables, memories and sub-block operators that no target needs are gone, in
    nested blocks at any depth, and so are the updates and the startup operators of variables
    that are not read any more. Data stays that is not read, and that alone tells a size with
    which something is computed: a draw for each row, say. Three kinds of updates are kept:

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
        >>> _ = exe.init(prog, scope)
        >>> for turn in turns * 2:
        ...     _ = exe.run(turn, scope)
        ...     print(*(round(float(scope.var(name).value), 4) for name in "ab"))
        0.5 1.0
        0.5 1.25
        -0.575 1.25
        -0.575 1.1875
    """
    names, whole = target_names(program.definition, targets)
    small = program.like(verified(_giving(pruned(_giving(whole, names)), ())))
    startup = program.startup.definition
    first = {n: v for n, v in startup.updates.items() if n in small.infos}
    needed = eliminated(_giving(startup, ()).with_(updates=first))
    small.startup = program.like(verified(needed))
    return small


def pruned(program: ProgramDef) -> ProgramDef:
    """What the results of a program need, with the updates that go with them."""
    kept = moved_with_targets(program, program.main.results)
    updates = {name: value for name, value in program.updates.items() if name in kept}
    return _with_sizes(program, eliminated(program.with_(updates=updates)))


def _with_sizes(whole: ProgramDef, small: ProgramDef) -> ProgramDef:
    """A program with the data that it reads no value of, and whose sizes it computes with."""
    infos = dict(small.main.vars)
    missing = _used(small.main) - _told(infos.values())
    for name, info in whole.main.vars.items():
        told = _told([info]) & missing
        if told and name not in infos:
            infos[name] = info
            missing -= told
    return small.with_(main=small.main.with_(vars=infos)) if infos != small.main.vars else small


def _used(main: Body) -> set[str]:
    """The dimensions that operators compute with, inside too."""
    ops = (op for body, _ in all_bodies(main) for op in body.ops)
    return set[str]().union(*(dimensions(tuple(op.attrs.values())) for op in ops))


def _told(infos: Iterable[VarInfo]) -> set[str]:
    """The dimensions of which data tells the sizes."""
    shapes = (shape_of(info.type) for info in infos if info.kind == DATA)
    sizes = (size for shape in shapes for size in shape)
    return {size.name for size in sizes if isinstance(size, Dim) and size.name}


PRUNE = Pass(
    "prune",
    pruned,
    "Keep what the results need, with the updates that go with it.",
    trusted=True,
)


def _giving(program: ProgramDef, names: Sequence[str]) -> ProgramDef:
    """A program that gives other results."""
    return program.with_(main=program.main.with_(results=tuple(names)))


def moved_with_targets(whole: ProgramDef, targets: Iterable[str]) -> set[str]:
    """What moves of targets, of the states that they go on from, and the random state."""
    found, kept = whole.updates.keys() & set(targets), set[str]()
    while True:
        values = [whole.updates[name] for name in found]
        found |= _moved_with(whole, eliminate(whole.main, values))
        drawing = eliminate(whole.main, [*targets, *values])
        found |= whole.updates.keys() & random_states(drawing, drawing=True)
        if found == kept:
            return kept
        kept = set(found)


def _moved_with(whole: ProgramDef, body: Body) -> set[str]:
    """The states that a block reads, or whose next values it computes."""
    read = {name for op in body.ops for name in op.reads()} | set(body.results)
    bound = {name for op in body.ops for name in op.binds()} | set(bound_inside(body))
    return {
        name
        for name, value in whole.updates.items()
        if not whole.main.vars[name].trainable and (name in read or value in bound)
    }


def target_names(whole: ProgramDef, targets: Any) -> tuple[list[str], ProgramDef]:
    """The names of variables of the main block, given so or by name, alone or several.

    Returns:
        The names, and the program, in which closed blocks give out what is named of them.

    Raises:
        UnknownNameError: One does not exist.
    """
    listed = isinstance(targets, list | tuple | set)
    several: list[Any] = list(cast("list[Any]", targets)) if listed else [targets]
    names: list[str] = [one if isinstance(one, str) else one.name for one in several]
    whole = whole.with_(main=with_shown(whole.main, names))
    for name in names:
        if name not in whole.main.vars:
            raise UnknownNameError(
                f"There is no variable `{name}` in the main block.",
                fix=suggest(name, whole.main.vars),
            )
    return names, whole
