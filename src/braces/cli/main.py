"""`braces COMMAND`: inspect and run programs.

Exit status: 0 success; 1 negative answer or bad file; 2 bad usage.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import metadata

from braces.cli.commands import (
    cache,
    check,
    completion,
    convert,
    debug,
    demo,
    diff,
    grad,
    launch,
    ops,
    params,
    plan,
    prune,
    run,
    serve,
    show,
    worker,
)
from braces.cli.common.command import BAD_USAGE, NO, Command
from braces.cli.common.streams import replace_unencodable
from braces.cli.common.terminal import Style
from braces.errors import BracesError, visible_lines
from braces.ir.files.bounded_read import NotAFileError

_COMMANDS: tuple[Command, ...] = (
    demo.COMMAND,
    show.COMMAND,
    params.COMMAND,
    check.COMMAND,
    diff.COMMAND,
    prune.COMMAND,
    grad.COMMAND,
    run.COMMAND,
    debug.COMMAND,
    launch.COMMAND,
    plan.COMMAND,
    convert.COMMAND,
    ops.COMMAND,
    cache.COMMAND,
    serve.COMMAND,
    worker.COMMAND,
)
COMMANDS = (*_COMMANDS, completion.make_completion_command(_COMMANDS))
"""All commands, in the order of the help."""

_STOPPED, _PIPE_CLOSED = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    replace_unencodable()
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        status = options.command.run(options)
        sys.stdout.flush()
    except BracesError as error:
        status = BAD_USAGE if isinstance(error, NotAFileError) else NO
        return _report(f"{type(error).__name__}: {error}", status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except OSError as error:
        return _report(f"braces {options.command.name}: {_os_error_text(error)}", BAD_USAGE)
    except KeyboardInterrupt:
        return _report("Stopped.", _STOPPED)
    return status


def _report(text: str, status: int) -> int:
    first, newline, details = visible_lines(text).partition("\n")
    print(Style(sys.stderr).paint(first, "red") + newline + details, file=sys.stderr)
    return status


def _os_error_text(error: OSError) -> str:
    """Return the system's message, with the file name."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def make_parser() -> ArgumentParser:
    """Return the parser of all commands."""
    parser = ArgumentParser(
        "braces",
        description="Inspect, convert and run neural-network programs.",
        epilog="example: braces demo\n"
        "exit status: 0 success, 1 negative answer or bad file, 2 bad usage",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"braces {version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog=f"example: {command.example}",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        subparser.set_defaults(command=command)
        command.arguments(subparser)
    return parser


def version() -> str:
    """Return the installed version."""
    try:
        return metadata.version("braces")
    except metadata.PackageNotFoundError:
        return "(not installed)"
