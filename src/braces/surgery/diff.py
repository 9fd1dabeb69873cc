"""`br.diff`: the differences between two programs as a value."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from braces.builder.builder import Builder
from braces.builder.program_argument import AnyProgram, ProgramHolder, program_of
from braces.builder.source_line import with_user_line
from braces.errors import ProgramError
from braces.ir.files.atomic_write import write_atomically
from braces.ir.records import ProgramDef
from braces.surgery.program_diff import MARKS, AlignedLine, Change, compare_definitions
from braces.viewer.side_by_side import Row, comparison_page, comparison_table

PROGRAM, STARTUP = "program", "startup"


@dataclass(frozen=True, eq=False)
class ProgramDiff:
    """The differences between two programs; falsy if they are equal.

    It prints as a list by block, and notebooks show both programs side by side.

    Attributes:
        changes: The changes of the program, each with `how`, `block`, `what` and `details`.
        startup: The changes of the startup program, which sets initial values.
    """

    changes: tuple[Change, ...]
    startup: tuple[Change, ...] = ()
    _programs: tuple[Builder, Builder] | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.changes or self.startup)

    def __len__(self) -> int:
        return len(self.changes) + len(self.startup)

    def __iter__(self) -> Iterator[Change]:
        yield from self.changes
        yield from self.startup

    def __str__(self) -> str:
        return "\n".join(self._text()) or "The programs are equivalent."

    __repr__ = __str__

    def _text(self) -> Iterator[str]:
        for name, changes in ((PROGRAM, self.changes), (STARTUP, self.startup)):
            if changes and name != PROGRAM:
                yield name
            for kind, line in change_lines(changes):
                yield line if kind == "block" else f"  {line}"

    @cached_property
    def lines(self) -> tuple[AlignedLine, ...]:
        """The lines of both programs side by side, equal ones too."""
        if self._programs is None:
            return ()
        return tuple(compare_definitions(*(p.definition for p in self._programs))[1])

    def _repr_html_(self) -> str:
        return comparison_table(self._rows())

    def _rows(self) -> list[Row]:
        rows = [Row(line.blocks[0], line.left, line.right, line.how) for line in self.lines]
        return rows or [Row("", row, row) for row in str(self).splitlines()]

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained HTML page with both programs side by side.

        Operators that differ are marked in both pictures, and in the table above them.

        Args:
            path: The file; an existing one is replaced.
        """
        if self._programs is None:
            raise ProgramError("the programs of this comparison are not available.")
        marks = [dict[tuple[str, str], str](), dict[tuple[str, str], str]()]
        for line in self.lines:
            for side, name in enumerate(line.names):
                if name and line.how:
                    marks[side][line.blocks[side], name] = line.how
        html = comparison_page(self._programs, marks, self._rows())
        write_atomically(path, html.encode())


def change_lines(changes: tuple[Change, ...] | list[Change]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a list of changes, each with its kind: `block`, `detail` or `how`."""
    block = None
    for change in changes:
        if change.block != block:
            block = change.block
            yield "block", f"block {block or '0'}"
        yield change.how, f"{MARKS[change.how]} {change.what}"
        yield from (("detail", f"    {detail}") for detail in change.details)


@with_user_line
def diff(a: AnyProgram, b: AnyProgram) -> ProgramDiff:
    """Return the differences between two programs, by block and operator.

    Operators are aligned by their content, so names of temporaries do not matter, and neither
    do source lines. Added, removed, replaced and moved operators are listed, and changes of
    operands, attributes, types, data, parameters, updates and blocks, in nested blocks at any
    depth. Programs with the same `br.fingerprint` are equal.

    The differences between a program and the result of `rewrite`, of an edit or of a pass are
    the effect of it.

    Args:
        a: A program, or a model of `br.load_model`.
        b: The program or model to compare with it.

    Returns:
        A value that is falsy if both are equal. It prints as a list; `.changes` has it as
        values, `.startup` those of the initial values; `.to_html(path)` writes a page.

    Raises:
        ProgramError: If an argument is not a program.

    Example:
        >>> import braces as br
        >>> text = "program { data x: f32[3]  h: f32[3] = tanh(x=x)  y: f32[3] = exp(x=h) }"
        >>> a, b = br.parse(text), br.parse(text.replace("tanh", "sin"))
        >>> br.diff(a, b)
        block 0
          ~ h: tanh → sin
              - h = tanh(x=x)
              + h = sin(x=x)
        >>> bool(br.diff(a, a)), [change.how for change in br.diff(a, b)]
        (False, ['replaced'])
    """
    before, after = _checked(a), _checked(b)
    changes, _ = compare_definitions(before.definition, after.definition)
    startup, _ = compare_definitions(_startup(before), _startup(after))
    return ProgramDiff(tuple(changes), tuple(startup), (before, after))


def _checked(program: Any) -> Builder:
    if not isinstance(program, Builder | ProgramHolder):
        raise ProgramError(
            f"expected a program, got {program!r:.80}.",
            fix="Pass two programs; the differences of neighbours are br.signal.diff(x).",
        )
    return program_of(program)


def _startup(program: Builder) -> ProgramDef:
    return program.startup.definition
