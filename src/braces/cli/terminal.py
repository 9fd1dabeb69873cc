"""What is written to a terminal: colours where they are wanted, tables that line up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    r"""Rows as lines whose cells stand below each other.

    Args:
        rows: Cells; all rows have the same number.
        right: The columns that are set to the right.

    Example:
        >>> print(*columns([["w", "12"], ["bias", "3"]], right=[1]), sep="\n")
        w     12
        bias   3
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def in_bytes(count: int) -> str:
    """A number of bytes for people.

    Example:
        >>> in_bytes(999), in_bytes(43_512), in_bytes(2_000_000_000)
        ('999 B', '43.5 kB', '2.0 GB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
