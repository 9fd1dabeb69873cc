"""Commands of the command line, and declarations of their arguments."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc
from threading import TIMEOUT_MAX
from typing import Any, Protocol

YES, NO, BAD_USAGE = 0, 1, 2
"""Exit statuses: success, negative answer, and bad usage."""


@dataclass(frozen=True)
class Command:
    """A command of `braces`.

    Attributes:
        name: The word after `braces`.
        summary: One line for the list of commands.
        example: A command line to copy.
        arguments: Declares the command's own arguments.
        run: Executes the command; returns the exit status.
    """

    name: str
    summary: str
    example: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


class Declaring(Protocol):
    """A parser, or a group of its arguments."""

    def add_argument(self, *names: str, **settings: Any) -> Action:
        """Declare an argument."""
        ...


def declare(parser: Declaring, usage: str, **settings: Any) -> None:
    """Declare arguments by lines of usage: names, a placeholder of the value, and a text.

        file FILE              a positional argument
        --json                 a flag
        -o --out OUT           an option of two names, with a value
        --feed NAME=VALUE ...  an option that can be repeated

    Args:
        parser: A parser, or a group of arguments.
        usage: The lines; an indented line continues the text before it.
        settings: Of the arguments that are no plain text: the type of the value (a function),
            its choices (a sequence), its default, or other settings of `add_argument`.
    """
    for line in re.sub(r"\n +", " ", cleandoc(usage)).splitlines():
        spelling, text = re.split(" {2,}", line, maxsplit=1)
        *names, last = spelling.removesuffix(" ...").split()
        if last.startswith("-"):
            names.append(last)
        options = _settings(settings.pop(names[-1].lstrip("-").replace("-", "_"), None))
        if spelling.endswith(" ..."):
            options["action"] = "append"
        if last != names[-1]:
            options["metavar"] = last
        elif "choices" not in options:
            options["action"] = "store_true"
        parser.add_argument(*names, help=text, **options)
    if settings:
        raise ValueError(f"settings of unknown arguments: {', '.join(settings)}.")


def _settings(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, dict):
        return {**(value or {})}
    if callable(value):
        return {"type": value}
    if isinstance(value, (list, tuple)):
        return {"choices": value}
    return {"type": type(value), "default": value}


def seconds(text: str) -> float:
    """Parse a duration in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= TIMEOUT_MAX:
        raise ArgumentTypeError(f"invalid time {text!r:.40}; expected seconds, such as 60")
    return number
