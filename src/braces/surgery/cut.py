"""Cutting: a program becomes two, at values of its main block.

    data x: f32[n,4]                        first                      rest
    h: f32[n,4] = tanh(x=x)                 data x: f32[n,4]           data h: f32[n,4]
    y: f32[n] = sum(x=h)             ->     h: f32[n,4] = tanh(x=x)    y: f32[n] = sum(x=h)
    return y                                return h                   return y

Plain blocks around a value are inlined. Each update stays in one of the parts: in `rest` if it
depends on the cut, or if `rest` reads the variable; else in `first`. So a run of `first` and
then of `rest` has the results and the next values of a run of the whole program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_call, checked_name, elements_of
from braces.builder.var import Var
from braces.define.axes.axis_map import shape_of
from braces.dtypes import ListType
from braces.errors import ProgramError
from braces.ir.paths import (
    OPERATOR,
    VARIABLE,
    Located,
    everything,
    find_path,
    follow,
    unknown_path,
    variable_at,
)
from braces.ir.places import Place
from braces.ir.plain_blocks.inlining import ambiguous_in, inline_block
from braces.ir.records import BLOCK, DATA, PARAMETER, STATE, VALUE, Body, Op, ProgramDef
from braces.ir.walk import ancestors, names_bound, producers, rename_slots
from braces.passes.cleanup.prune import (
    target_names,
    updated_with_targets,
    with_needed_startup,
    with_results,
    without_dead_code,
)
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite
from braces.surgery.derivations.forward_part import with_edited_derivations
from braces.surgery.handles import Handle, resolve

P = TypeVar("P", bound=Builder)
KINDS = (DATA, PARAMETER, STATE)
_CONSTRUCTS = {"loop": "loop", "partition": "row-wise branch", "switch": "branch"}


@checked_call
def cut(program: P, at: Any, fetch: Any = None, *, kind: str = DATA) -> tuple[P, P]:
    """Split a program in two at some of its values.

    `first` computes these values, which are its results. `rest` declares them as data and
    computes the results from there; operators before the cut that it needs stay in it too. With
    `kind="parameter"` they are parameters: the values that `first` computes from weights alone
    are then computed once, which is constant folding.

        first, rest = br.cut(prog, at=["h"])
        values = exe.run(first, scope, feed)
        exe.run(rest, scope, dict(zip(first.fetches, values)))

    Each update is in one of the parts, so that a run of both in this order has the results and
    the next values of the whole program. Random draws are equal too.

    Args:
        program: The program; not modified.
        at: Values of the main block, or of plain blocks in it: variables, names, paths or
            handles; one or more.
        fetch: The results of `rest`; by default those of the program, with all updates. With
            `fetch`, the updates are those that `br.prune` keeps.
        kind: `"data"`, `"parameter"` or `"state"`.

    Returns:
        The two programs. Data of the program is declared only in the parts that read it.

    Raises:
        ProgramError: If a value is in a loop or branch, is a list, or is not computed; if the
            program has no results; or if the kind is unknown.
        ShapeError: If a parameter would have a symbolic size.
        UnknownNameError: If a value does not exist.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     h = br.tanh(br.data("x", ["n", 4]), name="h")
        ...     prog.give(br.sum(h, axis=1, name="y").name)
        >>> first, rest = br.cut(prog, at=["h"])
        >>> first.feeds, first.fetches, rest.feeds, rest.fetches
        (('x',), ('h',), ('h',), ('y',))
        >>> [op.type for op in rest.definition.main.ops]
        ['sum']
    """
    if kind not in KINDS:
        raise ProgramError(
            f"unknown kind {kind!r:.40}.", fix="Pass 'data', 'parameter' or 'state'."
        )
    whole, names = _with_main_values(program.definition, _paths(program.definition, at))
    for name in names:
        _check_value(whole.main, name, kind)
    fetches, whole = _fetches(whole, fetch)
    parts = _split(whole, names, fetches, everything=fetch is None, kind=kind)
    first, rest = (
        with_needed_startup(program, with_edited_derivations(part)) for part in parts
    )
    return first, rest


def _paths(program: ProgramDef, at: Any) -> list[str]:
    """Return the names or paths of the values to cut at."""
    elements = None if isinstance(at, str | Var | Handle) else elements_of(at)
    items = [at] if elements is None else elements
    if not items:
        raise ProgramError("expected at least one value to cut at.", fix="Pass at=['h'].")
    return list(dict.fromkeys(_path(program, item) for item in items))


def _path(program: ProgramDef, item: Any) -> str:
    """Return the name or path of a value in the current version of the program."""
    if isinstance(item, Handle):
        return resolve(program, item).path
    return checked_name(item, "`at`", "Pass at=['h'].")


def _fetches(whole: ProgramDef, fetch: Any) -> tuple[tuple[str, ...], ProgramDef]:
    if fetch is not None:
        names, exported = target_names(whole, fetch)
        return tuple(names), exported
    if not whole.main.results and not whole.updates:
        raise ProgramError("the program has no results and no updates.", fix="Pass fetch=[y].")
    return whole.main.results, whole


def _check_value(main: Body, name: str, kind: str) -> None:
    """Check that a program can be cut at a variable of its main block."""
    info = main.vars[name]
    if info.kind != VALUE:
        raise ProgramError(
            f"cannot cut at `{name}`: expected a computed value, got {info.kind}.",
            given=f"{name}: {info.shown_type}",
        )
    if isinstance(info.type, ListType):
        raise ProgramError(
            f"cannot cut at `{name}`: expected an array, got a list.",
            given=f"{name}: {info.shown_type}",
        )
    symbolic = [size for size in shape_of(info.type) if not isinstance(size, int)]
    if kind != DATA and symbolic:
        raise ProgramError(
            f"a {kind} requires fixed sizes; `{name}` has the size `{symbolic[0]}`.",
            given=f"{name}: {info.shown_type}",
            fix="Cut at values that depend on parameters alone, or pass kind='data'.",
        )


# ---- the two parts ---------------------------------------------------------------------------


def _split(
    whole: ProgramDef,
    names: Sequence[str],
    fetches: tuple[str, ...],
    everything: bool,
    kind: str,
) -> tuple[ProgramDef, ProgramDef]:
    """Return both parts, without dead code."""
    fetched = with_results(_declared(whole, names, kind), fetches)
    kept = set(whole.updates) if everything else updated_with_targets(whole, fetches)
    if not everything:
        kept |= updated_with_targets(whole, names)
    after = _updated_after(fetched, names, kept)
    in_rest = {name: value for name, value in fetched.updates.items() if name in after}
    in_first = {name: value for name, value in whole.updates.items() if name in kept - after}
    first = with_results(whole, names).with_(updates=in_first)
    rest = without_dead_code(fetched.with_(updates=in_rest))
    return without_dead_code(first), _with_unread(
        rest, fetched, names
    ) if kind == DATA else rest


def _with_unread(rest: ProgramDef, fetched: ProgramDef, names: Sequence[str]) -> ProgramDef:
    """Return the rest with the values of the cut as data that it does not read."""
    unread = {name: fetched.main.vars[name] for name in names if name not in rest.main.vars}
    return rest.with_(main=rest.main.with_(vars={**rest.main.vars, **unread}))


def _declared(whole: ProgramDef, names: Sequence[str], kind: str) -> ProgramDef:
    """Return a program in which values are declared, and computed under other names."""
    main, taken = whole.main, set(names_bound(whole.main))
    old_names = {name: _unique(f"{name}.before_cut", taken) for name in names}
    makers = {id(producers(main.ops)[name]) for name in names}
    ops = tuple(
        op.with_(
            name=_unique(f"{op.name}.before_cut", taken),
            outputs=rename_slots(op.outputs, old_names),
        )
        if id(op) in makers
        else op
        for op in main.ops
    )
    infos = dict(main.vars)
    for name, old_name in old_names.items():
        infos[old_name] = main.vars[name].with_(name=old_name)
        trainable = kind == PARAMETER and main.vars[name].dtype.kind == "f"
        infos[name] = main.vars[name].with_(kind=kind, trainable=trainable)
    return whole.with_(main=main.with_(ops=ops, vars=infos))


def _unique(name: str, taken: set[str]) -> str:
    number, unique = 0, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    taken.add(unique)
    return unique


def _updated_after(rest: ProgramDef, names: Sequence[str], kept: set[str]) -> set[str]:
    """Return the variables that `rest` updates: those that it reads, or that need the cut."""
    values = {name: rest.updates[name] for name in kept}
    after = {
        name
        for name, value in values.items()
        if not ancestors(rest.main.ops, [value]).isdisjoint(names)
    }
    while True:
        wanted = [*rest.main.results, *(values[name] for name in after)]
        read = kept & ancestors(rest.main.ops, wanted)
        if read <= after:
            return after
        after |= read


# ---- places ----------------------------------------------------------------------------------


def _with_main_values(whole: ProgramDef, paths: Sequence[str]) -> tuple[ProgramDef, list[str]]:
    """Return a program in which values are in the main block, and their names there.

    Raises:
        ProgramError: If a value is in a loop or a branch.
        UnknownNameError: If a value does not exist.
    """
    places = [_find(whole, path) for path in paths]
    owners = {owner.name for place in places for owner in _plain_blocks_around(place)}
    inlined = _inline(whole, owners) if owners else whole
    while True:
        names = [_name_in_main(inlined, place) for place in places]
        blocks = _blocks_that_bind(inlined.main, names)
        if not blocks:
            return inlined, list(dict.fromkeys(names))
        inlined = _inline(inlined, blocks)


def _blocks_that_bind(main: Body, names: Iterable[str]) -> set[str]:
    """Return the names of the plain blocks whose outputs are among some variables."""
    wanted = set(names)
    return {
        op.name for op in main.ops if op.type == BLOCK and not wanted.isdisjoint(op.binds())
    }


def _plain_blocks_around(value: Located) -> list[Op]:
    """Return the operators around a value.

    Raises:
        ProgramError: If an operator around it is a loop or a branch.
    """
    owners = [owner for _, owner, _ in value.place.around()]
    for owner in reversed(owners):
        if owner.type != BLOCK:
            what = _CONSTRUCTS.get(owner.type, owner.type)
            raise ProgramError(
                f"cannot cut a program inside the {what} `{owner.name}`: `{value.path}` is "
                "not a value of the main block.",
                at=owner.describe(),
                fix=f"Cut before `{owner.name}`, or at one of its outputs: "
                f"{', '.join(f'`{name}`' for name in owner.binds()) or 'it has none'}.",
            )
    return owners


def _name_in_main(inlined: ProgramDef, value: Located) -> str:
    """Return the name of a value in the main block, after inlining."""
    located = follow(inlined, value)
    assert located is not None
    return located.name


def _inline(whole: ProgramDef, blocks: set[str]) -> ProgramDef:
    """Return a program in which some plain blocks are inlined."""

    def wanted(op: Op) -> bool:
        return op.type == BLOCK and op.name in blocks

    def rule(op: Op, place: InsertionPoint) -> Replacement:
        if not wanted(op):
            return op
        return inline_block(op, ambiguous_in(place.body, wanted), place.table.names.unique)

    return rewrite(whole, rule)


def _find(whole: ProgramDef, path: str) -> Located:
    """Return the value of a path or name; in plain blocks, a name suffices."""
    located = find_path(whole, path, VARIABLE) or find_path(whole, path, OPERATOR)
    if located is not None:
        return _value(located)
    main = Place.main(whole)
    same = [place for place in everything(main, VARIABLE) if place.name == path]
    plain = [v for v in same if all(op.type == BLOCK for _, op, _ in v.place.around())]
    if plain:
        return plain[0]
    if same:
        _plain_blocks_around(same[0])
    raise unknown_path(main, path, VARIABLE)


def _value(located: Located) -> Located:
    """Return a variable, or the first output of an operator."""
    content = located.content
    name = next(content.binds(), None) if isinstance(content, Op) else None
    return located if name is None else variable_at(located.place, name)
