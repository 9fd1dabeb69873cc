"""Records of an explanation: changes by block and construct, notes, costs, and their text."""

from __future__ import annotations

import html
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from braces.dims import Size, amount
from braces.errors import visible_lines
from braces.ir.records import ProgramDef
from braces.passes.analysis.cost import Cost
from braces.passes.core.pipeline import Note

_SHOWN = 6


@dataclass(frozen=True)
class BlockChange:
    """Changes of a pass to the operators of one block.

    Attributes:
        path: Path of the block, as `loop_0/body`; empty for block 0.
        removed: Names of removed operators.
        added: Names of new operators.
        changed: Names of operators that differ from before, apart from sub-blocks.
    """

    path: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {verb} ({_list_some(names)})"
            for verb, names in [
                ("removed", self.removed),
                ("added", self.added),
                ("changed", self.changed),
            ]
            if names
        ]
        return f"block {self.path or '0'}: {', '.join(parts)}"


@dataclass(frozen=True)
class ConstructChange:
    """Change of a pass to one operator that owns blocks, as a loop.

    Attributes:
        path: Path of the operator, as `loop_0`.
        type: The operator's type.
        before: Number of operators in its blocks before, at any depth; `None` if it is new.
        after: Number of operators now; `None` if it is gone.
        same: Whether it is unchanged.
        notes: Notes of the pass about it and its contents.
        cost_before: Cost in a run before; `None` if it is new, or the cost is unknown.
        cost_after: Cost in a run now; `None` if it is gone, or the cost is unknown.
    """

    path: str
    type: str
    before: int | None
    after: int | None
    same: bool
    notes: tuple[Note, ...]
    cost_before: Cost | None = None
    cost_after: Cost | None = None

    def __str__(self) -> str:
        return "\n    ".join([self._headline, *self._costs[1:], *map(str, self.notes)])

    def changes(self, notes: Container[Note]) -> list[str]:
        """Return the entries without some notes; without its own line if it is unchanged."""
        remarks = _format_notes(self.notes, notes)
        if self.same:
            return remarks
        return ["\n    ".join([self._headline, *self._costs[1:], *remarks])]

    @property
    def _headline(self) -> str:
        return f"{self.path} ({self.type}): {self._summary()}{self._costs[0]}"

    @property
    def _costs(self) -> list[str]:
        """The cost beside the summary, and the lines of its change below."""
        costs = _format_cost(self.cost_before, self.cost_after)
        return [f"; {costs[0]}"] if len(costs) == 1 else ["", *costs]

    def _summary(self) -> str:
        if self.same:
            return "unchanged"
        if self.before is None:
            return f"new, {self._inside}"
        if self.after is None:
            return "removed"
        instead = "" if self.before == self.after else f" in place of {self.before}"
        return f"changed, {self._inside}{instead}"

    @property
    def _inside(self) -> str:
        return f"{self.after} operator{'' if self.after == 1 else 's'} inside"


@dataclass(frozen=True)
class PassReport:
    """Changes of one pass.

    Attributes:
        name: The pass.
        doc: Its purpose.
        blocks: The blocks that it changed.
        constructs: Every operator that owns blocks, changed or not.
        notes: Its notes about anything else.
        cost_before: Cost of a run of the program before; `None` if unknown.
        cost_after: Cost of a run now, likewise.
        peak_before: Estimated peak memory in bytes before; `None` if unknown.
        peak_after: Estimated peak memory now, likewise.
    """

    name: str
    doc: str
    blocks: tuple[BlockChange, ...]
    constructs: tuple[ConstructChange, ...]
    notes: tuple[Note, ...]
    cost_before: Cost | None = None
    cost_after: Cost | None = None
    peak_before: Size | None = None
    peak_after: Size | None = None

    def __str__(self) -> str:
        entries = [*self.blocks, *self.constructs, *self.notes]
        return self._format([*map(str, entries), *self._total] or ["no change"])

    @property
    def all_notes(self) -> list[Note]:
        """The notes, those of constructs first."""
        return [*(note for part in self.constructs for note in part.notes), *self.notes]

    def changes(self, notes: Container[Note]) -> str:
        """Return the text without unchanged constructs; empty if nothing is left.

        Args:
            notes: The notes to print.
        """
        constructs = [line for part in self.constructs for line in part.changes(notes)]
        others = _format_notes(self.notes, notes)
        lines = [*map(str, self.blocks), *constructs, *others, *self._total]
        return self._format(lines) if lines else ""

    def _format(self, lines: Iterable[str]) -> str:
        return "\n  ".join([f"{self.name}: {self.doc}", *lines])

    @property
    def _total(self) -> list[str]:
        """The cost of the program, if the pass changes it."""
        if (self.cost_before, self.peak_before) == (self.cost_after, self.peak_after):
            return []
        return ["\n    ".join(["in all", *_format_totals(self)])]


