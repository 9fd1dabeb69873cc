"""Passes as values, and several of them in a row.

A pass is a function from description to description. What is wanted of a program is part of
its description: the `results` of its main block and its `updates`. A pass that serves every run
keeps both: as many results, in their order and of their types, and next values for the same
persistable variables. Under which names all this is computed is the affair of the pass.

`note` is how a pass says what it did somewhere, or why it left a place alone; `Program.explain`
collects that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from braces.builder.builder import Builder
from braces.errors import BracesError, ProgramError, UnknownNameError, suggest
from braces.ir.records import VALUE, ProgramDef
from braces.passes.core.initial_values import holding_first_values
from braces.passes.verify.program import check

VERIFY = "BRACES_VERIFY_PASSES"
"""The variable of the environment that has what every pass makes verified, ours included."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_notes: ContextVar[list[Note] | None] = ContextVar("braces_notes", default=None)


@dataclass(frozen=True, eq=False)
class Pass:
    """A function from program to program that has a name.

    It is one of a tuple that `br.Executor(passes=...)` takes, and can be called with a program.

    Args:
        name: What messages, `prog.explain()` and `braces show --after` call it.
        run: From description to description; it changes nothing that it is given.
        doc: One sentence; the first line of what documents `run` where it is left out.
        trusted: Whether what it makes is taken as well formed, and verified only where the
            environment has `BRACES_VERIFY_PASSES=1`.

    Raises:
        ProgramError: The name is none, or `run` cannot be called.

    Example:
        >>> import braces as br
        >>> def shuffled(program):
        ...     "Put independent operators in another order."
        ...     return program
        >>> br.passes.Pass("shuffle", shuffled)
        <Pass shuffle: Put independent operators in another order.>
    """

    name: str
    run: Callable[[ProgramDef], ProgramDef]
    doc: str = ""
    trusted: bool = False

    def __post_init__(self) -> None:
        name, run = cast("tuple[Any, Any]", (self.name, self.run))
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ProgramError(
                f"{name!r:.80} cannot be the name of a pass.",
                fix="Names begin with a letter or `_`; letters, digits and `_ . -` follow.",
            )
        if not callable(run):
            raise ProgramError(
                f"The pass `{name}` needs a function, not {run!r:.80}.",
                fix='Write br.passes.Pass("name", function), from ProgramDef to ProgramDef.',
            )
        if not self.doc:
            first = (getattr(run, "__doc__", None) or "").strip().partition("\n")[0]
            object.__setattr__(self, "doc", first)

    def __call__(self, program: Builder) -> Builder:
        """A new program that this pass makes of another.

        The startup program is shared, unless the pass makes variables that outlive runs: then
        it is a copy that sets these too, with `exe.init(new, scope, missing_only=True)`.

        Raises:
            ProgramError: What the pass makes is not well formed, or no program.
        """
        given = cast("Any", program)
        if not isinstance(given, Builder):
            raise ProgramError(
                f"A pass takes a program, not {given!r:.80}.",
                fix=f"Write {self.name}(prog); its `run` takes a description.",
            )
        with holding_first_values(program.startup) as held:
            made = program.like(run_pass(self, program.definition))
        made.startup = held.startup
        return made

    def __repr__(self) -> str:
        return f"<Pass {self.name}: {self.doc}>"


class Passes(tuple[Pass, ...]):
    """Passes that run one after the other: a tuple that can do without some.

    Example:
        >>> import braces as br
        >>> fewer = br.passes.default.without("vectorize_before")
        >>> br.passes.vectorize_before in br.passes.default, br.passes.vectorize_before in fewer
        (True, False)
        >>> exe = br.Executor(passes=fewer)
    """

    __slots__ = ()

    def without(self, *passes: str | Pass) -> Passes:
        """These passes but for some, as values or by name.

        Raises:
            UnknownNameError: One is not among them.
        """
        names = [one.name for one in self]
        gone = [one.name if isinstance(one, Pass) else one for one in passes]
        for name in gone:
            if name not in names:
                raise UnknownNameError(
                    f"There is no pass {name!r:.80} to leave out.",
                    fix=suggest(str(name), names),
                )
        return Passes(one for one in self if one.name not in gone)


