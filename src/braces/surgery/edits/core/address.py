"""Places that an edit is given: paths, patterns, variables, handles, selections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from braces.builder.builder import Builder
from braces.builder.checked_calls import elements_of
from braces.builder.var import Var
from braces.errors import ProgramError, UnknownNameError, short_text
from braces.ir.paths import BLOCK, VARIABLE
from braces.ir.places import Place
from braces.surgery.edits.core.taken_part import (
    WholeNeededError,
    check_existing,
    taken_part,
)
from braces.surgery.find import Query, find
from braces.surgery.handles import Handle, Selection, operator_handle, resolve

At: TypeAlias = str | Var | Handle | Selection | Iterable[Any]
"""A path, a pattern with `*` or `?`, a variable, a handle, a selection, or several of these."""


def handles_at(program: Builder, at: Any, *kinds: str) -> list[Handle]:
    """Return the handles of the current version that an argument denotes, each once.

    Args:
        program: The program.
        at: The argument.
        *kinds: The kinds that a pattern searches; `operators` by default.

    Raises:
        UnknownNameError: If a path does not exist, or a pattern matches nothing.
        ProgramError: If the argument is empty, or no path and no handle.
    """
    main = Place.main(program.definition)
    try:
        handles = list(dict.fromkeys(_each(main, at, kinds or ("operators",))))
    except UnknownNameError as error:
        if taken_part(program) is not None:
            raise WholeNeededError(error.what, at=error.at) from None
        raise
    check_existing(program, handles)
    if not handles:
        raise ProgramError("the selection is empty.", fix="Select one operator or more.")
    return handles


def _each(main: Place, at: Any, kinds: tuple[str, ...]) -> Iterator[Handle]:
    if isinstance(at, Handle):
        yield resolve(main, at)
    elif isinstance(at, Var):
        yield resolve(main, at.name, VARIABLE)
    elif isinstance(at, str) and ("*" in at or "?" in at):
        matches = [handle for kind in kinds for handle in find(main, Query(kind, name=at))]
        if not matches:
            raise UnknownNameError(
                f"no {kinds[0][:-1]} matches `{at}`.",
                fix=f"`*` matches any characters; prog.find(kind={kinds[0]!r}) lists all.",
            )
        yield from matches
    elif isinstance(at, str):
        yield resolve(main, at)
    elif (items := elements_of(at)) is not None:
        for item in items:
            yield from _each(main, item, kinds)
    else:
        raise ProgramError(
            f"expected a path, a handle or a selection, got {short_text(at)}.",
            fix='Pass the path of an operator: "loop_0/body/act".',
        )


def operators_at(program: Builder, at: Any, *, inside: bool = False) -> list[Handle]:
    """Return the operators that an argument denotes; for a variable, the one that binds it.

    Args:
        program: The program.
        at: The argument; see `handles_at`.
        inside: Whether a block or an operator with blocks stands for the operators inside.

    Raises:
        ProgramError: If a variable is data, persistable or an argument, or a block is given.
    """
    handles = handles_at(program, at)
    if inside:
        handles = [op for handle in handles for op in _inside(handle)]
    return list(dict.fromkeys(_operator(handle) for handle in handles))


def _operator(handle: Handle) -> Handle:
    maker = handle.maker
    if handle.kind == BLOCK:
        raise ProgramError(
            f"expected an operator, got the block `{handle.path}`.",
            fix=f"Pass its owner, or an operator in it: prog.find(inside={handle.path!r}).",
        )
    if maker is None or maker.place is not handle.place:
        info = handle.info
        raise ProgramError(
            f"expected an operator, got `{handle.path}`, which no operator of its block binds.",
            given=f"{info.kind} {info.name}: {info.shown_type}" if info else None,
            fix="Pass an operator that reads it.",
        )
    return maker


def _inside(handle: Handle) -> Iterator[Handle]:
    """Yield the operators in a block or in the blocks of an operator; else the handle."""
    blocks = [handle] if handle.kind == BLOCK else list(handle.blocks)
    if not blocks:
        yield handle
    for block in blocks:
        assert isinstance(block.content, Place)
        for op in block.content.body.ops:
            yield from _inside(operator_handle(block.content, op))


def variables_at(program: Builder, at: Any) -> list[tuple[Handle, ...]]:
    """Return the variables that an argument denotes: for an operator, all of its outputs.

    Raises:
        ProgramError: If a block is given.
    """
    handles = handles_at(program, at)
    for handle in handles:
        if handle.kind == BLOCK:
            _operator(handle)
    return list(dict.fromkeys(tuple(handle.outputs) for handle in handles))


def paths_text(handles: Sequence[Handle]) -> str:
    """Return the paths of handles for messages."""
    shown = ", ".join(f"`{handle.path}`" for handle in handles[:3])
    return f"{shown} and {len(handles) - 3} more" if len(handles) > 3 else shown
