"""`braces check FILE`: check that a program is well formed, and list its errors."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from braces.cli.common.command import NO, YES, Command, declare
from braces.cli.common.program_files import STDIN, as_text, is_tensor_file
from braces.cli.common.program_selection import shown_name
from braces.cli.common.terminal import Style
from braces.errors import FileFormatError, VerifyError
from braces.ir import serde
from braces.ir.files.bounded_read import read_bounded
from braces.ir.limits import LARGEST_FILE
from braces.ir.records import ProgramDef
from braces.ir.text.parser import parse_program
from braces.ir.walk import all_ops
from braces.passes.core.untrusted_input import complete_attributes, op_versions
from braces.passes.verifier.program import check
from braces.storage.model_files import FORMAT, read_programs
from braces.storage.tensor_file import RESERVED, open_tensors

Definitions = dict[str, tuple[ProgramDef, ProgramDef | None]]
"""Programs and their startup programs by name, not verified."""


_USAGE = """\
file FILE  a program or model; - is standard input
--all      list all errors instead of the first
--types    infer all types again (slower: imports JAX)
--json     print JSON
"""


def _arguments(parser: ArgumentParser) -> None:
    declare(parser, _USAGE)


def _run(options: Namespace) -> int:
    definitions = read_definitions(options.file)
    errors = {name: _find_errors(pair, options) for name, pair in definitions.items()}
    is_valid = not any(errors.values())
    if is_valid and _is_model(options.file):
        read_programs(options.file)  # raises if feeds, fetches or variables do not match
    if options.json:
        print(json.dumps(_plain(options.file, definitions, errors), indent=2))
    else:
        _print(options.file, definitions, errors, Style(sys.stdout))
    return YES if is_valid else NO


def _find_errors(
    pair: tuple[ProgramDef, ProgramDef | None], options: Namespace
) -> list[VerifyError]:
    main, startup = (complete_attributes(program) if program else None for program in pair)
    assert main is not None
    types = True if options.types else None
    errors = check(main, startup, all=True, types=types)
    return errors if options.all else errors[:1]


# ---- reading without verification ------------------------------------------------------------


def read_definitions(path: str) -> Definitions:
    """Read the programs of a file: decoded, but not verified.

    Raises:
        FileFormatError: If the file has no programs, or is damaged.
        OSError: If the file does not exist or cannot be read.
    """
    if path == STDIN:
        return _parse_definition(sys.stdin.buffer.read(LARGEST_FILE + 1))
    if _is_model(path):
        return _read_model(path)
    return _parse_definition(read_bounded(path))


def _is_model(path: str) -> bool:
    if path == STDIN or not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return is_tensor_file(file.read(9))


def _read_model(path: str) -> Definitions:
    with open_tensors(path) as file:
        file.expect(FORMAT, "The file contains arrays, but no program to check.")
        names = [name for name in file.types if name.startswith(f"{RESERVED}/")]
        datas = {name: file.read(name).tobytes() for name in names}
    return {
        name.removeprefix(f"{RESERVED}/"): serde.program_from_bytes(data, op_versions())
        for name, data in datas.items()
    }


def _parse_definition(data: bytes) -> Definitions:
    if len(data) > LARGEST_FILE:
        raise FileFormatError(f"the standard input is longer than {LARGEST_FILE} bytes.")
    text = as_text(data)
    if text is not None:
        return {"program": (parse_program(text), None)}
    return {"program": serde.program_from_bytes(data, op_versions())}


# ---- output ----------------------------------------------------------------------------------


def _plain(
    file: str, definitions: Definitions, errors: dict[str, list[VerifyError]]
) -> dict[str, Any]:
    return {
        "file": file,
        "ok": not any(errors.values()),
        "programs": {name: _ops(pair[0]) for name, pair in definitions.items()},
        "errors": [
            {"program": name, "code": e.code, "what": e.what, **_details(e)}
            for name, failures in errors.items()
            for e in failures
        ],
    }  # fmt: skip


def _details(error: VerifyError) -> dict[str, str | None]:
    return {"at": error.at, "given": error.given, "fix": error.fix}


def _ops(program: ProgramDef) -> int:
    return sum(1 for _ in all_ops(program.main))


def _print(
    file: str, definitions: Definitions, errors: dict[str, list[VerifyError]], style: Style
) -> None:
    is_model = len(definitions) > 1
    for name, failures in errors.items():
        for error in failures:
            first, newline, others = str(error).partition("\n")
            prefix = f"{name}: " if is_model else ""
            print(prefix + style.paint(first, "red") + newline + others)
    if not any(errors.values()):
        sizes = ", ".join(f"{name} {_ops(pair[0])}" for name, pair in definitions.items())
        print(f"{style.bold(shown_name(file))} is well formed ({sizes} operators).")


COMMAND = Command(
    "check",
    "check that a program is well formed",
    "braces check demo/digits.model --all",
    _arguments,
    _run,
)
