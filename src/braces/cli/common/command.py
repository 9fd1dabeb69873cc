"""Commands of the command line, and an option type that several share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from threading import TIMEOUT_MAX

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


def seconds(text: str) -> float:
    """Parse a duration in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= TIMEOUT_MAX:
        raise ArgumentTypeError(f"invalid time {text!r:.40}; expected seconds, such as 60")
    return number
