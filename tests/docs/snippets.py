"""The Python blocks of Markdown pages: found, run from top to bottom, and their output."""

from __future__ import annotations

import contextlib
import io
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

OPTIONAL = (
    "flax", "grain", "keras", "matplotlib", "onnx", "onnxruntime", "paddle", "pandas",
    "pyarrow", "ray", "skl2onnx", "torch",
)  # fmt: skip
"""Packages whose blocks are passed over where they are not installed."""
PROGRAM = "train.py"
"""Stands for the page in source lines that are printed, with the lines of its Python alone."""
OMITTED = "…"
_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1`*[ ]*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """A Python block of a page.

    Attributes:
        code: The code.
        line: Where it begins in the page, from 1.
        start: Where it begins in the Python of the page, from 1.
        shown: The `text` block that directly follows it; None without one.
        shown_line: Where that block begins in the page.
    """

    code: str
    line: int
    start: int
    shown: str | None
    shown_line: int

    @property
    def missing(self) -> tuple[str, ...]:
        """Optional packages that it imports, and that are not installed."""
        found = (
            re.search(rf"^\s*(import|from) {name}\b", self.code, re.M) for name in OPTIONAL
        )
        used = [name for name, there in zip(OPTIONAL, found, strict=True) if there]
        return tuple(name for name in used if find_spec(name) is None)


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page: its language, its text, and the lines of both ends."""

    language: str
    text: str
    start: int
    end: int
    before: str


def fences(text: str) -> Iterator[Fence]:
    """All fenced blocks that are not indented, each with the prose since the one before it."""
    end = 0
    for found in _FENCE.finditer(text):
        first = text.count("\n", 0, found.start()) + 1
        last = first + found[0].count("\n")
        yield Fence(found[2].strip(), found[3], first, last, text[end : found.start()])
        end = found.end()


def snippets(text: str) -> list[Snippet]:
    """The Python blocks of a page, each with its output."""
    found, number, none = [], 1, Fence("", "", 0, 0, "")
    for block, following in pairwise([*fences(text), none]):
        if block.language == "python":
            shows = following.language == "text" and not following.before.strip()
            shown = following.text if shows else None
            found.append(Snippet(block.text, block.start + 1, number, shown, following.start))
            number += block.text.count("\n") + 1  # an empty line between blocks
    return found


@dataclass
class Page:
    """A page whose Python is run in one namespace.

    Attributes:
        path: The file.
        name: Its name in messages and tracebacks.
        folder: What replaces `/tmp`.
        names: The variables of its Python.
        printed: The output of each block that ran.
        errors: What it wrote to the error stream.
    """

    path: Path
    name: str
    folder: Path
    names: dict[str, Any] = field(default_factory=dict[str, Any])
    printed: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])

    @cached_property
    def snippets(self) -> list[Snippet]:
        """Its Python blocks."""
        return snippets(self.path.read_text(encoding="utf-8"))

    def run(self) -> None:
        """Run all blocks, and compare what they print.

        Raises:
            AssertionError: A block fails, or prints another text than the page shows. The
                message begins with the page and the line.
        """
        for snippet in self.snippets:
            if not snippet.missing:
                self.printed.append(self.outcome(snippet))
                self.compare(snippet, self.printed[-1])

    def outcome(self, snippet: Snippet) -> str:
        """Run a block, and return what it prints."""
        code = snippet.code.replace("/tmp/", f"{self.folder.as_posix()}/")
        output, errors = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                program = compile("\n" * (snippet.line - 1) + code, str(self.path), "exec")
                exec(program, self.names)
        except Exception as error:
            line = self.line_of(error, snippet)
            raise AssertionError(
                f"{self.name}:{line}: {type(error).__name__}: {error}"
            ) from error
        self.errors.append(errors.getvalue())
        return self.as_program(output.getvalue())

    def line_of(self, error: Exception, snippet: Snippet) -> int:
        """The innermost line of the page in a traceback."""
        if isinstance(error, SyntaxError) and error.filename == str(self.path):
            return error.lineno or snippet.line
        calls = traceback.extract_tb(error.__traceback__)
        lines = [call.lineno for call in calls if call.filename == str(self.path)]
        return (lines and lines[-1]) or snippet.line

    def as_program(self, text: str) -> str:
        """Output with source lines of `train.py` in place of those of the page."""
        text = text.replace(f"{self.folder.as_posix()}/", "/tmp/")
        named = re.escape(self.path.name)
        lines = re.compile(rf"(?:[^\s\[(]*/)?(?<![\w.]){named}:(\d+)")
        return lines.sub(lambda found: f"{PROGRAM}:{self.at(int(found[1]))}", text)

    def at(self, line: int) -> int:
        """The line of the program that is a line of the page."""
        before = [snippet for snippet in self.snippets if snippet.line <= line]
        return line - before[-1].line + before[-1].start if before else line

    def compare(self, snippet: Snippet, printed: str) -> None:
        """Compare the output of a block with the page; `…` stands for omitted text."""
        if snippet.shown is not None and not agrees(snippet.shown, printed):
            told = f"{self.name}:{snippet.shown_line}: the block above it prints another text"
            raise AssertionError(f"{told}:\n{printed}---- the page has:\n{snippet.shown}")


def agrees(shown: str, printed: str) -> bool:
    """Whether an output is what a page shows, up to `…` and blanks at the ends of lines."""
    parts = (re.escape(part) for part in stripped(shown).split(OMITTED))
    return re.fullmatch(".*?".join(parts), stripped(printed), re.DOTALL) is not None


def stripped(text: str) -> str:
    """A text without blanks at the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))
