"""The page of the reference about the command line: the help of each command."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterator
from unittest import mock

from braces.cli.main import COMMANDS, make_parser

FILE = "command_line"
TITLE = "Command line"
COLUMNS = "88"


def page() -> str:
    """The source of the page."""
    parser = make_parser()
    intro = f"{parser.description} ``braces COMMAND --help`` prints the same texts."
    status = "Exit status: 0 success, 1 negative answer or bad file, 2 bad usage."
    lines = [TITLE, "=" * len(TITLE), "", intro, status, "", *sections(parser)]
    return "\n".join([*lines, ""])


def sections(parser: ArgumentParser) -> Iterator[str]:
    """A section for each command."""
    for command in COMMANDS:
        title = f"braces {command.name}"
        yield from (title, "-" * len(title), "", ".. code-block:: text", "")
        yield from (
            f"   {line}".rstrip() for line in help_of(parser, command.name).splitlines()
        )
        yield ""


def help_of(parser: ArgumentParser, name: str) -> str:
    """The help of a command, as wide as a page."""
    (commands,) = (action for action in parser._actions if isinstance(action.choices, dict))
    with mock.patch.dict(os.environ, {"COLUMNS": COLUMNS, "NO_COLOR": "1"}):
        return commands.choices[name].format_help()
