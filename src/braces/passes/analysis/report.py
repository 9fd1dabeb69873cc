"""Report of passes: changes by block and construct, with the notes of each pass."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from braces.builder.builder import Builder
from braces.dims import Size, amount
from braces.errors import ShapeError, visible_lines
from braces.ir.records import Op, ProgramDef
from braces.ir.walk import all_ops
from braces.passes.analysis.cost import Cost
from braces.passes.analysis.flops import check_sizes, cost_at
from braces.passes.autodiff.drop_custom_gradients import (
    DROP_CUSTOM_GRADIENTS,
    drop_custom_gradients,
)
from braces.passes.cleanup.prune import target_names
from braces.passes.core.context import planning
from braces.passes.core.pipeline import (
    Note,
    Pass,
    as_passes,
    collect_notes,
    run_pass,
    with_fetches,
)
from braces.passes.registry import DEFAULT
from braces.passes.rows.pad_row_count import PAD_ROW_COUNT, pad_for_run

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
        costs = _format_cost(self.cost_before, self.cost_after)
        beside = f"; {costs.pop()}" if len(costs) == 1 else ""
        remarks = [*costs, *(f"{note.where}: {note.what}" for note in self.notes)]
        line = f"{self.path} ({self.type}): {self._summary()}{beside}"
        return "\n    ".join([line, *remarks])

    def _summary(self) -> str:
        if self.same:
            return "as it was"
        if self.before is None:
            return f"new, {self._inside}"
        if self.after is None:
            return "gone"
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
        notes = [f"{note.where or 'block 0'}: {note.what}" for note in self.notes]
        lines = [*map(str, self.blocks), *map(str, self.constructs), *notes]
        costs = _format_totals(self)
        if (self.cost_before, self.peak_before) != (self.cost_after, self.peak_after):
            lines.append("\n    ".join(["in all", *costs]))
        lines = lines or ["nothing to do"]
        return "\n".join([f"{self.name}: {self.doc}", *(f"  {line}" for line in lines)])


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
    """

    steps: tuple[PassReport, ...]
    program: ProgramDef
    cost_before: Cost | None = None
    cost_after: Cost | None = None
    peak_before: Size | None = None
    peak_after: Size | None = None

    def __str__(self) -> str:
        costs = _format_totals(self)
        lines = [*map(str, self.steps), "\n  ".join(["all passes", *costs])]
        return visible_lines("\n".join(lines if costs else lines[:-1]))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(
    program: Builder,
    fetch: Any = (),
    passes: Sequence[Pass] = DEFAULT,
    sizes: Mapping[str, int] | None = None,
) -> Explanation:
    """Explain each pass on a program, as an executor would run it; see `Program.explain`."""
    pipeline = as_passes(passes)
    names, pruned = target_names(program.definition, fetch)
    targets_program = with_fetches(pruned, names)
    if drop_custom_gradients(targets_program) is not targets_program:  # a run begins with this
        pipeline = (DROP_CUSTOM_GRADIENTS, *pipeline)
    known_sizes = check_sizes(targets_program, sizes)
    count = partial(_Counted.of, known_sizes)
    steps, before = list[PassReport](), count(targets_program)
    start = before
    for pass_ in pipeline:
        with collect_notes() as notes, planning(None, known_sizes):
            new_program = run_pass(pass_, before.program)
        after = before if new_program is before.program else count(new_program)
        steps.append(_explain_step(pass_, before, after, notes))
        before = after
    if notes := pad_for_run(before.program)[2]:  # a compiled run ends with this
        steps.append(PassReport(PAD_ROW_COUNT.name, PAD_ROW_COUNT.doc, (), (), tuple(notes)))
    ends = start.total, before.total, start.peak, before.peak
    return Explanation(tuple(steps), before.program, *ends)


