"""`braces diff A B`: what changed from one program to another."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from braces.cli.common.command import NO, YES, Command
from braces.cli.common.diff_programs import Change, compare
from braces.cli.common.program_files import Content, read_file
from braces.cli.common.program_selection import pick, shown_name
from braces.cli.common.terminal import Style
from braces.errors import FileFormatError
from braces.ir.fingerprint import fingerprint
from braces.program import Program
from braces.storage.model import PREDICT, STARTUP, TRAIN

MODEL = "model"
_MARKS = {"added": ("+", "blue"), "removed": ("-", "red"), "changed": ("~", "bold")}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a program or model; - is standard input")
    parser.add_argument("b", metavar="B", help="another one")
    parser.add_argument(
        "--program",
        metavar="NAME",
        help="of a model that is compared with a program: which of its programs (the one that "
        "is the same; else train for a program with updates, predict for another)",
    )
    parser.add_argument("--json", action="store_true", help="for programs to read")


def _run(options: Namespace) -> int:
    left, right = _alike(read_file(options.a), read_file(options.b), options.program)
    changes = dict(_changes(left, right))
    if options.json:
        said = {name: [asdict(one) for one in found] for name, found in changes.items()}
        print(json.dumps({"same": not any(changes.values()), "programs": said}, indent=2))
    else:
        for line in _lines(
            changes, f"{shown_name(options.a)} and {shown_name(options.b)}", Style(sys.stdout)
        ):
            print(line)
    return NO if any(changes.values()) else YES


def _alike(
    left: Content, right: Content, name: str | None
) -> tuple[dict[str, Program], dict[str, Program]]:
    """The programs of both; a single one is compared with the one of a model that is meant."""
    if left.kind == MODEL and right.kind != MODEL:
        return _meant(left, _programs(right), name)
    if right.kind == MODEL and left.kind != MODEL:
        new, old = _meant(right, _programs(left), name)
        return old, new
    return _programs(left), _programs(right)


def _meant(
    model: Content, single: dict[str, Program], name: str | None
) -> tuple[dict[str, Program], dict[str, Program]]:
    """Of a model and a single program: those that are compared, under the model's names."""
    program = single.pop("program")
    name = name or _nearest(model.programs, program)
    found = {name: pick(model, name).program}
    if STARTUP in single and STARTUP in model.programs:
        found[STARTUP] = model.programs[STARTUP]
        return found, {name: program, STARTUP: single[STARTUP]}
    return found, {name: program}


def _nearest(programs: Mapping[str, Program], program: Program) -> str:
    wanted = fingerprint(program)
    same = [name for name, one in programs.items() if fingerprint(one) == wanted]
    return next(iter(same), TRAIN if program.updates and TRAIN in programs else PREDICT)


def _programs(content: Content) -> dict[str, Program]:
    """The programs by name; of a single one, its startup program too."""
    if not content.programs:
        raise FileFormatError("The file has arrays, and no programs.")
    found = dict(content.programs)
    if content.kind == "program" and found["program"].startup.vars:
        found[STARTUP] = found["program"].startup
    return found


def _changes(
    left: dict[str, Program], right: dict[str, Program]
) -> Iterator[tuple[str, list[Change]]]:
    """The changes of each program; single ones are compared whatever their names."""
    if len(left) == len(right) == 1:
        (name, old), (new,) = *left.items(), right.values()
        yield name, compare(old, new)
        return
    for name in dict.fromkeys([*left, *right]):
        if name in left and name in right:
            yield name, compare(left[name], right[name])
        else:
            how = "removed" if name in left else "added"
            yield name, [Change(how, "", f"program {name}")]


def _lines(changes: dict[str, list[Change]], both: str, style: Style) -> Iterator[str]:
    if not any(changes.values()):
        yield f"{both} mean the same."
        return
    for name, found in changes.items():
        if len(changes) > 1 and found:
            yield style.bold(name)
        block = None
        for change in found:
            if change.block != block:
                block = change.block
                yield style.dim(f"block {block or '0'}")
            mark, colour = _MARKS[change.how]
            yield style.paint(f"  {mark} {change.what}", colour)
            yield from (f"      {detail}" for detail in change.details)


COMMAND = Command(
    "diff",
    "say what changed from one program to another, by block and operator",
    "braces diff old.braces new.braces",
    _arguments,
    _run,
)
