"""Report of passes: changes by block and construct, with the notes of each pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

from braces.builder.builder import Builder
from braces.dims import Size
from braces.errors import ShapeError
from braces.ir.records import Op, ProgramDef, Source
from braces.ir.walk import all_ops
from braces.keywords import hint_keywords
from braces.passes.analysis.cost import Cost
from braces.passes.analysis.explanation import (
    BlockChange,
    ConstructChange,
    Explanation,
    PassReport,
)
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


@hint_keywords
def explain(
    program: Builder,
    fetch: Any = (),
    passes: Sequence[Pass] = DEFAULT,
    sizes: Mapping[str, int] | None = None,
    all: bool = False,
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
        notes = _with_sources(notes, _by_path(before.program))
        steps.append(PassReport(PAD_ROW_COUNT.name, PAD_ROW_COUNT.doc, (), (), tuple(notes)))
    ends = start.total, before.total, start.peak, before.peak
    return Explanation(tuple(steps), before.program, *ends, all)


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
    notes = _with_sources(notes, olds, news)
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


def _with_sources(notes: Iterable[Note], *programs: Mapping[str, _Placed]) -> list[Note]:
    """Return notes with the source lines of their operators, or of the constructs around."""
    return [replace(note, source=_source_at(note.where, programs)) for note in notes]


def _source_at(where: str, programs: Iterable[Mapping[str, _Placed]]) -> Source | None:
    for ops in programs:
        if where in ops:
            return ops[where][1].source
    around = ((path, op) for ops in programs for path, (_, op) in ops.items() if op.bodies())
    inside = [(len(path), op.source) for path, op in around if _is_inside(where, path)]
    return max(inside, key=itemgetter(0))[1] if inside else None


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
