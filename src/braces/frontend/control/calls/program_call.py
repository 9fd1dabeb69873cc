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

The operators of the callee become a plain block of the caller. Parameters and states of the
callee are copied under the name of the call, with their initializers. The result keeps no
reference to the callee: it can be differentiated, pruned, saved and sent like any program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.builder.append import as_var
from braces.builder.builder import SEED, Builder, current_program
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
from braces.frontend.control.block_call import BlockCall
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.init import seed_state
from braces.frontend.core.random_state import RANDOM_STATE, random_state
from braces.ir.records import DATA, STATE, VALUE, Body, ProgramDef, VarInfo
from braces.ir.walk import rename_body
from braces.ops.control.construct.build import append_plain_block, free_block_name
from braces.passes.cleanup.dead_code import eliminate_dead_code
from braces.passes.cleanup.prune import prune_program, target_names
from braces.passes.core.random_effects import random_states


@transactional
def call(program: Builder, /, *given: Any, name: str, fetch: Any = None, **named: Any) -> Any:
    """Call another program as a plain block of the program that is being built.

    A program that was loaded, imported or built elsewhere becomes part of this one: it is
    differentiable, prune and save keep the required parts of it, and it may be called in loops
    and branches. The called program does not change.

    Its parameters and states are named `NAME/…` here. A parameter that this program already has
    with that name, shape and dtype, as after an earlier call of the same name, is shared; calls
    with different names have separate parameters. Initializers are copied, so `Executor.init`
    initializes them in the same way; `scope.update(values, prefix="NAME/")` sets other values.

    A call has all effects of a run of the program, including updates of running statistics.
    With `fetch=` the program is pruned first, as by `br.prune`: only those variables are
    computed, without other updates. Each call draws new random numbers.

    Args:
        program: The program to call; not the one that is being built.
        *given: A value for each of its feeds, in the order of `program.feeds`.
        name: The name of the block, and the prefix of its names here.
        fetch: Variables of the program or their names; all fetches of the program
            (`program.fetches`) by default.
        **named: Values by the names of feeds.

    Returns:
        One variable, or a tuple of several.

    Raises:
        ProgramError: If the program has no fetches, is this program, or a required feed has no
            value; or it updates a state, and is called in a loop or for the second time.
        UnknownNameError: If the program has no feed or variable of this name.
        DTypeError: If the dtype of a value differs from that of the feed.
        ShapeError: If the shape of a value does not match the feed.
        DuplicateNameError: If this program has another parameter of the same name.

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
        results = _ProgramCall(host, _check_callee(host, program), name).results(
            given, named, fetch
        )
    except BracesError as problem:
        inside = f", in {problem.at}" if problem.at else ""
        problem.at = f"call of the program `{name}`, at {user_source()}{inside}"
        raise
    return results[0] if len(results) == 1 else results


def _check_callee(host: Builder, program: Any) -> Builder:
    if not isinstance(program, Builder):
        raise ProgramError(
            f"br.call: expected a program, got {program!r:.80}.",
            fix="br.Program.load, br.from_onnx and `with br.Program() as other:` create one.",
        )
    if program is host:
        raise ProgramError(
            "a program cannot call itself.", fix="Write a loop, or call a block: enc(x)."
        )
    return program


class _ProgramCall:
    """One program called by another.

    Attributes:
        host: The calling program, which is being built.
        program: The called program.
        prefix: The prefix of the names of its parameters and states in the host.
    """

    def __init__(self, host: Builder, program: Builder, name: str) -> None:
        self.host = host
        self.program = program
        self.name = name
        self.prefix = f"{host.current.prefixed(name)}/"

    def results(
        self, arguments: Sequence[Any], named: Mapping[str, Any], fetch: Any
    ) -> tuple[Var, ...]:
        """Append the block, and declare its parameters and states; return the results."""
        target = self._prune(fetch)
        main = target.main
        values = self._bind_feeds(main, arguments, named)
        random = random_states(main) & {RANDOM_STATE}
        self._declare([i for n, i in main.vars.items() if i.persistable and n not in random])
        for info in main.vars.values():
            if info.persistable:
                values[info.name] = self._persistable_var(info, random)
        moves = {n: v for n, v in target.updates.items() if n not in random}
        wanted = dict.fromkeys((*main.results, *moves.values()))
        new_vars = append_as_block(self.host, main, self.name, values, tuple(wanted))
        self._move({self.prefix + n: new_vars[v] for n, v in moves.items()})
        return tuple(new_vars[name] for name in main.results)

    def _prune(self, fetch: Any) -> ProgramDef:
        """Return the program without dead code, pruned to `fetch` if there is one."""
        target = self.program.definition
        if fetch is not None:
            names, target = target_names(target, fetch)
            return prune_program(target.with_(main=target.main.with_(results=tuple(names))))
        if not target.main.results:
            raise ProgramError(
                "the program has no result.",
                fix="Name the variables: fetch=[logits]; or declare results: prog.give.",
            )
        return eliminate_dead_code(target)

    # ---- feeds -------------------------------------------------------------------------------

    def _bind_feeds(
        self, needed: Body, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, Var]:
        """Return the values of the feeds that the block reads."""
        all_feeds = [n for n, i in self.program.infos.items() if i.kind == DATA]
        for name in named:
            if name not in all_feeds:
                raise UnknownNameError(
                    f"the program has no feed `{name}`.",
                    given=f"feeds: {', '.join(all_feeds) or 'none'}",
                    fix=suggest(name, all_feeds),
                )
        unnamed = [name for name in all_feeds if name not in named]
        if len(arguments) > len(unnamed):
            raise ProgramError(
                f"the program takes {len(unnamed)} positional values here, "
                f"got {len(arguments)}.",
                given=f"feeds: {', '.join(unnamed) or 'none'}",
            )
        values = {**dict(zip(unnamed, arguments, strict=False)), **named}
        feeds = [info for info in needed.vars.values() if info.kind == DATA]
        missing = [info.name for info in feeds if info.name not in values]
        if missing:
            raise ProgramError(
                f"missing value for the feed `{missing[0]}`.",
                given=f"feeds: {', '.join(f'{i.name}: {i.type}' for i in feeds)}",
                fix="Pass one for each, in this order or by name.",
            )
        return self._match_types(feeds, values)

    def _match_types(
        self, feeds: Sequence[VarInfo], values: Mapping[str, Any]
    ) -> dict[str, Var]:
        """Convert values to variables and check them against the types of the feeds."""
        vars = {info.name: as_var(values[info.name], info.dtype) for info in feeds}
        for info in feeds:
            check_visible(self.host, vars[info.name])
            _check_dtype(info, vars[info.name])
        sizes = _sizes(feeds, vars)
        for info in feeds:
            feed_type = info.type.map_sizes(lambda size: substitute(size, sizes))
            var = vars[info.name]
            if not unifies(feed_type, var.type, self.host.current.unifier):
                raise ShapeError(
                    f"shape mismatch of `{var.name}` and the feed `{info.name}`.",
                    given=f"{info.name}: {info.type}   {var.name}: {var.type}",
                    fix="Axes of one name have one size; br.ensure_shape declares a "
                    "data-dependent size.",
                )
        return vars

    # ---- parameters and states ---------------------------------------------------------------

    def _declare(self, infos: Sequence[VarInfo]) -> None:
        """Declare the persistable variables that no earlier call has declared."""
        table = self.host.table
        new = list[VarInfo]()
        for info in infos:
            host_info = info.with_(name=self.prefix + info.name)
            existing = table.find_var(host_info.name)
            if existing is None:
                table.new_var(
                    host_info.name,
                    info.type,
                    info.kind,
                    trainable=info.trainable,
                    axes=info.axes,
                )
                new.append(info)
            elif (existing.type, existing.kind) != (info.type, info.kind):
                raise DuplicateNameError(
                    f"duplicate name `{host_info.name}` with another type.",
                    given=f"{existing.type} here, {info.type} in the called program",
                    fix="Choose another name for the call: br.call(..., name=...).",
                )
        self._initialize([info.name for info in new])

    def _initialize(self, names: Sequence[str]) -> None:
        """Copy the initializers of the called program's startup program."""
        startup_target = self.program.startup.definition
        first = {n: v for n, v in startup_target.updates.items() if n in names}
        if not first:
            return
        startup_target = eliminate_dead_code(
            startup_target.with_(main=startup_target.main.with_(results=()), updates=first)
        )
        main, initial_values = startup_target.main, tuple(dict.fromkeys(first.values()))
        startup = self.host.startup
        with startup.building(startup.table) as table:
            for name in first:
                info = main.vars[name]
                table.new_var(self.prefix + name, info.type, STATE, axes=info.axes)
            startup_values = {
                n: self._first(i) for n, i in main.vars.items() if i.kind != VALUE
            }
            new_vars = append_as_block(
                startup, main, self.prefix[:-1], startup_values, initial_values
            )
            for name, value in first.items():
                startup.update(self.prefix + name, new_vars[value])

    def _first(self, info: VarInfo) -> Var:
        """Return the variable that replaces a seed or state of the callee's startup program."""
        startup = self.host.startup
        if info.kind != DATA:
            return var_of(startup, startup.table, self.prefix + info.name)
        if info.name != SEED:
            raise ProgramError(
                f"the startup program needs the feed `{info.name}`, which a call cannot pass.",
                fix="Call a program without a startup program, and set values in the scope.",
            )
        seed_state()
        return var_of(startup, startup.table, SEED)

    def _persistable_var(self, info: VarInfo, random: set[str]) -> Var:
        """Return the host's parameter or state; all random operators share one state."""
        if info.name in random:
            return random_state()
        return var_of(self.host, self.host.table, self.prefix + info.name)

    def _move(self, moves: Mapping[str, Var]) -> None:
        """Update the states, as the called program does."""
        for state, value in moves.items():
            if not self.host.current.runs_once or state in self.host.updates:
                raise ProgramError(
                    f"the program updates `{state}`, so it cannot be called in a loop or a "
                    "branch, or a second time.",
                    fix="Call a program without updates: program.for_test(), or fetch=.",
                )
            self.host.update(state, value)


