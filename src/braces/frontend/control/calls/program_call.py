"""Programs that call others: `br.call(encoder, src, name="encoder")`.

    encoder: program {                   program {
      data x: f32[n,4]                     data src: f32[s,4]
      parameter w: f32[4,8]                parameter encoder/w: f32[4,8]
      y: f32[n,8] = matmul(x=x, y=w)  ->   encoder/y: f32[s,8] = block() as encoder
      return y                               body {
    }                                          encoder/y: f32[s,8] = matmul(x=src, ...)
                                               return encoder/y
                                             }
                                         }

What a program does becomes a plain block of the one that calls it. Its parameters and states
come along under the name of the call, and with them how they begin. Nothing is left of the
other program: what was built can be differentiated, pruned, saved and sent as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.builder.append import as_var
from braces.builder.builder import Builder, current_program
from braces.builder.source_line import user_source
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, check_visible, var_of
from braces.dims import Dim, Size, substitute
from braces.dtypes import unifies
from braces.errors import (
    BracesError,
    DTypeError,
    DuplicateNameError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.frontend.control.block import check_block_name
from braces.frontend.control.block_call import Recall
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.init import SEED, seed_state
from braces.frontend.core.random_state import RANDOM_STATE, random_state
from braces.ir.records import DATA, STATE, VALUE, Body, ProgramDef, VarInfo
from braces.ir.walk import rename_body
from braces.ops.control.construct.build import append_plain_block, free_block_name
from braces.passes.cleanup.dead_code import eliminated
from braces.passes.cleanup.prune import pruned, target_names
from braces.passes.core.random_effects import random_states


@building
def call(program: Builder, /, *given: Any, name: str, fetch: Any = None, **named: Any) -> Any:
    """What another program computes, as a plain block of the one that is being built.

    A program that was read from a file, imported or written elsewhere is part of this one then:
    gradients go through it, prune and save take of it what is needed, and it may stand in
    loops and branches. The other program stays as it is.

    Its parameters and states are called `NAME/…` here. Where this program has some of that
    name, shape and dtype already, as after an earlier call of the same name, they are shared;
    those of calls with two names are two. How they begin comes along, so `Executor.init` sets
    them as it did; values from elsewhere are set by `scope.update(values, prefix="NAME/")`.

    A call does what a run of the program does: what that updates, running statistics say, is
    updated here, too. With `fetch=` it does what `br.prune` leaves, which gives those variables
    and updates nothing else. What the program draws, it draws anew in each call.

    Args:
        program: The program that is called; another one than the one that is being built.
        *given: A value for each of its feeds, in the order of `program.feeds`.
        name: The name of the block, and what its names begin with here.
        fetch: Variables of the program or their names; all that it gives (`program.fetches`)
            where nothing is said.
        **named: Values by the names of feeds.

    Returns:
        One variable, or a tuple of several.

    Raises:
        ProgramError: The program gives nothing, is this one, or a feed that is needed has no
            value; or it moves a state, and is called in a loop or for the second time.
        UnknownNameError: It has no such feed or variable.
        DTypeError: A value has another dtype than the feed.
        ShapeError: A value has another shape than the feed may have.
        DuplicateNameError: A parameter of this program has the name of another one.

    Example:
        >>> import braces as br
        >>> with br.Program() as encoder:
        ...     y = br.fc(br.data("x", ["n", 4]), 8, name="q")
        >>> with br.Program() as prog:
        ...     src = br.data("src", ["s", 4])
        ...     memory = br.call(encoder, src, name="encoder", fetch=y)
        ...     loss = br.mean(memory)
        >>> memory.type, [p.name for p in prog.parameters]
        (f32[s,8], ['encoder/q.w', 'encoder/q.b'])
    """
    host = current_program()
    check_block_name(name)
    try:
        made = _Call(host, _checked(host, program), name).made(given, named, fetch)
    except BracesError as problem:
        inside = f", in {problem.at}" if problem.at else ""
        problem.at = f"call of the program `{name}`, at {user_source()}{inside}"
        raise
    return made[0] if len(made) == 1 else made


def _checked(host: Builder, program: Any) -> Builder:
    if not isinstance(program, Builder):
        raise ProgramError(
            f"br.call takes a program, not {program!r:.80}.",
            fix="br.Program.load, br.from_onnx and `with br.Program() as other:` give one.",
        )
    if program is host:
        raise ProgramError(
            "A program cannot call itself.", fix="Write a loop, or call a block: enc(x)."
        )
    return program


class _Call:
    """One program called by another.

    Attributes:
        host: The program that calls, and is being built.
        program: The one that is called.
        prefix: What the names of its parameters and states begin with in the host.
    """

    def __init__(self, host: Builder, program: Builder, name: str) -> None:
        self.host = host
        self.program = program
        self.name = name
        self.prefix = f"{host.current.prefixed(name)}/"

    def made(
        self, given: Sequence[Any], named: Mapping[str, Any], fetch: Any
    ) -> tuple[Var, ...]:
        """Append the block, and what it needs of the program around it."""
        whole = self._wanted(fetch)
        main = whole.main
        values = self._fed(main, given, named)
        drawn = random_states(main) & {RANDOM_STATE}
        self._keep([i for n, i in main.vars.items() if i.persistable and n not in drawn])
        for info in main.vars.values():
            if info.persistable:
                values[info.name] = self._kept(info, drawn)
        moves = {n: v for n, v in whole.updates.items() if n not in drawn}
        wanted = dict.fromkeys((*main.results, *moves.values()))
        found = placed(self.host, main, self.name, values, tuple(wanted))
        self._move({self.prefix + n: found[v] for n, v in moves.items()})
        return tuple(found[name] for name in main.results)

    def _wanted(self, fetch: Any) -> ProgramDef:
        """All that a run of the program would do, or what prune leaves of it."""
        whole = self.program.definition
        if fetch is not None:
            names, whole = target_names(whole, fetch)
            return pruned(whole.with_(main=whole.main.with_(results=tuple(names))))
        if not whole.main.results:
            raise ProgramError(
                "The program gives nothing.",
                fix="Say which variables: fetch=[logits]; or let it give them: prog.give.",
            )
        return eliminated(whole)

    # ---- feeds -------------------------------------------------------------------------------

    def _fed(
        self, needed: Body, given: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, Var]:
        """The values of the feeds that are needed."""
        all_feeds = [n for n, i in self.program.infos.items() if i.kind == DATA]
        for name in named:
            if name not in all_feeds:
                raise UnknownNameError(
                    f"The program has no feed `{name}`.",
                    given=f"feeds: {', '.join(all_feeds) or 'none'}",
                    fix=suggest(name, all_feeds),
                )
        rest = [name for name in all_feeds if name not in named]
        if len(given) > len(rest):
            raise ProgramError(
                f"The program takes {len(rest)} values here, not {len(given)}.",
                given=f"feeds: {', '.join(rest) or 'none'}",
            )
        values = {**dict(zip(rest, given, strict=False)), **named}
        feeds = [info for info in needed.vars.values() if info.kind == DATA]
        missing = [info.name for info in feeds if info.name not in values]
        if missing:
            raise ProgramError(
                f"The program needs a value for `{missing[0]}`.",
                given=f"feeds: {', '.join(f'{i.name}: {i.type}' for i in feeds)}",
                fix="Give one for each, in this order or by name.",
            )
        return self._fitting(feeds, values)

    def _fitting(self, feeds: Sequence[VarInfo], values: Mapping[str, Any]) -> dict[str, Var]:
        """Values as variables of the types that the feeds have, their sizes put in."""
        found = {info.name: as_var(values[info.name], info.dtype) for info in feeds}
        for info in feeds:
            check_visible(self.host, found[info.name])
            _check_dtype(info, found[info.name])
        sizes = _sizes(feeds, found)
        for info in feeds:
            wanted = info.type.map_sizes(lambda size: substitute(size, sizes))
            var = found[info.name]
            if not unifies(wanted, var.type, self.host.current.unifier):
                raise ShapeError(
                    f"`{var.name}` has another shape than the feed `{info.name}`.",
                    given=f"{info.name}: {info.type}   {var.name}: {var.type}",
                    fix="Feeds share the sizes of one name; br.ensure_shape says what a run "
                    "alone tells.",
                )
        return found

    # ---- parameters and states ---------------------------------------------------------------

    def _keep(self, infos: Sequence[VarInfo]) -> None:
        """Declare what is persistable here, as far as an earlier call did not."""
        table = self.host.table
        new = list[VarInfo]()
        for info in infos:
            here = info.with_(name=self.prefix + info.name)
            found = table.find_var(here.name)
            if found is None:
                table.new_var(
                    here.name, info.type, info.kind, trainable=info.trainable, axes=info.axes
                )
                new.append(info)
            elif (found.type, found.kind) != (info.type, info.kind):
                raise DuplicateNameError(
                    f"There is another `{here.name}` already.",
                    given=f"{found.type} here, {info.type} in the program that is called",
                    fix="Call it by another name: br.call(..., name=...).",
                )
        self._begin([info.name for info in new])

    def _begin(self, names: Sequence[str]) -> None:
        """Let the startup program here set what that of the other program sets."""
        whole = self.program.startup.definition
        first = {n: v for n, v in whole.updates.items() if n in names}
        if not first:
            return
        whole = eliminated(whole.with_(main=whole.main.with_(results=()), updates=first))
        main, wanted = whole.main, tuple(dict.fromkeys(first.values()))
        startup = self.host.startup
        with startup.building(startup.table) as table:
            for name in first:
                info = main.vars[name]
                table.new_var(self.prefix + name, info.type, STATE, axes=info.axes)
            given = {n: self._first(i) for n, i in main.vars.items() if i.kind != VALUE}
            found = placed(startup, main, self.prefix[:-1], given, wanted)
            for name, value in first.items():
                startup.update(self.prefix + name, found[value])

    def _first(self, info: VarInfo) -> Var:
        """What the startup program of the other program reads: a seed, and what it sets."""
        startup = self.host.startup
        if info.kind != DATA:
            return var_of(startup, startup.table, self.prefix + info.name)
        if info.name != SEED:
            raise ProgramError(
                f"The startup program is fed `{info.name}`, which nothing gives here.",
                fix="Call a program without a startup program, and set values in the scope.",
            )
        seed_state()
        return var_of(startup, startup.table, SEED)

    def _kept(self, info: VarInfo, drawn: set[str]) -> Var:
        """What stands for a parameter or state; all that draws has one state."""
        if info.name in drawn:
            return random_state()
        return var_of(self.host, self.host.table, self.prefix + info.name)

    def _move(self, moves: Mapping[str, Var]) -> None:
        """Give states their next values, as the other program did."""
        for state, value in moves.items():
            if not self.host.current.runs_once or state in self.host.updates:
                raise ProgramError(
                    f"The program moves `{state}`, so it cannot be called in a loop or a "
                    "branch, or a second time.",
                    fix="Call what moves nothing: program.for_test(), or fetch=.",
                )
            self.host.update(state, value)


def placed(
    host: Builder, main: Body, name: str, values: Mapping[str, Var], wanted: Sequence[str]
) -> dict[str, Var]:
    """A main block as a plain block of a program that is being built; its variables by name.

    Args:
        host: The program.
        main: The block of another program.
        name: What the block is called; there is a count where another one is called so.
        values: What stands for its feeds, parameters and states.
        wanted: What it gives beyond those.
    """
    home, named, given = SymbolTable(), dict[str, str](), dict[str, Var]()
    for at, (old, var) in enumerate(values.items()):
        here = named[old] = f"@{at}"  # as nothing further in is called
        home.vars[here] = VarInfo(here, main.vars[old].type)
        given[here] = var
    inside = {n: info for n, info in main.vars.items() if info.kind == VALUE}
    found = dict(values)
    if main.ops:
        body = rename_body(Body((), (), inside, main.ops), named)
        called = free_block_name(host.current, name)
        recall = Recall(host, home, body, name, called, own="")
        append_plain_block(called, recall.body(given, {}), recompute=False)
        results = [name for name in wanted if name in inside]
        found |= dict(zip(results, recall.finish(results, {}), strict=True))
    return found


def _sizes(feeds: Sequence[VarInfo], values: Mapping[str, Var]) -> dict[str, Size]:
    """What the symbolic sizes of feeds are, by the values that they have."""
    found = dict[str, Size]()
    for info in feeds:
        for size, now in zip(info.shape, values[info.name].shape, strict=False):
            if isinstance(size, Dim) and size.name is not None:
                found.setdefault(size.name, now)
    return found


def _check_dtype(info: VarInfo, var: Var) -> None:
    if var.dtype != info.dtype:
        raise DTypeError(
            f"`{var.name}` has another dtype than the feed `{info.name}`.",
            given=f"{info.name}: {info.type}   {var.name}: {var.type}",
            fix=f"Convert it: br.cast(..., {str(info.dtype)!r}).",
        )