# ---- notes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """What a pass says of one place.

    Attributes:
        where: The path of an operator or of a block, as `loop_0/body`; `""` is block 0.
        what: What was done there, or why nothing was.
    """

    where: str
    what: str


def note(where: str, what: str) -> None:
    """Say what is done at a place, or why it is left alone; for passes, while they run.

    Args:
        where: The path of an operator or of a block, as `loop_0/body`; `""` is block 0.
        what: One sentence or part of one.
    """
    notes = _notes.get()
    if notes is not None:
        notes.append(Note(where, what))


@contextmanager
def noting() -> Generator[list[Note]]:
    """Inside, what passes note is put into the list that this gives."""
    found: list[Note] = []
    token = _notes.set(found)
    try:
        yield found
    finally:
        _notes.reset(token)


# ---- running ---------------------------------------------------------------------------------


def run_pass(one: Pass, program: ProgramDef) -> ProgramDef:
    """What one pass makes of a program, verified unless the pass is trusted.

    Raises:
        VerifyError: It is not well formed.
        ProgramError: It is no description of a program, or the pass failed.
    """
    try:
        made = cast("Any", one.run(program))
    except BracesError as error:
        raise _named(error, f"in the pass `{one.name}`") from error.__cause__
    except Exception as error:
        raise ProgramError(
            f"The pass `{one.name}` failed: {type(error).__name__}: {error}",
            fix="Mend it, or leave it out of the passes.",
        ) from error
    if not isinstance(made, ProgramDef):
        raise ProgramError(
            f"The pass `{one.name}` made no ProgramDef.",
            given=f"{made!r:.80}",
            fix="Return the program that it is given, or program.with_(main=..., updates=...).",
        )
    if made is not program and (not one.trusted or os.environ.get(VERIFY)):
        try:
            check(made, None, all=False, types=None)
        except BracesError as error:
            raise _named(error, f"after the pass `{one.name}`") from None
    return made


def _named(error: BracesError, place: str) -> BracesError:
    error.at = place if error.at is None else f"{place}: {error.at}"
    return error


def wanted(program: ProgramDef, fetches: Iterable[str] = ()) -> ProgramDef:
    """A program with what is fetched as its results; its own where nothing is.

    Where it gives and updates nothing, that is whatever no operator reads.
    """
    main, names = program.main, tuple(fetches)
    if not names and not main.results and not program.updates:
        read = {name for op in main.ops for name in op.reads()}
        names = tuple(name for op in main.ops for name in op.binds() if name not in read)
    return program.with_(main=main.with_(results=names)) if names else program


def optimised(
    program: ProgramDef,
    passes: Iterable[Pass],
    run_one: Callable[[Pass, ProgramDef], ProgramDef] = run_pass,
) -> ProgramDef:
    """What passes make of a program, one after the other, with all that is wanted of it.

    Args:
        program: The program.
        passes: The passes.
        run_one: Gives what one of them makes; `run_pass`, or what measures it.

    Raises:
        VerifyError: What a pass made is not well formed.
        ProgramError: A pass failed, or did not keep results, updates or what is declared.
    """
    for one in passes:
        made = run_one(one, program)
        if made is not program:
            _check_kept(one, program, made)
        program = made
    return program


def _check_kept(one: Pass, before: ProgramDef, after: ProgramDef) -> None:
    found, wanted = len(after.main.results), len(before.main.results)
    if found != wanted:
        raise _changed(one, f"gives {found} results where {wanted} are fetched")
    for old, new in zip(before.main.results, after.main.results, strict=True):
        was, is_ = before.main.vars[old].type, after.main.vars[new].type
        if was != is_:
            raise _changed(one, f"changes the type of the fetch `{old}`", f"{was}   {is_}")
    for name in before.updates.keys() ^ after.updates.keys():
        verb = "drops the" if name in before.updates else "adds an"
        raise _changed(one, f"{verb} update of `{name}`")
    if not one.trusted:
        _check_declared(one, before, after)


def _check_declared(one: Pass, before: ProgramDef, after: ProgramDef) -> None:
    """What is fed and what persists is as it was, or gone."""
    for name, info in after.main.vars.items():
        if info.kind != VALUE and info != (old := before.main.vars.get(name)):
            given = f"before: {old.kind} {old.type}   " if old else "before: nothing   "
            raise _changed(
                one, f"declares `{name}` anew", f"{given}after: {info.kind} {info.type}"
            )


def _changed(one: Pass, what: str, given: str | None = None) -> ProgramError:
    return ProgramError(
        f"The pass `{one.name}` {what}.",
        given=given,
        fix="A pass of an executor keeps the results of block 0 and all updates; one that does "
        f"not is called with the program: {one.name}(prog).",
    )


def as_passes(given: Any) -> tuple[Pass, ...]:
    """What a user gives as passes.

    Raises:
        ProgramError: It is not a sequence of passes.
    """
    listed = _is_listed(given)
    several: tuple[Any, ...] = tuple(given) if listed else (given,)
    strange = [one for one in several if not isinstance(one, Pass)]
    if listed and not strange:
        return several
    what = strange[0] if strange else given
    fix = "Write passes=(br.passes.dce,), or passes=() for none."
    if strange and callable(what):
        fix = 'Make it one: br.passes.Pass("name", function).'
    raise ProgramError(f"{what!r:.80} is no pass or tuple of passes.", fix=fix)


def _is_listed(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)
