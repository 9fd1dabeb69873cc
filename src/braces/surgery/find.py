"""Search in all blocks of a program: operators, variables, blocks and parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

from braces.builder.checked_calls import elements_of
from braces.builder.user_functions import add_function, check_takes
from braces.builder.var import Var
from braces.define.decorator import OPS
from braces.errors import ProgramError, UnknownNameError, suggest
from braces.homes import OPERATORS
from braces.ir.paths import BLOCK, VARIABLE, unknown_path
from braces.ir.places import Chain, Place
from braces.ir.records import PARAMETER, Op, ProgramDef
from braces.surgery.handles import (
    Handle,
    Selection,
    block_handle,
    operator_handle,
    resolve,
    variable_handle,
)

KINDS = ("operators", "variables", "blocks", "parameters")
Matcher: TypeAlias = "Callable[[str], object]"
Named: TypeAlias = "str | Var | Handle | Selection"


@dataclass(frozen=True)
class Query:
    """The conditions of a search; `None` for none.

    Attributes:
        kind: One of `KINDS`.
        type: The type of an operator or of a variable, a pattern, or several.
        name: A pattern for the name or the path.
        inside: Blocks, by the name or path of the owner or of the block.
        reads: The variables that an operator reads.
        writes: The variables that an operator binds.
        where: A condition on the handle.
    """

    kind: str
    type: str | Iterable[str] | None = None
    name: str | None = None
    inside: Named | None = None
    reads: Named | None = None
    writes: Named | None = None
    where: Callable[[Handle], object] | None = None

    def check(self) -> None:
        """Raise an error for conditions that are invalid by themselves."""
        if self.kind not in KINDS:
            raise UnknownNameError(
                f"unknown kind {self.kind!r}.", fix=suggest(self.kind, KINDS)
            )
        if self.kind != "operators" and (self.reads is not None or self.writes is not None):
            raise ProgramError(
                f"`reads` and `writes` select operators, got kind={self.kind!r}.",
                fix="Omit kind=, or use the `users` and `inputs` of the handles.",
            )
        if self.kind == "parameters" and self.inside is not None:
            raise ProgramError(
                "parameters are in block 0, so `inside` selects none of them.",
                fix='Use prog.find(inside=...).inputs & prog.find(kind="parameters").',
            )


def find(program: ProgramDef | Place, query: Query) -> Selection:
    """Return everything that fulfils the conditions of a query, in program order.

    Raises:
        UnknownNameError: If `kind`, or an operator type, block or variable without wildcards,
            does not exist.
        ProgramError: If the conditions do not belong together.
    """
    query.check()
    main = Place.main(program)
    enters, within = _block_condition(main, query.inside)
    search = _operators if query.kind == "operators" else _others
    handles = search(main, within, enters, query)
    if query.where is not None:
        check_takes(query.where, 1, "`where`")
        handles = filter(partial(_fulfils, query.where), handles)
    return Selection.of_unique(handles)


def _fulfils(where: Callable[[Handle], object], handle: Handle) -> bool:
    try:
        return bool(where(handle))
    except Exception as error:
        add_function(error, where, f"`where` of find, at `{handle.path}`")
        raise


# ---- operators -------------------------------------------------------------------------------


def _operators(
    main: Place, within: bool, enters: Callable[[Place], bool], query: Query
) -> Iterator[Handle]:
    type_matches = _type_condition(main, query.type)
    name_matches = _pattern(query.name)
    wanted = _selected_ops(main, query)
    for place, op in _ops_below(main, within, enters):
        if type_matches and not type_matches(op.type):
            continue
        if wanted is not None and (place.chain, op.name) not in wanted:
            continue
        if name_matches and not _is_named(name_matches, place, op.name):
            continue
        yield operator_handle(place, op)


def _is_named(matches: Matcher, place: Place, name: str) -> object:
    return matches(name) or (place.path and matches(f"{place.path}/{name}"))


def _ops_below(
    place: Place, within: bool, enters: Callable[[Place], bool]
) -> Iterator[tuple[Place, Op]]:
    owners = place.owners
    for op in place.body.ops:
        if within:
            yield place, op
        if op.name in owners:
            for inner in place.inner(op).values():
                yield from _ops_below(inner, within or enters(inner), enters)


def _selected_ops(main: Place, query: Query) -> set[tuple[Chain, str]] | None:
    """Return blocks and names of the operators with the reads and writes of a query."""
    ops: set[tuple[Chain, str]] | None = None
    if query.reads is not None:
        users = (u for p, n in _variables(main, query.reads, "reads") for u in p.users(n))
        ops = {(place.chain, op.name) for place, op in users}
    if query.writes is not None:
        makers = (p.maker(n) for p, n in _variables(main, query.writes, "writes"))
        binding = {(maker[0].chain, maker[1].name) for maker in makers if maker}
        ops = binding if ops is None else ops & binding
    return ops


def _type_condition(main: Place, types: str | Iterable[str] | None) -> Matcher | None:
    """Return the condition on the type of an operator.

    Raises:
        UnknownNameError: If neither an operator nor the program has a type without wildcards.
    """
    if types is None:
        return None
    names = [_type_name(main, name) for name in _texts(types, "type")]
    return _pattern_of_any(tuple(names))


def _type_name(main: Place, name: str) -> str:
    if _has_wildcards(name) or OPS.find(name) is not None:
        return name
    if name in OPERATORS:
        return OPERATORS[name]
    if all(op.type != name for _, op in _ops_below(main, True, lambda _: True)):
        raise UnknownNameError(
            f"unknown operator {name!r}.", fix=suggest(name, OPS.definitions)
        )
    return name


# ---- variables and blocks --------------------------------------------------------------------


def _others(
    main: Place, within: bool, enters: Callable[[Place], bool], query: Query
) -> Iterator[Handle]:
    name_matches = _pattern(query.name)
    types = None if query.type is None else _pattern_of_any(_texts(query.type, "type"))
    for handle in _handles(main, within, enters, query.kind):
        if name_matches and not (name_matches(handle.name) or name_matches(handle.path)):
            continue
        if types is None or _has_type(types, handle):
            yield handle


def _handles(
    place: Place, within: bool, enters: Callable[[Place], bool], kind: str
) -> Iterator[Handle]:
    """Yield the variables, blocks or parameters of a block and the blocks in it, in order."""
    if within and kind != "blocks":
        infos = (v for v in place.body.vars.values() if v.name not in place.makers)
        names = (v.name for v in infos if kind == "variables" or v.kind == PARAMETER)
        yield from (variable_handle(place, name) for name in names)
    for op in place.body.ops if kind == "variables" else place.owners.values():
        if within and kind == "variables":
            yield from (variable_handle(place, n) for n in op.binds() if n in place.body.vars)
        for inner in place.inner(op).values() if op.name in place.owners else ():
            if within and kind == "blocks":
                yield block_handle(inner)
            yield from _handles(inner, within or enters(inner), enters, kind)


def _has_type(matches: Matcher, handle: Handle) -> object:
    """Return whether a type matches: of a variable the text, as `f32[b,8]`, or the dtype."""
    text = str(handle.type)
    return matches(text) or (handle.kind == VARIABLE and matches(text.partition("[")[0]))


# ---- conditions ------------------------------------------------------------------------------


def _block_condition(main: Place, inside: Named | None) -> tuple[Callable[[Place], bool], bool]:
    """Return the condition on the outermost blocks to search, and whether block 0 is one.

    Raises:
        UnknownNameError: If `inside` has no wildcards, and no block has this name.
    """
    if inside is None:
        return (lambda _: True), True
    if isinstance(inside, Handle | Selection):
        keys = {key for handle in _each(inside) for key in _block_keys(main, handle)}
        return (lambda place: place.chain in keys), False
    (text,) = _texts(inside, "inside")
    matches = _pattern_of_any((text,))

    def enters(place: Place) -> bool:
        assert place.owner is not None
        owner = place.path.removesuffix(f"/{place.label}")
        return any(map(matches, (place.owner.name, owner, place.path)))

    blocks = (place for place in main.walk() if place.owner is not None)
    if not _has_wildcards(text) and not any(map(enters, blocks)):
        raise _unknown_block(main, text)
    return enters, False


def _unknown_block(main: Place, text: str) -> UnknownNameError:
    owners = {p.owner.name for p in main.walk() if p.owner is not None}
    paths = {p.path for p in main.walk() if p.owner is not None}
    if text in main.order or text in main.body.vars:
        return UnknownNameError(
            f"`{text}` has no blocks.", fix="Pass an operator with blocks to inside=."
        )
    return UnknownNameError(
        f"unknown block or operator with blocks `{text}`.", fix=suggest(text, owners | paths)
    )


def _block_keys(main: Place, handle: Handle) -> Iterator[Chain]:
    current = resolve(main, handle)
    if isinstance(current.content, Place):
        yield current.content.chain
    elif not current.blocks:
        raise UnknownNameError(
            f"`{current.path}` has no blocks.", fix="Pass an operator with blocks to inside=."
        )
    for block in current.blocks:
        yield (*block.chain, (current.name, block.name))


def _variables(main: Place, named: Named, argument: str) -> Iterator[tuple[Place, str]]:
    """Yield the variables of a name, path, pattern or handle, with the blocks that bind them.

    Raises:
        UnknownNameError: If a name without wildcards does not exist.
    """
    if isinstance(named, Handle | Selection):
        keys = {(v.chain, v.name) for handle in _each(named) for v in _values(main, handle)}
        yield from ((p, n) for p in main.walk() for n in p.body.vars if (p.chain, n) in keys)
        return
    (text,) = _texts(named.name if isinstance(named, Var) else named, argument)
    matches = _pattern_of_any((text,))
    variables = [(p, n) for p in main.walk() for n in p.body.vars if _is_named(matches, p, n)]
    if not variables and not _has_wildcards(text):
        raise unknown_path(main, text, VARIABLE)
    yield from variables


def _each(named: Handle | Selection) -> Iterable[Handle]:
    return (named,) if isinstance(named, Handle) else named


def _values(main: Place, handle: Handle) -> Selection:
    if handle.kind == BLOCK:
        raise ProgramError(
            f"expected variables or operators, got the block `{handle.path}`.",
            fix="Pass inside= to search in a block.",
        )
    return resolve(main, handle).outputs


# ---- patterns --------------------------------------------------------------------------------


def _texts(value: Any, argument: str) -> tuple[str, ...]:
    """Return one or several names as a tuple.

    Raises:
        ProgramError: If a name is not a string.
    """
    several = argument == "type" and not isinstance(value, str)
    texts = (elements_of(value) if several else None) or [value]
    for text in texts:
        if not isinstance(text, str):
            raise ProgramError(
                f"expected a name for `{argument}`, got {text!r:.80}.",
                fix=f'Pass a string, as {argument}="matmul"; `*` matches any characters.',
            )
    return tuple(texts)


def _has_wildcards(text: str) -> bool:
    return "*" in text or "?" in text


def _pattern(text: str | None) -> Matcher | None:
    return None if text is None else _pattern_of_any(_texts(text, "name"))


@lru_cache(maxsize=64)
def _pattern_of_any(texts: tuple[str, ...]) -> Matcher:
    """Return the test for patterns: `*` matches any characters, `/` included, `?` one."""
    if not any(map(_has_wildcards, texts)):
        return frozenset(texts).__contains__
    escaped = (re.escape(text).replace(r"\*", ".*").replace(r"\?", ".") for text in texts)
    return re.compile("|".join(escaped), re.DOTALL).fullmatch
