"""Fetches of a run: their names, and the structure of results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

from braces.builder.builder import Builder
from braces.builder.checked_calls import elements_of, located_call
from braces.builder.source_line import user_line
from braces.builder.var import Var
from braces.errors import ProgramError, short_text
from braces.ir.paths import current_path
from braces.ir.places import Place
from braces.ir.records import VarInfo
from braces.passes.probing.inner_gradient import InnerGradient


def default_fetches(program: Builder) -> tuple[str, ...]:
    """Return the default fetches of a program."""
    return program.definition.main.results


def read_fetch(
    fetch: Any, program: Builder | None = None
) -> tuple[tuple[str, ...], Callable[[list[Any]], Any]]:
    """Return the names to fetch, and a function that structures the results.

    Args:
        fetch: The argument of a user.
        program: The program, for its default fetches, and for handles of earlier versions.
    """
    if fetch is None and program is not None:
        fetch = default_fetches(program)
    name_of = partial(_fetch_name, program)
    if type(fetch) is list or type(fetch) is tuple:
        return tuple(map(name_of, fetch)), list
    if isinstance(fetch, dict):
        keys = list(fetch)
        names = tuple(map(name_of, fetch.values()))
        return names, lambda results: dict(zip(keys, results, strict=True))
    if isinstance(fetch, str | Var | VarInfo) or _path_of(fetch) is not None:
        return (name_of(fetch),), itemgetter(0)
    elements = () if fetch is None else elements_of(fetch)
    return tuple(map(name_of, [fetch] if elements is None else elements)), list


def _fetch_name(program: Builder | None, fetch: Any) -> str:
    if not isinstance(fetch, Var):
        if type(fetch) is InnerGradient and program is not None:
            with located_call("grad_of"):
                return fetch.now(program.definition)
        if isinstance(fetch, str | VarInfo):
            return fetch if isinstance(fetch, str) else fetch.name
        if (path := _path_of(fetch)) is not None:
            if program is None or not hasattr(fetch, "place"):
                return path
            with located_call("fetch"):
                return current_path(program.definition, fetch)
        holds_one = isinstance(getattr(fetch, "value", None), Var)  # as a metric does
        raise ProgramError(
            f"expected a variable or its name as fetch, got {short_text(fetch)}.",
            at=user_line(),
            fix="Fetch its variable: `.value`."
            if holds_one
            else "Fetch variables or their names.",
        )
    if fetch.table.outside is not fetch.program.table:
        raise ProgramError(
            f"`{fetch.name}` is a variable of an inner block, so it has many values or none.",
            at=user_line(),
            fix=f"Fetch its values by path: {_path_text(fetch)}; or return it with add_output.",
        )
    return fetch.name


def _path_of(fetch: Any) -> str | None:
    """Return the path of a handle; `None` for other values."""
    path = getattr(fetch, "path", None)
    return path if isinstance(path, str) else None


def _path_text(fetch: Var) -> str:
    """Return the path of a variable of an inner block, for messages."""
    blocks = Place.main(fetch.program.definition).walk()
    paths = (block.path_of(fetch.name) for block in blocks if fetch.name in block.body.vars)
    return f'"{next(paths, "loop_0/body/h")}"'
