"""Passes as values, and pipelines of passes.

A pass is a function from description to description. The targets of a program are part of its
description: the `results` of its main block and its `updates`. A pass that serves every run
keeps both: the same number of results, in order and of the same types, and next values for the
same persistable variables. The names of the values that compute them are up to the pass.

`note` records a decision of a pass about a place: an action, or a missed optimization with its
reason (LLVM: optimization remark). `Program.explain` collects these notes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from braces.builder.builder import Builder
from braces.errors import BracesError, ProgramError, UnknownNameError, suggest
from braces.ir.records import VALUE, ProgramDef, Source
from braces.passes.core.initial_values import transform
from braces.passes.verifier.program import check

VERIFY = "BRACES_VERIFY_PASSES"
"""Environment variable that turns on verification after every pass, trusted ones included."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
NoteKind: TypeAlias = Literal["passed", "missed", "analysis"]
"""Kind of a note: an action, a missed optimization, or a fact that is neither."""

_notes: ContextVar[list[Note] | None] = ContextVar("braces_notes", default=None)


@dataclass(frozen=True, eq=False)
class Pass:
    """Named function from program to program.

    A pass can be called with a program, or be an item of the tuple `br.Executor(passes=...)`.

    Args:
        name: Name of the pass in messages, `prog.explain()` and `braces show --after`.
        run: Function from description to description; it mutates nothing.
        doc: One sentence; by default the first line of the docstring of `run`.
        trusted: Whether the output is assumed well formed, and verified only with
            `BRACES_VERIFY_PASSES=1` in the environment.

    Raises:
        ProgramError: If the name is malformed, or `run` is not callable.

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
                f"invalid name of a pass: {name!r:.80}.",
                fix="Begin with a letter or `_`, followed by letters, digits and `_ . -`.",
            )
        if not callable(run):
            raise ProgramError(
                f"expected a function for the pass `{name}`, got {run!r:.80}.",
                fix='Write br.passes.Pass("name", function), from ProgramDef to ProgramDef.',
            )
        if not self.doc:
            first = (getattr(run, "__doc__", None) or "").strip().partition("\n")[0]
            object.__setattr__(self, "doc", first)

    def __call__(self, program: Builder) -> Builder:
        """Return a new program: this pass applied to another one.

        The startup program is shared, unless the pass creates persistable variables. Then it is
        a copy that sets these too: run `exe.init(new, scope, missing_only=True)`.

        Raises:
            ProgramError: If the output of the pass is not a program, or not well formed.
        """
        builder = cast("Any", program)
        if not isinstance(builder, Builder):
            raise ProgramError(
                f"expected a program, got {builder!r:.80}.",
                fix=f"Write {self.name}(prog); its `run` takes a ProgramDef.",
            )
        return transform(program, lambda definition: run_pass(self, definition))

    def __repr__(self) -> str:
        return f"<Pass {self.name}: {self.doc}>"


class Passes(tuple[Pass, ...]):
    """Pipeline: a tuple of passes that run in order.

    Example:
        >>> import braces as br
        >>> fewer = br.passes.default.without("vectorize_before")
        >>> br.passes.vectorize_before in br.passes.default, br.passes.vectorize_before in fewer
        (True, False)
        >>> exe = br.Executor(passes=fewer)
    """

    __slots__ = ()

    def without(self, *passes: str | Pass) -> Passes:
        """Return the pipeline without some passes, given as values or by name.

        Raises:
            UnknownNameError: If a pass is not in the pipeline.
        """
        names = [pass_.name for pass_ in self]
        removed_names = [pass_.name if isinstance(pass_, Pass) else pass_ for pass_ in passes]
        for name in removed_names:
            if name not in names:
                raise UnknownNameError(
                    f"the pipeline has no pass {name!r:.80}.",
                    fix=suggest(str(name), names),
                )
        return Passes(pass_ for pass_ in self if pass_.name not in removed_names)


# ---- notes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """Remark of a pass about one place.

    Attributes:
        where: The path of an operator or of a block, as `loop_0/body`; `""` is block 0.
        what: The decision, as "inlined" or "not inlined: gradients recompute it".
        kind: "passed" for an action, "missed" for a missed optimization, or "analysis".
        source: The line of the user's program, if it is known.
    """

    where: str
    what: str
    kind: NoteKind = "passed"
    source: Source | None = None

    def __str__(self) -> str:
        source = f" [{self.source}]" if self.source else ""
        return f"{self.where or 'block 0'}: {self.what}{source}"


def note(where: str, what: str, kind: NoteKind = "passed") -> None:
    """Record a decision about a place, with its reason; for passes, while they run.

    Args:
        where: The path of an operator or of a block, as `loop_0/body`; `""` is block 0.
        what: The decision and its reason, as "not inlined: gradients recompute it".
        kind: "passed" for an action; "missed" for a missed optimization; "analysis" for a fact
            that only `prog.explain(all=True)` prints.
    """
    notes = _notes.get()
    if notes is not None:
        notes.append(Note(where, what, kind))


def is_collecting_notes() -> bool:
    """Return whether notes are collected; if not, their reasons need not be computed."""
    return _notes.get() is not None


@contextmanager
def collect_notes() -> Generator[list[Note]]:
    """Collect the notes of passes run inside into the yielded list."""
    notes: list[Note] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


# ---- running ---------------------------------------------------------------------------------


def run_pass(pass_: Pass, program: ProgramDef) -> ProgramDef:
    """Apply one pass to a program; verify the output unless the pass is trusted.

    Raises:
        VerifyError: If the output is not well formed.
        ProgramError: If the output is not a program description, or the pass failed.
    """
    try:
        new_program = cast("Any", pass_.run(program))
    except BracesError as error:
        raise _with_place(error, f"in the pass `{pass_.name}`") from error.__cause__
    except Exception as error:
        raise ProgramError(
            f"the pass `{pass_.name}` failed: {type(error).__name__}: {error}",
            fix="Correct it, or remove it from the passes.",
        ) from error
    if not isinstance(new_program, ProgramDef):
        raise ProgramError(
            f"the pass `{pass_.name}` must return a ProgramDef.",
            given=f"{new_program!r:.80}",
            fix="Return its argument, or program.with_(main=..., updates=...).",
        )
    if new_program is not program and (not pass_.trusted or os.environ.get(VERIFY)):
        try:
            check(new_program, None, all=False, types=None)
        except BracesError as error:
            raise _with_place(error, f"after the pass `{pass_.name}`") from None
    return new_program


def _with_place(error: BracesError, place: str) -> BracesError:
    error.at = place if error.at is None else f"{place}: {error.at}"
    return error


def with_fetches(program: ProgramDef, fetches: Iterable[str] = ()) -> ProgramDef:
    """Return a program with the fetches as its results; with its own results if there are none.

    If it has neither results nor updates, the results are all values that no operator reads.
    """
    main, names = program.main, tuple(fetches)
    if not names and not main.results and not program.updates:
        read_names = {name for op in main.ops for name in op.reads()}
        names = tuple(name for op in main.ops for name in op.binds() if name not in read_names)
    return program.with_(main=main.with_(results=names)) if names else program


def run_passes(
    program: ProgramDef,
    passes: Iterable[Pass],
    run_one: Callable[[Pass, ProgramDef], ProgramDef] = run_pass,
) -> ProgramDef:
    """Run passes on a program in order, and check that each keeps results and updates.

    Args:
        program: The program.
        passes: The passes.
        run_one: Applies one pass; `run_pass`, or a function that measures it.

    Raises:
        VerifyError: If the output of a pass is not well formed.
        ProgramError: If a pass failed, or changed results, updates or declarations.
    """
    for pass_ in passes:
        new_program = run_one(pass_, program)
        if new_program is not program:
            _check_interface(pass_, program, new_program)
        program = new_program
    return program


def _check_interface(pass_: Pass, before: ProgramDef, after: ProgramDef) -> None:
    result_count, expected_count = len(after.main.results), len(before.main.results)
    if result_count != expected_count:
        raise _interface_error(
            pass_, f"returned {result_count} results; expected {expected_count}"
        )
    for old, new in zip(before.main.results, after.main.results, strict=True):
        was, is_ = before.main.vars[old].type, after.main.vars[new].type
        if was != is_:
            raise _interface_error(
                pass_, f"changed the type of the fetch `{old}`", f"{was}   {is_}"
            )
    for name in before.updates.keys() ^ after.updates.keys():
        verb = "removed the" if name in before.updates else "added an"
        raise _interface_error(pass_, f"{verb} update of `{name}`")
    if not pass_.trusted:
        _check_declarations(pass_, before, after)


def _check_declarations(pass_: Pass, before: ProgramDef, after: ProgramDef) -> None:
    """Check that data and persistable variables have their old declarations, or are gone."""
    for name, info in after.main.vars.items():
        if info.kind != VALUE and info != (old := before.main.vars.get(name)):
            old_text = f"before: {old.kind} {old.type}   " if old else "before: none   "
            raise _interface_error(
                pass_,
                f"changed the declaration of `{name}`",
                f"{old_text}after: {info.kind} {info.type}",
            )


def _interface_error(pass_: Pass, what: str, difference: str | None = None) -> ProgramError:
    return ProgramError(
        f"the pass `{pass_.name}` {what}.",
        given=difference,
        fix="Keep the results of block 0 and all updates in a pass of an executor; call any "
        f"other pass with the program: {pass_.name}(prog).",
    )


def as_passes(passes: Any) -> tuple[Pass, ...]:
    """Convert an argument of a user to a tuple of passes.

    Raises:
        ProgramError: If the argument is not a sequence of passes.
    """
    listed = _is_sequence(passes)
    items: tuple[Any, ...] = tuple(passes) if listed else (passes,)
    non_passes = [item for item in items if not isinstance(item, Pass)]
    if listed and not non_passes:
        return items
    what = non_passes[0] if non_passes else passes
    fix = "Write passes=(br.passes.dce,), or passes=() for none."
    if non_passes and callable(what):
        fix = 'Write br.passes.Pass("name", function).'
    raise ProgramError(f"expected a pass or a tuple of passes, got {what!r:.80}.", fix=fix)


def _is_sequence(argument: object) -> bool:
    return isinstance(argument, Sequence) and not isinstance(argument, str)
