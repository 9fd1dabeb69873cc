"""`braces diff A B`: the changes from one program to another."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from braces.cli.common.command import NO, YES, Command, declare
from braces.cli.common.program_files import Content, read_file
from braces.cli.common.program_selection import select_program, shown_name
from braces.cli.common.terminal import Style
from braces.errors import FileFormatError
from braces.ir.fingerprint import fingerprint
from braces.program import Program
from braces.storage.model import PREDICT, STARTUP, TRAIN
from braces.surgery.diff import change_lines, diff
from braces.surgery.program_diff import ADDED, REMOVED, Change

MODEL = "model"
_COLOURS = {"added": "blue", "removed": "red"}


_USAGE = """\
a A             a program or model; - is standard input
b B             the program or model to compare with A
--program NAME  the program of a model to compare with a single program (default: the one
                that is equal; otherwise train for a program with updates, else predict)
--json          print JSON
"""


def _arguments(parser: ArgumentParser) -> None:
    declare(parser, _USAGE)


def _run(options: Namespace) -> int:
    left, right = _match_programs(read_file(options.a), read_file(options.b), options.program)
    changes = dict(_changes(left, right))
    if options.json:
        data = {
            name: [asdict(item) for item in differences]
            for name, differences in changes.items()
        }
        print(json.dumps({"same": not any(changes.values()), "programs": data}, indent=2))
    else:
        for line in _lines(
            changes, f"{shown_name(options.a)} and {shown_name(options.b)}", Style(sys.stdout)
        ):
            print(line)
    return NO if any(changes.values()) else YES


def _match_programs(
    left: Content, right: Content, name: str | None
) -> tuple[dict[str, Program], dict[str, Program]]:
    """Return the programs to compare; a single program is matched with one of a model."""
    if left.kind == MODEL and right.kind != MODEL:
        return _match_single(left, _programs_of(right), name)
    if right.kind == MODEL and left.kind != MODEL:
        new, old = _match_single(right, _programs_of(left), name)
        return old, new
    return _programs_of(left), _programs_of(right)


def _match_single(
    model: Content, single: dict[str, Program], name: str | None
) -> tuple[dict[str, Program], dict[str, Program]]:
    """Match a single program with one of a model; both get the model's names."""
    program = single.pop("program")
    name = name or _nearest_program(model.programs, program)
    chosen = {name: select_program(model, name).program}
    if STARTUP in single and STARTUP in model.programs:
        chosen[STARTUP] = model.programs[STARTUP]
        return chosen, {name: program, STARTUP: single[STARTUP]}
    return chosen, {name: program}


def _nearest_program(programs: Mapping[str, Program], program: Program) -> str:
    target = fingerprint(program)
    same = [name for name, candidate in programs.items() if fingerprint(candidate) == target]
    return next(iter(same), TRAIN if program.updates and TRAIN in programs else PREDICT)


def _programs_of(content: Content) -> dict[str, Program]:
    """Return the programs by name; for a program file, its startup program too."""
    if not content.programs:
        raise FileFormatError("the file has arrays, and no programs.")
    programs_by_name = dict(content.programs)
    if content.kind == "program" and programs_by_name["program"].startup.vars:
        programs_by_name[STARTUP] = programs_by_name["program"].startup
    return programs_by_name


def _changes(
    left: dict[str, Program], right: dict[str, Program]
) -> Iterator[tuple[str, list[Change]]]:
    """Yield the changes of each program; single programs are compared despite their names."""
    if len(left) == len(right) == 1:
        (name, old), (new,) = *left.items(), right.values()
        yield name, list(diff(old, new).changes)
        return
    for name in dict.fromkeys([*left, *right]):
        if name in left and name in right:
            yield name, list(diff(left[name], right[name]).changes)
        else:
            how = REMOVED if name in left else ADDED
            yield name, [Change(how, "", f"program {name}")]


def _lines(changes: dict[str, list[Change]], names: str, style: Style) -> Iterator[str]:
    if not any(changes.values()):
        yield f"{names} are equivalent."
        return
    for name, differences in changes.items():
        if len(changes) > 1 and differences:
            yield style.bold(name)
        for kind, line in change_lines(differences):
            if kind == "block":
                yield style.dim(line)
            else:
                text = f"  {line}"
                colour = _COLOURS.get(kind, "bold")
                yield text if kind == "detail" else style.paint(text, colour)


COMMAND = Command(
    "diff",
    "list the differences between two programs, by block and operator",
    "braces diff old.braces new.braces",
    _arguments,
    _run,
)
