"""What is written to a terminal: colours where they are wanted."""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "blue": "34", "red": "31"}


def coloured(stream: TextIO) -> bool:
    """Whether a stream is a terminal, and no `NO_COLOR` in the environment forbids colours."""
    return (
        stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


class Style:
    """Paints text for one stream."""

    def __init__(self, stream: TextIO) -> None:
        self.on = coloured(stream)

    def paint(self, text: str, style: str) -> str:
        """The text in a style, `bold`, `dim`, `blue` or `red`, where the stream has colours."""
        return f"\033[{_CODES[style]}m{text}\033[0m" if self.on else text

    def bold(self, text: str) -> str:
        """What matters."""
        return self.paint(text, "bold")

    def dim(self, text: str) -> str:
        """What is said beside it."""
        return self.paint(text, "dim")
