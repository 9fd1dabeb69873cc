"""A program as plain lists and dictionaries: the data of the page.

payload   := title, facts, programs: [{name, block, updates: [[persistable, value]…]}…],
             blocks: block*, docs: operator type -> text
block     := params, results, vars: name -> [type, kind, trainable], ops: op*,
             m: variable -> mark
op        := t: type, n: name, k: kind, m: mark of a comparison or search,
             p: phase of an operator of the main block that is not forward, or `metrics`,
             i: slots, o: slots, s: source,
             a: attributes, d: names of those that have their default value,
             b: [[label, number of the block]…]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from braces.builder.builder import Builder
from braces.define.core.attribute_kinds import normalise
from braces.define.decorator import OPS
from braces.dtypes import TensorType, Type
from braces.ir.files.bounded_read import stored_path
from braces.ir.records import PARAMETER, VALUE, Body, Op, ProgramDef
from braces.ir.walk import all_bodies
from braces.notebook import line_text
from braces.passes.analysis.metric_parts import metric_parts
from braces.passes.analysis.phases import FORWARD, phases
from braces.report import count_text
from braces.viewer.value_text import attribute_text, plain_attrs

Marks: TypeAlias = "Mapping[tuple[str, str], str]"
"""The mark of an operator or variable, as `added`, by the path of its block and its name."""
NO_MARKS: Marks = {}
METRICS = "metrics"
"""The part of a page that has the operators of all metrics."""


def payload(program: Builder, title: str, marks: Marks = NO_MARKS) -> dict[str, Any]:
    """Return the data of a program that the page shows, with marked operators and variables."""
    blocks: list[dict[str, Any]] = []
    programs = [_program("program", program.definition, blocks)]
    _add_phases(blocks[programs[0]["block"]], program.definition)
    _add_marks(blocks, programs[0]["block"], "", marks)
    if program.persistable_infos:
        programs.append(_program("startup", program.startup.definition, blocks))
    types = (op["t"] for block in blocks for op in block["ops"])
    return {
        "title": title,
        "facts": size_summary(program),
        "programs": programs,
        "blocks": blocks,
        "docs": documentation(types),
    }


def _add_phases(block: Any, definition: ProgramDef) -> None:
    """Add the phases of operators after the forward part, which the page folds."""
    phase_of = phases_and_metrics(definition)
    for op in block["ops"]:
        if phase_of[op["n"]] != FORWARD:
            op["p"] = phase_of[op["n"]]


def phases_and_metrics(definition: ProgramDef) -> dict[str, str]:
    """Return the phase of each operator of the main block by name; `METRICS` for metrics."""
    main = definition.main
    parts = metric_parts(main.ops, main.vars, main.results)
    return {**phases(definition), **dict.fromkeys(parts, METRICS)}


def pair_payload(
    programs: tuple[Builder, Builder], marks: Sequence[Marks], title: str
) -> dict[str, Any]:
    """Return the data of a page that shows two programs side by side, with marked operators."""
    blocks: list[dict[str, Any]] = []
    records = [
        _program(name, program.definition, blocks)
        for name, program in zip(("before", "after"), programs, strict=True)
    ]
    for record, of_program in zip(records, marks, strict=True):
        _add_marks(blocks, record["block"], "", of_program)
    return {
        "title": title,
        "facts": "before: {} – after: {}".format(*map(size_summary, programs)),
        "beside": True,
        "programs": records,
        "blocks": blocks,
        "docs": documentation(op["t"] for block in blocks for op in block["ops"]),
    }


def _add_marks(blocks: Sequence[dict[str, Any]], number: int, path: str, marks: Marks) -> None:
    declared = (name for name, (_, kind, _) in blocks[number]["vars"].items() if kind != VALUE)
    marked = {name: marks[path, name] for name in declared if (path, name) in marks}
    if marked:
        blocks[number]["m"] = marked
    for op in blocks[number]["ops"]:
        if (path, op["n"]) in marks:
            op["m"] = marks[path, op["n"]]
        for label, inner in op["b"]:
            _add_marks(blocks, inner, f"{path}/{op['n']}/{label}".lstrip("/"), marks)


def size_summary(program: Builder) -> str:
    """Return the size of a program in one line."""
    blocks = list(all_bodies(program.definition.main))
    ops = sum(len(body.ops) for body, _ in blocks)
    parts = [count_text(ops, "operator"), count_text(len(blocks), "block")]
    parameters = [info for info in program.persistable_infos if info.kind == PARAMETER]
    if parameters:
        numbers = sum(numbers_in(info.type) for info in parameters)
        parts.append(f"{count_text(len(parameters), 'parameter')} ({numbers:,} numbers)")
    return " · ".join(parts)


def numbers_in(type_: Type) -> int:
    """Return the number of elements of a tensor; 0 if a size is unknown."""
    sizes = type_.shape if isinstance(type_, TensorType) else (0,)
    return math.prod(size if isinstance(size, int) else 0 for size in sizes)


def _program(name: str, definition: ProgramDef, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "block": _block(definition.main, blocks),
        "updates": list(definition.updates.items()),
    }


def _block(body: Body, blocks: list[dict[str, Any]]) -> int:
    """Append a block and its nested blocks; return its index."""
    record: dict[str, Any] = {
        "params": body.params,
        "results": body.results,
        "vars": {n: [v.shown_type, v.kind, v.trainable] for n, v in body.vars.items()},
    }
    blocks.append(record)
    number = len(blocks) - 1
    record["ops"] = [_op(op, blocks) for op in body.ops]
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
    """Return the user's line that created an operator, without machine-specific folders."""
    return line_text(stored_path(op.source.file), op.source.line) if op.source else ""


def defaults_in(op: Op) -> list[str]:
    """Return the names of attributes with their default values."""
    definition = OPS.find(op.type)
    specs = () if definition is None else definition.attrs
    default_texts = {
        s.name: attribute_text(normalise(s.kind, s.default)) for s in specs if not s.required
    }
    return [name for name, text in plain_attrs(op) if default_texts.get(name) == text]


def kind_of(op: Op) -> str:
    """Return the drawing style of an operator: `control`, `gradient`, `random` or `plain`."""
    if op.bodies():
        return "control"
    if op.type.endswith((".vjp", ".jvp")):
        return "gradient"
    definition = OPS.definitions.get(op.type)
    return "random" if definition is not None and definition.random else "plain"


def documentation(types: Iterable[str]) -> dict[str, str]:
    """Return the documentation of operator types; a derived type includes its base."""
    return {type_: text for type_ in sorted(set(types)) if (text := _doc(type_))}


def _doc(type_: str) -> str:
    definition, base = OPS.find(type_), OPS.find(type_.partition(".")[0])
    if definition is None:
        return ""
    if base is None or base is definition:
        return definition.doc
    return f"{definition.doc}\n\n{base.type}: {base.doc}"
