"""`braces params FILE`: the persistable variables."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

from braces.cli.common.command import YES, Command, declare
from braces.cli.common.program_files import Content, read_file
from braces.cli.common.program_tree import sizes
from braces.cli.common.terminal import Style
from braces.report import columns, in_bytes


def _arguments(parser: ArgumentParser) -> None:
    declare(parser, "file FILE  a model, safetensors file or program; - is standard input")
    declare(parser, "--json  print JSON")


def _run(options: Namespace) -> int:
    rows = list(parameters_of(read_file(options.file)))
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(_lines(rows, Style(sys.stdout))))
    return YES


def parameters_of(content: Content) -> Iterator[dict[str, Any]]:
    """Yield name, type, kind and size of each variable, as stored or else as declared."""
    # The startup program is last; its declarations have the lowest precedence.
    programs = reversed(list(content.programs.values()))
    declared = {i.name: i for program in programs for i in program.persistable_infos}
    types = dict(content.arrays) or {name: info.type for name, info in declared.items()}
    for name, type_ in types.items():
        info = declared.get(name)
        yield {
            "name": name,
            "kind": info.kind if info else "array",
            "trainable": bool(info and info.trainable),
            "type": str(type_),
            **sizes(type_),
        }


def _lines(rows: list[dict[str, Any]], style: Style) -> Iterator[str]:
    if rows:
        cells = [
            [row["name"], _kind(row), row["type"], in_bytes(row.get("bytes", 0))]
            for row in rows
        ]
        yield from columns(cells, right=(3,))
    numbers = sum(row.get("numbers", 0) for row in rows)
    total_bytes = sum(row.get("bytes", 0) for row in rows)
    yield style.dim(f"{len(rows)} variables, {numbers:,} numbers, {in_bytes(total_bytes)}")


def _kind(row: dict[str, Any]) -> str:
    frozen = row["kind"] == "parameter" and not row["trainable"]
    return "parameter, frozen" if frozen else row["kind"]


COMMAND = Command(
    "params",
    "list parameters and states with types and sizes",
    "braces params demo/digits.model",
    _arguments,
    _run,
)
