"""What a command is."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

YES, NO, BAD_USAGE = 0, 1, 2
"""Exit statuses: done, the answer is no, and bad usage."""


@dataclass(frozen=True)
class Command:
    """A command of `braces`.

    Attributes:
        name: What is typed after `braces`.
        summary: One line for the list of commands.
        example: A command line to copy.
        arguments: Declares the command's own arguments.
        run: Does it; returns the exit status.
    """

    name: str
    summary: str
    example: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
