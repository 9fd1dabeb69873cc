"""`braces convert IN OUT`: convert models of other frameworks to Braces, and Braces to ONNX."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from braces.cli.common.command import YES, Command, declare
from braces.cli.common.prepared_run import load_stored_scope
from braces.cli.common.program_files import ONNX, Content, is_foreign, read_file
from braces.cli.common.program_selection import select_program
from braces.errors import FileFormatError
from braces.exchange.onnx.writer.exporter import to_onnx
from braces.storage.model_files import save_model

OURS = (".braces", ".safetensors")
"""Suffixes of Braces models."""


_USAGE = f"""\
input IN           a Braces model or program, an ONNX file, or a Paddle model
output OUT         a Braces model ({", ".join(OURS)}) or an ONNX model ({ONNX})
--program NAME     the program of a model to convert
--size NAME=N ...  the value of a symbolic size
"""


def _arguments(parser: ArgumentParser) -> None:
    declare(parser, _USAGE, size={"type": _size, "default": []})


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise ArgumentTypeError(
            f"invalid size {text!r}; expected NAME=N, such as batch=1"
        ) from None


def _run(options: Namespace) -> int:
    sizes = dict(options.size)
    if not options.output.endswith((*OURS, ONNX)):
        raise FileFormatError(
            f"unknown suffix of the output file {options.output!r}.",
            fix=f"Use NAME{OURS[0]} or NAME{OURS[1]} for a Braces model, NAME{ONNX} for ONNX.",
        )
    if is_foreign(options.input) and not options.output.endswith(ONNX):
        _write_ours(read_file(options.input, sizes), options)
    elif options.input.endswith(ONNX):
        raise FileFormatError(
            "both files are ONNX models.", fix=f"Use NAME{OURS[0]} or NAME{OURS[1]} for OUT."
        )
    elif options.output.endswith(ONNX):
        _write_onnx(read_file(options.input), options, sizes)
    else:
        raise FileFormatError(
            "neither IN nor OUT is an ONNX or Paddle model, by its suffix.",
            fix=f"Use NAME{ONNX} for one of them, or a folder with a Paddle program for IN.",
        )
    return YES


def _write_ours(content: Content, options: Namespace) -> None:
    program = select_program(content, options.program).program
    scope = load_stored_scope(options.input, content)
    names, notes = list(program.fetches), content.metadata
    save_model(Path(options.output), program, scope, program.feeds, names, metadata=notes)


def _write_onnx(content: Content, options: Namespace, sizes: dict[str, Any]) -> None:
    picked = select_program(content, options.program)
    scope, fetches = load_stored_scope(options.input, content), list(picked.gives.values())
    to_onnx(
        picked.program,
        options.output,
        scope=scope,
        fetches=fetches,
        sizes=sizes,
        metadata=content.metadata,
    )


COMMAND = Command(
    "convert",
    "convert an ONNX or Paddle model to Braces, or a Braces model to ONNX",
    "braces convert model.onnx model.braces",
    _arguments,
    _run,
)
