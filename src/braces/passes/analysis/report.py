"""What each pass did to a program, block by block and construct by construct, or why not."""

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
from braces.passes.analysis.flops import checked_sizes, cost_at
from braces.passes.autodiff.drop_custom_gradients import (
    DROP_CUSTOM_GRADIENTS,
    without_gradients,
)
from braces.passes.cleanup.prune import target_names
from braces.passes.core.context import planning
from braces.passes.core.pipeline import Note, Pass, as_passes, noting, run_pass, wanted
from braces.passes.registry import DEFAULT
from braces.passes.rows.pad_row_count import PAD_ROW_COUNT, rows_of_run

_SHOWN = 6


@dataclass(frozen=True)
class BlockChange:
    """What a pass did to the operators of one block.

    Attributes:
        path: Of the block, as `loop_0/body`; empty for block 0.
        removed: The names of operators that are gone.
        added: Those of new ones.
        changed: Those of operators that are not as they were, sub-blocks aside.
    """

    path: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {verb} ({_some(names)})"
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
    """What a pass did to one operator that owns blocks, as a loop.

    Attributes:
        path: Of the operator, as `loop_0`.
        type: The operator's type.
        before: How many operators were in its blocks, at any depth; `None` where it is new.
        after: How many there are now; `None` where it is gone.
        same: Whether it is just as it was.
        notes: What the pass said of it and of what is in it.
        cost_before: What it took in a run; `None` where it is new, or nobody can say.
        cost_after: What it takes now; `None` where it is gone, or nobody can say.
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
        took = _took(self.cost_before, self.cost_after)
        beside = f"; {took.pop()}" if len(took) == 1 else ""
        said = [*took, *(f"{one.where}: {one.what}" for one in self.notes)]
        line = f"{self.path} ({self.type}): {self._what()}{beside}"
        return "\n    ".join([line, *said])

    def _what(self) -> str:
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
class Step:
    """What one pass did.

    Attributes:
        name: The pass.
        doc: What it is for.
        blocks: The blocks that it changed.
        constructs: Every operator that owns blocks, changed or not.
        notes: What it said of anything else.
        cost_before: What a run of the program took; `None` where nobody can say.
        cost_after: What it takes now, likewise.
        peak_before: How many bytes were alive at once, estimated; `None` likewise.
        peak_after: How many are now, likewise.
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
        notes = [f"{one.where or 'block 0'}: {one.what}" for one in self.notes]
        lines = [*map(str, self.blocks), *map(str, self.constructs), *notes]
        took = _all_took(self)
        if (self.cost_before, self.peak_before) != (self.cost_after, self.peak_after):
            lines.append("\n    ".join(["in all", *took]))
        lines = lines or ["nothing to do"]
        return "\n".join([f"{self.name}: {self.doc}", *(f"  {line}" for line in lines)])


@dataclass(frozen=True)
class Explanation:
    """What passes did to a program, one after the other; `print` shows it.

    Attributes:
        steps: One for each pass, in order.
        program: What they made of it.
        cost_before: What a run took before the first pass; `None` where nobody can say.
        cost_after: What it takes after the last pass, likewise.
        peak_before: How many bytes were alive at once, estimated; `None` likewise.
        peak_after: How many are after the last pass, likewise.
    """

    steps: tuple[Step, ...]
    program: ProgramDef
    cost_before: Cost | None = None
    cost_after: Cost | None = None
    peak_before: Size | None = None
    peak_after: Size | None = None

    def __str__(self) -> str:
        took = _all_took(self)
        lines = [*map(str, self.steps), "\n  ".join(["all passes", *took])]
        return visible_lines("\n".join(lines if took else lines[:-1]))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(
    program: Builder,
    fetch: Any = (),
    passes: Sequence[Pass] = DEFAULT,
    sizes: Mapping[str, int] | None = None,
) -> Explanation:
    """What each pass does to a program, as an executor would run it; see `Program.explain`."""
    given = as_passes(passes)
    names, whole = target_names(program.definition, fetch)
    asked = wanted(whole, names)
    if without_gradients(asked) is not asked:  # which is what a run begins with
        given = (DROP_CUSTOM_GRADIENTS, *given)
    told = checked_sizes(asked, sizes)
    count = partial(_Counted.of, told)
    steps, before = list[Step](), count(asked)
    start = before
    for one in given:
        with noting() as notes, planning(None, told):
            made = run_pass(one, before.program)
        after = before if made is before.program else count(made)
        steps.append(_step(one, before, after, notes))
        before = after
    if notes := rows_of_run(before.program)[2]:  # which is what a compiled run ends with
        steps.append(Step(PAD_ROW_COUNT.name, PAD_ROW_COUNT.doc, (), (), tuple(notes)))
    ends = start.total, before.total, start.peak, before.peak
    return Explanation(tuple(steps), before.program, *ends)


