"""Paths of operators, variables and blocks, as errors, reports and pages show them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from braces.errors import UnknownNameError, close_names, suggest
from braces.ir.lineage import Key
from braces.ir.places import Place
from braces.ir.records import Op, ProgramDef, VarInfo

OPERATOR, VARIABLE, BLOCK = "operator", "variable", "block"
_ITERATION = r"(\[\d+\])?"
"""The number of an iteration after a label, as in `loop_0/body[2]`: paths of runs have it."""


class Located(NamedTuple):
    """An operator, a variable or a block at its place.

    Attributes:
        kind: `operator`, `variable` or `block`.
        place: The block that contains it.
        name: The name in its block; for a block its label, as `body` or `cases[0]`.
        content: The operator, the declaration, or the block at its own place.
    """

    kind: str
    place: Place
    name: str
    content: Op | VarInfo | Place

    @property
    def path(self) -> str:
        """The path, as `loop_0/body/act`."""
        inner = self.content
        return inner.path if isinstance(inner, Place) else self.place.path_of(self.name)

    @property
    def key(self) -> Key:
        """Kind, blocks and name, which identify it in all versions of a program."""
        inner = self.content
        if isinstance(inner, Place):
            return self.kind, inner.chain, ""
        return self.kind, self.place.chain, self.name


def label_without_number(label: str, op: Op) -> str:
    """Return the label of a block of an operator from one of a run, as `body[2]`.

    Cases have no numbers, because each runs at most once: `cases[1]`.
    """
    return label if label in op.bodies() else label.rpartition("[")[0]


def operator_at(place: Place, op: Op) -> Located:
    """Return an operator of a block at its place."""
    return Located(OPERATOR, place, op.name, op)


def variable_at(place: Place, name: str) -> Located:
    """Return a variable that a block binds at its place."""
    return Located(VARIABLE, place, name, place.body.vars[name])


def block_at(place: Place) -> Located:
    """Return a block that an operator owns at its place."""
    assert place.outer is not None
    return Located(BLOCK, place.outer, place.label, place)


def locate(program: ProgramDef | Place, path: str, kind: str | None = None) -> Located:
    """Return the operator, variable or block at a path.

    Names of operators may contain `/`, so the path is followed block by block. An operator
    precedes the variable of the same name. Iteration numbers, as in `loop_0/body[2]/act`, are
    ignored.

    Args:
        program: The program, or its block 0 with indices.
        path: A path, as `loop_0/body/act`.
        kind: `operator`, `variable` or `block`, to find only these.

    Raises:
        UnknownNameError: If there is none; the message has similar paths.
    """
    located = find_path(program, path, kind)
    if located is None:
        raise unknown_path(Place.main(program), path, kind)
    return located


def find_path(
    program: ProgramDef | Place, path: str, kind: str | None = None
) -> Located | None:
    """Return the operator, variable or block at a path; `None` if there is none."""
    return next(_at(Place.main(program), path, kind), None)


def locate_again(program: ProgramDef | Place, key: Key) -> Located | None:
    """Return the operator, variable or block with this key; `None` if there is none."""
    kind, chain, name = key
    place: Place | None = Place.main(program)
    for owner_name, label in chain:
        owner = place.op(owner_name) if place else None
        place = place.inner(owner).get(label) if place and owner else None
    if place is None or kind == BLOCK:
        return block_at(place) if place and place.outer else None
    if kind == VARIABLE:
        return variable_at(place, name) if name in place.body.vars else None
    op = place.op(name)
    return operator_at(place, op) if op else None


class Findable(Protocol):
    """An operator, a variable or a block in a version of a program: `Located`, or a handle."""

    @property
    def kind(self) -> str:
        """`operator`, `variable` or `block`."""
        ...

    @property
    def place(self) -> Place:
        """The block that contains it."""
        ...

    @property
    def path(self) -> str:
        """Its path in that version."""
        ...

    @property
    def key(self) -> Key:
        """Its key in that version."""
        ...


def follow(program: ProgramDef | Place, handle: Findable) -> Located | None:
    """Return the place in this version of a handle of another one; `None` if it is gone."""
    main = Place.main(program)
    origin = handle.place.definition.lineage
    return locate_again(main, main.definition.lineage.follow(origin, handle.key))


def current_path(program: ProgramDef | Place, handle: Findable) -> str:
    """Return the path in this version of a handle of another one.

    Raises:
        UnknownNameError: If the operator, variable or block does not exist any more.
    """
    located = follow(program, handle)
    if located is None:
        raise unknown_path(Place.main(program), handle.path, handle.kind)
    return located.path


def _at(place: Place, rest: str, kind: str | None) -> Iterator[Located]:
    """Yield everything at a path from a block on: names of this block first."""
    op = place.op(rest) if kind in (None, OPERATOR) else None
    if op is not None:
        yield operator_at(place, op)
    if kind in (None, VARIABLE) and rest in place.body.vars:
        yield variable_at(place, rest)
    for inner, below in _entered(place, rest):
        if below:
            yield from _at(inner, below, kind)
        elif kind in (None, BLOCK):
            yield block_at(inner)


def _entered(place: Place, rest: str) -> Iterator[tuple[Place, str]]:
    """Yield each block of this one that a path enters, with the remaining path."""
    for op in place.owners.values():
        if rest.startswith(f"{op.name}/"):
            for label, inner in place.inner(op).items():
                head = re.escape(f"{op.name}/{label}") + _ITERATION + r"(?:/(?P<below>.+)|$)"
                match = re.match(head, rest, re.DOTALL)
                if match:
                    yield inner, match["below"] or ""


def unknown_path(main: Place, path: str, kind: str | None = None) -> UnknownNameError:
    """Return the error for a path of nothing: with full paths of that name, or similar ones.

    An operator or a block in place of a variable is an error with its values.
    """
    located = find_path(main, path) if kind == VARIABLE else None
    if located is not None:
        return not_a_value(located)
    paths = list(dict.fromkeys(located.path for located in everything(main, kind)))
    deeper = [p for p in paths if p.endswith(f"/{path}")]
    what = kind or "operator, variable or block"
    return UnknownNameError(f"unknown {what} `{path}`.", fix=_path_fix(path, paths, deeper))


def not_a_value(located: Located) -> UnknownNameError:
    """Return the error for an operator or a block in place of one of its values."""
    place, content, what = located.place, located.content, "a block"
    values, inner = list[str](), list[Place]()
    if isinstance(content, Place):
        inner = [content]
    if isinstance(content, Op):
        what = f"an operator ({content.type})"
        values = [place.path_of(name) for name in content.binds()]
        inner = list(place.inner(content).values())
    for block in inner:
        names = dict.fromkeys((*block.body.results, *block.body.vars))
        values += [block.path_of(name) for name in names if name in block.body.vars]
    return UnknownNameError(
        f"`{located.path}` is {what}, not a value.",
        given=f"its values: {_listed(values, 8)}" if values else "it has no values",
        fix=f"Pass the path of one of them, as {values[0]!r}." if values else None,
    )


def _listed(paths: list[str], most: int) -> str:
    shown = ", ".join(f"`{path}`" for path in paths[:most])
    return shown + (f" and {len(paths) - most} more" if len(paths) > most else "")


def _path_fix(path: str, paths: list[str], deeper: list[str]) -> str:
    if deeper:
        return f"Pass the full path: {_listed(deeper, 3)}."
    block = path.rpartition("/")[0]
    beside = [p for p in paths if block and p.startswith(f"{block}/")]
    return suggest(path, beside if close_names(path, beside) else paths)


def fix_by_probe(program: ProgramDef, name: str) -> str | None:
    """Return the fix for a name or path of a variable of an inner block; `None` for others."""
    variables = everything(Place.main(program), VARIABLE)
    paths = (located.path for located in variables if located.place.outer is not None)
    path = next((path for path in paths if f"/{path}".endswith(f"/{name}")), None)
    if path is None:
        return None
    return f"It is in an inner block: prog.probe({path!r}) makes it one of the main block."


def everything(main: Place, kind: str | None = None) -> Iterator[Located]:
    """Yield all operators, variables and blocks of a program, block by block."""
    for place in main.walk():
        if place.outer is not None and kind in (None, BLOCK):
            yield block_at(place)
        if kind in (None, OPERATOR):
            yield from (operator_at(place, op) for op in place.body.ops)
        if kind in (None, VARIABLE):
            yield from (variable_at(place, name) for name in place.body.vars)
