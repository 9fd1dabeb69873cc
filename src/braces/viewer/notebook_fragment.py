"""A program as an HTML fragment for notebooks: no script, no loads, bounded in size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from braces.builder.builder import Builder
from braces.ir.records import DATA, PARAMETER, STATE, Body, Op, VarInfo
from braces.notebook import (
    END_OF_BOX,
    OPEN_UP_TO,
    Piece,
    join_pieces,
    open_box,
    shorten_text,
    text_row,
)
from braces.passes.analysis.phases import FORWARD, PHASES
from braces.report import count_text
from braces.viewer.payload import (
    METRICS,
    defaults_in,
    phases_and_metrics,
    size_summary,
    source_line,
)
from braces.viewer.value_text import plain_attrs


def fragment(program: Builder) -> str:
    """Return the nested blocks of a program as `<details>`, escaped, at most 200 kB."""
    return join_pieces(_main(program), "… and more; program.to_html(path) shows all.")


def block_fragment(label: str, body: Body) -> str:
    """Return a block and its nested blocks as `<details>`."""
    return join_pieces(_block(label, body), "… and more; print(block) shows all.")


def _main(program: Builder) -> Iterator[Piece]:
    """Yield the forward part, and boxes of states, metrics, gradients, optimizer, updates."""
    definition = program.definition
    main, phase_of = definition.main, phases_and_metrics(definition)
    yield text_row(f"program: {size_summary(program)}")
    for kind in (DATA, PARAMETER, STATE):
        infos = [info for info in main.vars.values() if info.kind == kind]
        rows = [text_row(f"{kind} {info.name}: {info.shown_type}") for info in infos]
        is_long = kind == STATE or len(rows) > OPEN_UP_TO
        yield from _folded(count_text(len(rows), kind), rows) if is_long else rows
    for phase in (FORWARD, METRICS, *PHASES[1:]):
        ops = [op for op in main.ops if phase_of[op.name] == phase]
        rows = (piece for op in ops for piece in _op(op, main.vars))
        title = f"{phase} – {count_text(len(ops), 'operator')}"
        yield from rows if phase == FORWARD else _folded(title, list(rows))
        if phase == FORWARD and main.results:
            yield text_row(f"return {', '.join(main.results)}")
    updates = definition.updates.items()
    rows = [text_row(f"update {name} = {value}") for name, value in updates]
    yield from _folded(count_text(len(rows), "next value"), rows)


def _folded(title: str, pieces: list[Piece]) -> Iterator[Piece]:
    """Yield a closed box, or nothing without content."""
    if pieces:
        yield open_box(title, len(pieces), is_folded=True)
        yield from pieces
        yield END_OF_BOX


def _op(op: Op, infos: Mapping[str, VarInfo]) -> Iterator[Piece]:
    yield text_row(_line(op, infos))
    for label, body in op.bodies().items():
        yield from _block(f"{op.name} {label}", body)


def _block(label: str, body: Body) -> Iterator[Piece]:
    params = ", ".join(
        f"{name}: {body.vars[name].type}" for name in body.params if name in body.vars
    )
    title = f"{label} ({params}) – {count_text(len(body.ops), 'operator')}"
    yield open_box(title, len(body.ops))
    for op in body.ops:
        yield from _op(op, body.vars)
    if body.results:
        yield text_row(f"return {', '.join(body.results)}")
    yield END_OF_BOX


def _line(op: Op, infos: Mapping[str, VarInfo]) -> str:
    outs = ", ".join(f"{n}: {infos[n].type}" if n in infos else n for n in op.binds())
    operands = ", ".join(f"{slot}={', '.join(names)}" for slot, names in op.inputs.items())
    default_attrs = defaults_in(op)
    attrs = " ".join(f"{n}={value}" for n, value in plain_attrs(op) if n not in default_attrs)
    source = f"  # {source_line(op)}" if op.source else ""
    return f"{outs} = {op.type}({operands}) {shorten_text(attrs)}{source}"
