"""Styled terminal output."""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "blue": "34", "red": "31"}


def supports_colour(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that supports colours, without `NO_COLOR`."""
    return (
        stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


class Style:
    """Styles text for a stream."""

    def __init__(self, stream: TextIO) -> None:
        self.on = supports_colour(stream)

    def paint(self, text: str, style: str) -> str:
        """Return text in a style, `bold`, `dim`, `blue` or `red`, if the stream has colours."""
        return f"\033[{_CODES[style]}m{text}\033[0m" if self.on else text

    def bold(self, text: str) -> str:
        """Return emphasized text."""
        return self.paint(text, "bold")

    def dim(self, text: str) -> str:
        """Return de-emphasized text."""
        return self.paint(text, "dim")