@dataclass(frozen=True)
class Explanation:
    """Changes of a pipeline to a program; `print` shows it.

    Attributes:
        steps: One for each pass, in order.
        program: The resulting program.
        cost_before: Cost of a run before the first pass; `None` if unknown.
        cost_after: Cost of a run after the last pass, likewise.
        peak_before: Estimated peak memory in bytes before; `None` if unknown.
        peak_after: Estimated peak memory after the last pass, likewise.
        all: Whether the text has everything: passes without effect, unchanged constructs, and
            notes of kind "analysis".
    """

    steps: tuple[PassReport, ...]
    program: ProgramDef
    cost_before: Cost | None = None
    cost_after: Cost | None = None
    peak_before: Size | None = None
    peak_after: Size | None = None
    all: bool = False

    def __str__(self) -> str:
        costs = _format_totals(self)
        steps = map(str, self.steps) if self.all else self._changes()
        lines = [*steps, "\n  ".join(["all passes", *costs])]
        return visible_lines("\n".join(lines if costs else lines[:-1]))

    def _changes(self) -> list[str]:
        """Return the text of each pass with changes or new missed optimizations."""
        texts, known = list[str](), set[tuple[str, str]]()
        for step in self.steps:
            notes = {note for note in step.all_notes if note.kind != "analysis"}
            notes = {note for note in notes if (note.where, note.what) not in known}
            known.update((note.where, note.what) for note in notes if note.kind == "missed")
            texts.append(step.changes(notes))
        return [text for text in texts if text] or ["no pass changed the program"]

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _format_notes(notes: Iterable[Note], shown: Container[Note]) -> list[str]:
    """Format the notes to print; of many with the same text, the first ones and a count."""
    notes_by_text: dict[str, list[Note]] = {}
    for note in notes:
        if note in shown:
            notes_by_text.setdefault(note.what, []).append(note)
    lines = list[str]()
    for what, alike in notes_by_text.items():
        lines += map(str, alike[:_SHOWN])
        if len(alike) > _SHOWN:
            lines.append(f"{len(alike) - _SHOWN} more: {what}")
    return lines


def _format_cost(before: Cost | None, after: Cost | None) -> list[str]:
    """Format a cost, or its change; empty if unknown."""
    if before is None or after is None or before == after:
        cost = after or before
        return [] if cost is None else [str(cost)]
    return [
        f"operations: {_change(before.operations, after.operations, 'FLOP')}",
        f"bytes: {_change(before.bytes, after.bytes, 'B')}",
    ]


def _format_totals(record: PassReport | Explanation) -> list[str]:
    """Format cost and peak memory of a whole program, or their changes."""
    costs, before, after = (
        _format_cost(record.cost_before, record.cost_after),
        record.peak_before,
        record.peak_after,
    )
    if before is None or after is None:
        return costs
    return [*costs, f"peak: {_change(before, after, 'B')}"]


def _change(old: Size, new: Size, unit: str) -> str:
    return amount(new, unit) if old == new else f"{amount(old, unit)} → {amount(new, unit)}"


def _list_some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
