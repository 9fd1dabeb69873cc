"""Fingerprint: a hash of the meaning of a program, independent of the names of temporaries.

Two programs with the same fingerprint compute the same results from the same feeds and scope.
The fingerprint does not depend on the names of operators, values and arguments, on source
lines, on the order of slots, attributes and declarations, or on the encoding of a file. It does
depend on everything else: types, names of axes, kinds, attributes, wiring, the names of data
and persistable variables, and the order of parameters and results. The order of operators
counts too, even of independent ones: reordering may change the fingerprint, though never the
meaning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast

import numpy as np

from braces.dims import Dim
from braces.dtypes import short_name
from braces.ir.records import (
    ARGUMENT,
    VALUE,
    Attr,
    Body,
    Literal,
    Op,
    ProgramDef,
    Slots,
    VarInfo,
)

_VERSION = "braces 1"
"""Part of every fingerprint; changes if the meaning of fingerprints changes."""

_FREE = "outside "
"""Prefix of names that nothing binds; no name contains a space."""


class Described(Protocol):
    """An object with a description, such as a program."""

    @property
    def definition(self) -> ProgramDef:
        """The current description of the program."""
        ...


def fingerprint(program: Described | ProgramDef) -> str:
    """Return the SHA-256 of the meaning of a program, as 64 hexadecimal digits.

    Example:
        >>> import braces as br
        >>> a = br.parse("program { data x: f32[]  y: f32[] = tanh(x=x)  return y }")
        >>> b = br.parse("program { data x: f32[]  z: f32[] = tanh(x=x)  return z }")
        >>> br.fingerprint(a) == br.fingerprint(b)
        True
    """
    program = program if isinstance(program, ProgramDef) else program.definition
    numbering = _ValueNumbering()
    names = numbering.bind(program.main, None)
    main = numbering.body(program.main, names)
    updates = [[target, names[value]] for target, value in program.updates.items()]
    canonical_json = json.dumps([_VERSION, main, sorted(updates)], separators=(",", ":"))
    return hashlib.sha256(canonical_json.encode("ascii")).hexdigest()


def canonical_names(program: ProgramDef) -> dict[str, str]:
    """Return the names of the variables of the main block in the fingerprint.

    Programs with the same fingerprint give the same canonical name to the same value. Caches
    keyed by fingerprint must therefore use these names.

    Example:
        >>> from braces.ir.text.parser import parse_program
        >>> canonical_names(parse_program("program { data x: f32[]  y: f32[] = tanh(x=x) }"))
        {'x': 'x', 'y': '%0'}
    """
    return _ValueNumbering().bind(program.main, None).local


class _Names:
    """Canonical names of the variables visible in a block."""

    def __init__(self, outside: _Names | None) -> None:
        self.outside = outside
        self.local: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        scope: _Names | None = self
        while scope is not None:
            if name in scope.local:
                return scope.local[name]
            scope = scope.outside
        return _FREE + name

    def all(self, names: Iterable[str]) -> list[str]:
        return [self[name] for name in names]


class _ValueNumbering:
    """Numbers values and arguments in the order in which they are bound."""

    def __init__(self) -> None:
        self.count = 0

    def bind(self, body: Body, outside: _Names | None) -> _Names:
        """Return the canonical names of all variables visible in a block."""
        names = _Names(outside)
        names.local = {name: name for name in body.vars}
        for name in (*body.params, *(name for op in body.ops for name in _binds(op))):
            info = body.vars.get(name)
            if names.local.get(name, name) == name and _is_temporary(info):
                names.local[name] = f"%{self.count}"
                self.count += 1
        return names

    def body(self, body: Body, names: _Names) -> list[Any]:
        """Return a block as nested lists that are equal for equal meanings."""
        declared = sorted(
            [names[name], *_declaration(info)] for name, info in body.vars.items()
        )
        return [
            names.all(body.params),
            declared,
            [self.op(op, names) for op in body.ops],
            names.all(body.results),
        ]

    def op(self, op: Op, names: _Names) -> list[Any]:
        attrs = sorted(op.attrs.items())
        return [
            op.type,
            _slots(op.inputs, names),
            _slots(op.outputs, names),
            [[name, self.attr(value, names)] for name, value in attrs],
        ]

    def attr(self, value: Attr, names: _Names) -> list[Any]:
        if isinstance(value, Body):
            return ["block", self.body(value, self.bind(value, names))]
        if isinstance(value, tuple):
            return ["tuple", *(self.attr(item, names) for item in value)]
        return _plain_value(value)


def _binds(op: Op) -> Iterator[str]:
    for _, names in sorted(op.outputs.items()):
        yield from names


def _declaration(info: VarInfo) -> tuple[str, str, bool]:
    return info.kind, info.shown_type, info.trainable


def _is_temporary(info: VarInfo | None) -> bool:
    return info is None or info.kind in (VALUE, ARGUMENT)


def _slots(slots: Slots, names: _Names) -> list[Any]:
    return [[slot, names.all(slot_names)] for slot, slot_names in sorted(slots.items())]


def _plain_value(value: object) -> list[Any]:
    """Return a value without blocks as a list; `1`, `1.0` and `True` differ here."""
    match value:
        case np.dtype():
            return ["dtype", short_name(cast("np.dtype[Any]", value))]
        case float():
            return ["float", value.hex()]
        case Dim():
            return ["size", str(value)]
        case Literal(dtype, shape, data):
            return ["array", short_name(dtype), *shape, hashlib.sha256(data).hexdigest()]
        case _:
            return [type(value).__name__, value]
