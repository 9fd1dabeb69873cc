"""A program as plain lists and dictionaries: what the page draws.

    payload   := title, programs: [{name, block, updates: [[persistable, value]…]}…],
                 blocks: block*, docs: operator type -> text, curve: name -> numbers
    block     := params, results, vars: name -> [type, kind, trainable], ops: op*
    op        := t: type, n: name, i: slots, o: slots, a: attributes, s: source, k: kind,
                 b: [[label, number of the block]…]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from braces.ir.program import Program
from braces.ir.records import Body, Op, ProgramDef
from braces.ops.define import OPS
from braces.viewer.values import plain_attrs

Curve: TypeAlias = "Mapping[str, Sequence[float]]"
"""Name of a measure, as `loss`, to its value after each epoch."""


def payload(program: Program, title: str, curve: Curve | None = None) -> dict[str, Any]:
    """All that the page shows of a program."""
    blocks: list[dict[str, Any]] = []
    programs = [_program("program", program.definition, blocks)]
    if program.persistables:
        programs.append(_program("startup", program.startup.definition, blocks))
    types = (op["t"] for block in blocks for op in block["ops"])
    return {
        "title": title,
        "programs": programs,
        "blocks": blocks,
        "docs": documentation(types),
        "curve": {name: [float(one) for one in values] for name, values in (curve or {}).items()},
    }


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
        "vars": {n: [str(v.type), v.kind, v.trainable] for n, v in body.vars.items()},
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
        "s": str(op.source) if op.source else "",
        "b": [[label, _block(body, blocks)] for label, body in op.bodies().items()],
    }


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
