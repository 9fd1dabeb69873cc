"""Lines of the original source, from the stack traces that exporters record."""

from __future__ import annotations

import re
from collections.abc import Iterable

from braces.extend.programs import Source

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)
_INTERNAL = re.compile(r"^<|[/\\](site|dist)-packages[/\\](torch|paddle)[/\\]")
"""Names of generated code, and files of the frameworks."""
_INSTALLED = re.compile(r"^<|[/\\](site|dist)-packages[/\\]")


def sources_in(trace: str) -> list[Source]:
    """Return the lines of a Python stack trace that are not the framework's, outermost first.

    Example:
        >>> [str(line) for line in sources_in('  File "net.py", line 7, in f')]
        ['net.py:7']
    """
    frames: list[tuple[str, str]] = _FRAME.findall(trace)
    others = [frame for frame in frames if not _INTERNAL.search(frame[0])] or frames
    return [Source(file, int(line)) for file, line in others]


def own_sources(sources: Iterable[Source]) -> list[Source]:
    """Return the lines that are not those of installed packages."""
    return [source for source in sources if not _INSTALLED.search(source.file)]


def describe_lines(sources: list[Source]) -> str:
    """Return the innermost line, for messages; empty without any.

    A line of an installed package is followed by the user's line that led to it.

    Example:
        >>> package = Source("/usr/lib/python3/site-packages/nets/vit.py", 30)
        >>> describe_lines([Source("net.py", 7), package])
        '/usr/lib/python3/site-packages/nets/vit.py:30, called at net.py:7'
    """
    own = own_sources(sources)
    if own and own[-1] != sources[-1]:
        return f"{sources[-1]}, called at {own[-1]}"
    return str(sources[-1]) if sources else ""