def append_as_block(
    host: Builder, main: Body, name: str, values: Mapping[str, Var], wanted: Sequence[str]
) -> dict[str, Var]:
    """Append the main block of another program as a plain block; return variables by name.

    Args:
        host: The program that is being built.
        main: The main block of another program.
        name: The name of the block; a number is appended if it is taken.
        values: Variables that replace its feeds, parameters and states.
        wanted: The names of further results.
    """
    home, renames, inputs = SymbolTable(), dict[str, str](), dict[str, Var]()
    for at, (old, var) in enumerate(values.items()):
        inner_name = renames[old] = f"@{at}"  # no name in the block has this form
        home.vars[inner_name] = VarInfo(inner_name, main.vars[old].type)
        inputs[inner_name] = var
    inside = {n: info for n, info in main.vars.items() if info.kind == VALUE}
    new_vars = dict(values)
    if main.ops:
        body = rename_body(Body((), (), inside, main.ops), renames)
        block_name = free_block_name(host.current, name)
        recall = BlockCall(host, home, body, name, block_name, own="")
        append_plain_block(block_name, recall.body(inputs, {}), recompute=False)
        results = [name for name in wanted if name in inside]
        new_vars |= dict(zip(results, recall.finish(results, {}), strict=True))
    return new_vars


def _sizes(feeds: Sequence[VarInfo], values: Mapping[str, Var]) -> dict[str, Size]:
    """Return the symbolic sizes of feeds, matched with the shapes of their values."""
    sizes = dict[str, Size]()
    for info in feeds:
        for size, actual in zip(info.shape, values[info.name].shape, strict=False):
            if isinstance(size, Dim) and size.name is not None:
                sizes.setdefault(size.name, actual)
    return sizes


def _check_dtype(info: VarInfo, var: Var) -> None:
    if var.dtype != info.dtype:
        raise DTypeError(
            f"dtype mismatch of `{var.name}` and the feed `{info.name}`.",
            given=f"{info.name}: {info.type}   {var.name}: {var.type}",
            fix=f"Convert it: br.cast(..., {str(info.dtype)!r}).",
        )