@dataclass(frozen=True)
class _Counted:
    """A program, and what all operators in it take, by path.

    Nothing is known where that is longer than the text of a size may be.
    """

    program: ProgramDef
    total: Cost | None
    peak: Size | None
    costs: Mapping[str, Cost]

    @classmethod
    def of(cls, sizes: Mapping[str, int], program: ProgramDef) -> _Counted:
        try:
            found = cost_at(program, sizes)
        except ShapeError:
            return cls(program, None, None, {})
        costs = {one.path: one.cost for one in found.ops}
        return cls(program, found.total, found.peak_bytes, costs)


def _step(one: Pass, before: _Counted, after: _Counted, notes: Sequence[Note]) -> Step:
    olds, news = _by_path(before.program), _by_path(after.program)
    paths = dict.fromkeys((*olds, *news))
    touched = [path for path in paths if _differ(olds.get(path), news.get(path))]
    owners = {p: op for p in paths if (op := (news.get(p) or olds[p])[1]).bodies()}
    told = {path: list[Note]() for path in owners}
    others = [said for said in notes if not _enter(said, told)]
    constructs = [
        ConstructChange(
            path,
            op.type,
            _inside(olds.get(path)),
            _inside(news.get(path)),
            not any(_within(changed, path) for changed in touched),
            tuple(told[path]),
            before.costs.get(path),
            after.costs.get(path),
        )
        for path, op in owners.items()
    ]
    blocks = _blocks(touched, olds, news)
    ends = before.total, after.total, before.peak, after.peak
    return Step(one.name, one.doc, blocks, tuple(constructs), tuple(others), *ends)


_Placed: TypeAlias = "tuple[str, Op]"
"""An operator and the path of its block; names may have a `/` in them, so paths are not cut."""


def _by_path(program: ProgramDef) -> dict[str, _Placed]:
    found = all_ops(program.main)
    return {f"{path}/{op.name}".lstrip("/"): (path, op) for path, op in found}


def _within(path: str, outer: str) -> bool:
    return f"{path}/".startswith(f"{outer}/")


def _enter(said: Note, told: dict[str, list[Note]]) -> bool:
    """Put a note to the innermost construct that it is about; whether there is one."""
    about = max((path for path in told if _within(said.where, path)), key=len, default=None)
    if about is not None:
        told[about].append(said)
    return about is not None


def _inside(placed: _Placed | None) -> int | None:
    if placed is None:
        return None
    return sum(1 for body in placed[1].bodies().values() for _ in all_ops(body))


def _blocks(
    touched: Sequence[str], olds: Mapping[str, _Placed], news: Mapping[str, _Placed]
) -> tuple[BlockChange, ...]:
    """The blocks of which operators went, came or changed; those inside what is gone aside."""
    there = {""} | (_block_paths(olds) & _block_paths(news))
    found: dict[str, tuple[list[str], list[str], list[str]]] = {}
    for path in touched:
        block, op = news.get(path) or olds[path]
        kind = 0 if path not in news else 1 if path not in olds else 2
        if block in there:
            found.setdefault(block, ([], [], []))[kind].append(op.name)
    return tuple(BlockChange(block, *map(tuple, kinds)) for block, kinds in found.items())


def _block_paths(ops: Mapping[str, _Placed]) -> set[str]:
    return {f"{path}/{label}" for path, (_, op) in ops.items() for label in op.bodies()}


def _differ(old: _Placed | None, new: _Placed | None) -> bool:
    """Whether an operator went, came, or is not as it was, sub-blocks aside."""
    return old is None or new is None or _plain(old[1]) != _plain(new[1])


def _plain(op: Op) -> Op:
    """An operator without its sub-blocks, and without slots that hold nothing."""
    owned = {label.partition("[")[0] for label in op.bodies()}
    return op.with_(
        inputs={slot: names for slot, names in op.inputs.items() if names},
        outputs={slot: names for slot, names in op.outputs.items() if names},
        attrs={name: value for name, value in op.attrs.items() if name not in owned},
    )


def _took(before: Cost | None, after: Cost | None) -> list[str]:
    """What something takes, or took and takes now; nothing where nobody can say."""
    if before is None or after is None or before == after:
        one = after or before
        return [] if one is None else [str(one)]
    return [
        f"operations: {_change(before.operations, after.operations, 'FLOP')}",
        f"bytes: {_change(before.bytes, after.bytes, 'B')}",
    ]


def _all_took(one: Step | Explanation) -> list[str]:
    """What a whole program takes, or took and takes now, and what is alive in it at once."""
    took, before, after = (
        _took(one.cost_before, one.cost_after),
        one.peak_before,
        one.peak_after,
    )
    if before is None or after is None:
        return took
    return [*took, f"peak: {_change(before, after, 'B')}"]


def _change(old: Size, new: Size, unit: str) -> str:
    return amount(new, unit) if old == new else f"{amount(old, unit)} → {amount(new, unit)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
