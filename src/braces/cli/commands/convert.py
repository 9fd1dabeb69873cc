"""`braces convert IN OUT`: convert a model of another framework to Braces, or ours to ONNX."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from braces.cli.common.command import YES, Command
from braces.cli.common.prepared_run import load_stored_scope
from braces.cli.common.program_files import ONNX, Content, is_foreign, read_file
from braces.cli.common.program_selection import select_program
from braces.errors import FileFormatError
from braces.exchange.onnx.writer.exporter import to_onnx
from braces.storage.model_files import save_model

OURS = (".braces", ".safetensors")
"""Suffixes of Braces models."""


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "input", metavar="IN", help="a model or program, an .onnx file, or Paddle's"
    )
    parser.add_argument(
        "output",
        metavar="OUT",
        help=f"a model of ours ({', '.join(OURS)}), or of ONNX ({ONNX})",
    )
    parser.add_argument("--program", metavar="NAME", help="of a model: which program")
    parser.add_argument(
        "--size",
        action="append",
        type=_size,
        default=[],
        metavar="NAME=N",
        help="a number for a symbolic size",
    )


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no size, as batch=1") from None


def _run(options: Namespace) -> int:
    sizes = dict(options.size)
    if not options.output.endswith((*OURS, ONNX)):
        raise FileFormatError(
            f"The suffix of {options.output!r} says no kind of file.",
            fix=f"Call it NAME{OURS[0]} or NAME{OURS[1]}, a model of ours, or NAME{ONNX}.",
        )
    if is_foreign(options.input) and not options.output.endswith(ONNX):
        _write_ours(read_file(options.input, sizes), options)
    elif options.input.endswith(ONNX):
        raise FileFormatError("Both files are models of ONNX.", fix="OUT is one of ours then.")
    elif options.output.endswith(ONNX):
        _write_onnx(read_file(options.input), options, sizes)
    else:
        raise FileFormatError(
            "Neither file is one of another system, by its suffix.",
            fix=f"Call one of them NAME{ONNX}, or IN a folder with a program of Paddle.",
        )
    return YES


def _write_ours(content: Content, options: Namespace) -> None:
    program = select_program(content, options.program).program
    scope = load_stored_scope(options.input, content)
    save_model(Path(options.output), program, scope, program.feeds, list(program.fetches))


def _write_onnx(content: Content, options: Namespace, sizes: dict[str, Any]) -> None:
    picked = select_program(content, options.program)
    scope, fetches = load_stored_scope(options.input, content), list(picked.gives.values())
    to_onnx(picked.program, options.output, scope=scope, fetches=fetches, sizes=sizes)


COMMAND = Command(
    "convert",
    "turn a model of ONNX or Paddle into one of ours, or ours into one of ONNX",
    "braces convert model.onnx model.braces",
    _arguments,
    _run,
)
