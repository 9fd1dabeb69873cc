"""A program as a fragment of HTML for notebooks: no script, nothing loaded, bounded in size."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping

from braces.builder.program import Builder
from braces.ir.records import Body, Op, VarInfo
from braces.viewer.payload import counted, defaults_in, facts, source_line
from braces.viewer.values import plain_attrs

LARGEST = 150_000
"""Characters of rows; what comes after is left out, and the fragment says so."""
LONGEST_ROW = 600
OPEN_UP_TO = 40
"""Blocks with more operators begin closed."""

_STYLE = {
    "box": "border:1px solid #8885;border-left:3px solid #8a4fbf99;border-radius:6px;"
    "padding:2px 8px;margin:2px 0 2px 18px",
    "row": "white-space:pre-wrap;overflow-wrap:anywhere",
    "font": "font:12px/1.5 ui-monospace,'DejaVu Sans Mono',monospace",
}


def fragment(program: Builder) -> str:
    """The nested blocks of a program as `<details>`, escaped, at most 200 kB."""
    room, pieces = LARGEST, list[str]()
    for piece, closing in _main(program):
        room -= len(piece)
        if closing or room >= 0:
            pieces.append(piece)
    if room < 0:
        pieces.append("<div>… and more; program.to_html(path) shows all.</div>")
    return f'<div style="{_STYLE["font"]}">{"".join(pieces)}</div>'


def _main(program: Builder) -> Iterator[tuple[str, bool]]:
    """Pieces of HTML; those that end what others began must not be left out."""
    main = program.definition.main
    yield _row(f"program: {facts(program)}"), False
    declared = (
        info for info in main.vars.values() if info.kind in ("data", "parameter", "state")
    )
    for info in declared:
        yield _row(f"{info.kind} {info.name}: {info.type}"), False
    for op in main.ops:
        yield from _op(op, main.vars)
    for name, value in program.definition.updates.items():
        yield _row(f"update {name} = {value}"), False


def _op(op: Op, infos: Mapping[str, VarInfo]) -> Iterator[tuple[str, bool]]:
    yield _row(_line(op, infos)), False
    for label, body in op.bodies().items():
        yield from _block(f"{op.name} {label}", body)


def _block(label: str, body: Body) -> Iterator[tuple[str, bool]]:
    state = " open" if len(body.ops) <= OPEN_UP_TO else ""
    params = ", ".join(
        f"{name}: {body.vars[name].type}" for name in body.params if name in body.vars
    )
    title = f"{label} ({params}) – {counted(len(body.ops), 'operator')}"
    summary = f"<summary>{html.escape(_short(title))}</summary>"
    yield f'<details{state} style="{_STYLE["box"]}">{summary}', True
    for op in body.ops:
        yield from _op(op, body.vars)
    yield _row(f"return {', '.join(body.results)}") if body.results else "", False
    yield "</details>", True


def _line(op: Op, infos: Mapping[str, VarInfo]) -> str:
    outs = ", ".join(f"{n}: {infos[n].type}" if n in infos else n for n in op.binds())
    given = ", ".join(f"{slot}={', '.join(names)}" for slot, names in op.inputs.items())
    usual = defaults_in(op)
    attrs = " ".join(f"{n}={value}" for n, value in plain_attrs(op) if n not in usual)
    source = f"  # {source_line(op)}" if op.source else ""
    return f"{outs} = {op.type}({given}) {_short(attrs)}{source}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_ROW else f"{text[:LONGEST_ROW]}…"


def _row(text: str) -> str:
    clean = _short(text).encode(errors="replace").decode()
    return f'<div style="{_STYLE["row"]}">{html.escape(clean)}</div>'