@dataclass(frozen=True)
class _Counted:
    """A program with the costs of all its operators, by path.

    Costs are unknown if they exceed the text of a size.
    """

    program: ProgramDef
    total: Cost | None
    peak: Size | None
    costs: Mapping[str, Cost]

    @classmethod
    def of(cls, sizes: Mapping[str, int], program: ProgramDef) -> _Counted:
        try:
            program_cost = cost_at(program, sizes)
        except ShapeError:
            return cls(program, None, None, {})
        costs = {op_cost.path: op_cost.cost for op_cost in program_cost.ops}
        return cls(program, program_cost.total, program_cost.peak_bytes, costs)


def _explain_step(
    pass_: Pass, before: _Counted, after: _Counted, notes: Sequence[Note]
) -> PassReport:
    olds, news = _by_path(before.program), _by_path(after.program)
    paths = dict.fromkeys((*olds, *news))
    touched = [path for path in paths if _differ(olds.get(path), news.get(path))]
    owners = {p: op for p in paths if (op := (news.get(p) or olds[p])[1]).bodies()}
    notes_by_path = {path: list[Note]() for path in owners}
    others = [note for note in notes if not _assign_note(note, notes_by_path)]
    constructs = [
        ConstructChange(
            path,
            op.type,
            _inside(olds.get(path)),
            _inside(news.get(path)),
            not any(_is_inside(changed, path) for changed in touched),
            tuple(notes_by_path[path]),
            before.costs.get(path),
            after.costs.get(path),
        )
        for path, op in owners.items()
    ]
    blocks = _blocks(touched, olds, news)
    ends = before.total, after.total, before.peak, after.peak
    return PassReport(pass_.name, pass_.doc, blocks, tuple(constructs), tuple(others), *ends)


_Placed: TypeAlias = "tuple[str, Op]"
"""An operator and the path of its block; names may contain `/`, so paths are never split."""


def _by_path(program: ProgramDef) -> dict[str, _Placed]:
    placed_ops = all_ops(program.main)
    return {f"{path}/{op.name}".lstrip("/"): (path, op) for path, op in placed_ops}


def _is_inside(path: str, outer: str) -> bool:
    return f"{path}/".startswith(f"{outer}/")


def _assign_note(note: Note, notes_by_path: dict[str, list[Note]]) -> bool:
    """Add a note to the innermost construct around its place; return whether one exists."""
    construct = max(
        (path for path in notes_by_path if _is_inside(note.where, path)), key=len, default=None
    )
    if construct is not None:
        notes_by_path[construct].append(note)
    return construct is not None


def _inside(placed: _Placed | None) -> int | None:
    if placed is None:
        return None
    return sum(1 for body in placed[1].bodies().values() for _ in all_ops(body))


def _blocks(
    touched: Sequence[str], olds: Mapping[str, _Placed], news: Mapping[str, _Placed]
) -> tuple[BlockChange, ...]:
    """Return the changes by block, without blocks that are new or gone themselves."""
    common_blocks = {""} | (_block_paths(olds) & _block_paths(news))
    names_by_block: dict[str, tuple[list[str], list[str], list[str]]] = {}
    for path in touched:
        block, op = news.get(path) or olds[path]
        kind = 0 if path not in news else 1 if path not in olds else 2
        if block in common_blocks:
            names_by_block.setdefault(block, ([], [], []))[kind].append(op.name)
    return tuple(
        BlockChange(block, *map(tuple, kinds)) for block, kinds in names_by_block.items()
    )


def _block_paths(ops: Mapping[str, _Placed]) -> set[str]:
    return {f"{path}/{label}" for path, (_, op) in ops.items() for label in op.bodies()}


def _differ(old: _Placed | None, new: _Placed | None) -> bool:
    """Return whether an operator is new, gone or different, apart from sub-blocks."""
    return old is None or new is None or _plain(old[1]) != _plain(new[1])


def _plain(op: Op) -> Op:
    """Return an operator without its sub-blocks and empty slots."""
    owned = {label.partition("[")[0] for label in op.bodies()}
    return op.with_(
        inputs={slot: names for slot, names in op.inputs.items() if names},
        outputs={slot: names for slot, names in op.outputs.items() if names},
        attrs={name: value for name, value in op.attrs.items() if name not in owned},
    )


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
