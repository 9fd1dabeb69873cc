"""A program as plain lists and dictionaries: what the page draws.

payload   := title, facts, programs: [{name, block, updates: [[persistable, value]…]}…],
             blocks: block*, docs: operator type -> text
block     := params, results, vars: name -> [type, kind, trainable], ops: op*
op        := t: type, n: name, k: kind, i: slots, o: slots, s: source,
             a: attributes, d: names of those that have their default value,
             b: [[label, number of the block]…]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from braces.builder.builder import Builder
from braces.define.core.attribute_kinds import normalise
from braces.define.decorator import OPS
from braces.dtypes import TensorType, Type
from braces.ir.files.bounded_read import stored_path
from braces.ir.records import PARAMETER, Body, Op, ProgramDef
from braces.ir.walk import all_bodies
from braces.viewer.value_text import plain_attrs, shown


def payload(program: Builder, title: str) -> dict[str, Any]:
    """All that the page shows of a program."""
    blocks: list[dict[str, Any]] = []
    programs = [_program("program", program.definition, blocks)]
    if program.persistable_infos:
        programs.append(_program("startup", program.startup.definition, blocks))
    types = (op["t"] for block in blocks for op in block["ops"])
    return {
        "title": title,
        "facts": facts(program),
        "programs": programs,
        "blocks": blocks,
        "docs": documentation(types),
    }


def facts(program: Builder) -> str:
    """How large a program is, in one line."""
    blocks = list(all_bodies(program.definition.main))
    ops = sum(len(body.ops) for body, _ in blocks)
    parts = [counted(ops, "operator"), counted(len(blocks), "block")]
    parameters = [info for info in program.persistable_infos if info.kind == PARAMETER]
    if parameters:
        numbers = sum(numbers_in(info.type) for info in parameters)
        parts.append(f"{counted(len(parameters), 'parameter')} ({numbers:,} numbers)")
    return " · ".join(parts)


def counted(count: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def numbers_in(type_: Type) -> int:
    """How many numbers a tensor of fixed sizes holds; 0 where they are not known."""
    sizes = type_.shape if isinstance(type_, TensorType) else (0,)
    return math.prod(size if isinstance(size, int) else 0 for size in sizes)


def _program(name: str, definition: ProgramDef, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "block": _block(definition.main, blocks),
        "updates": list(definition.updates.items()),
    }


def _block(body: Body, blocks: list[dict[str, Any]]) -> int:
    """Append a block and those in it; returns its number."""
    made: dict[str, Any] = {
        "params": body.params,
        "results": body.results,
        "vars": {n: [v.shown_type, v.kind, v.trainable] for n, v in body.vars.items()},
    }
    blocks.append(made)
    number = len(blocks) - 1
    made["ops"] = [_op(op, blocks) for op in body.ops]
    return number


def _op(op: Op, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "t": op.type,
        "n": op.name,
        "k": kind_of(op),
        "i": dict(op.inputs),
        "o": dict(op.outputs),
        "a": dict(plain_attrs(op)),
        "d": defaults_in(op),
        "s": source_line(op),
        "b": [[label, _block(body, blocks)] for label, body in op.bodies().items()],
    }


def source_line(op: Op) -> str:
    """The user's line that made an operator, without the folders of this machine."""
    return f"{stored_path(op.source.file)}:{op.source.line}" if op.source else ""


def defaults_in(op: Op) -> list[str]:
    """The attributes that say no more than their definition does."""
    definition = OPS.find(op.type)
    specs = () if definition is None else definition.attrs
    usual = {s.name: shown(normalise(s.kind, s.default)) for s in specs if not s.required}
    return [name for name, text in plain_attrs(op) if usual.get(name) == text]


def kind_of(op: Op) -> str:
    """What an operator is drawn as: `control`, `gradient`, `random` or `plain`."""
    if op.bodies():
        return "control"
    if op.type.endswith((".vjp", ".jvp")):
        return "gradient"
    definition = OPS.definitions.get(op.type)
    return "random" if definition is not None and definition.random else "plain"


def documentation(types: Iterable[str]) -> dict[str, str]:
    """The documentation of operator types; a derived operator has that of its base below."""
    return {type_: text for type_ in sorted(set(types)) if (text := _doc(type_))}


def _doc(type_: str) -> str:
    definition, base = OPS.find(type_), OPS.find(type_.partition(".")[0])
    if definition is None:
        return ""
    if base is None or base is definition:
        return definition.doc
    return f"{definition.doc}\n\n{base.type}: {base.doc}"
