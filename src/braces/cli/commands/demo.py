"""`braces demo`: an end-to-end example."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from braces.cli.common.command import Command, declare


def _arguments(parser: ArgumentParser) -> None:
    declare(parser, "--out DIR  the output folder (default: demo/)", out=Path("demo"))
    declare(parser, "--epochs N  the number of epochs", epochs=_positive)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"expected a positive number of epochs, got {text!r}")
    return int(text)


def _run(options: Namespace) -> int:
    # Imported here only: rich would double the start-up time of every other command.
    from braces.demo.run import run_demo

    return run_demo(options.out, options.epochs, sys.stdout)


COMMAND = Command(
    "demo",
    "train a recurrent network on handwritten digits, save it, and predict from the file",
    "braces demo --out demo --epochs 40",
    _arguments,
    _run,
)
