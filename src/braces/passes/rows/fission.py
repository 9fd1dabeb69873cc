"""Loop fission of ragged steps: split their branch into prologue, core and epilogue.

    body (t: i64[], h: f32[b,4], x: f32[b,3]) {
      m: bool[b] = less(x=t, y=n)
      h2: f32[b,4], o: f32[b,9] = partition(masks=m, rows=[h, x])
        cases [ (v, h: f32[c,4], x: f32[c,3]) {
          p: f32[c,4] = matmul(x=x, y=w)
          s: f32[c,4] = add(x=p, y=h)
          q: f32[c,9] = matmul(x=s, y=u)
          return s, q } ]
      …

    body (t: i64[], h: f32[b,4], x: f32[b,3]) {
      m: bool[b] = less(x=t, y=n)
      before: f32[b,4] = partition(masks=m, rows=x)
        cases [ (v, x: f32[c,3]) { p: f32[c,4] = matmul(x=x, y=w)  return p } ]
      h2: f32[b,4] = partition(masks=m, rows=[h, before])
        cases [ (v, h: f32[c,4], p: f32[c,4]) { s: f32[c,4] = add(x=p, y=h)  return s } ]
      o: f32[b,9] = partition(masks=m, rows=h2)
        cases [ (v, s: f32[c,4]) { q: f32[c,9] = matmul(x=s, y=u)  return q } ]
      …

Steps with `lengths` have this form, and so have their gradients. The prologue reads only
scanned inputs, so `vectorize_before` computes it before the loop for all iterations at once. No
iteration reads the epilogue, so `vectorize_after` computes it after the loop, sums included.
All batch elements run the same operators on the same numbers as before, and inactive elements
still run none.

If a batch element stops by itself, its mask is not known before its iteration. The prologue
then stays in the loop, since no inactive element is computed. The gradient knows the mask.

A branch is split only if that takes an expensive operator out of the recurrence. Only values
with the batch axis cross between the parts. Values without it are recomputed in each part that
reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from braces.ir.records import ARGUMENT, Body, Op, ProgramDef
from braces.ir.views import LoopView, Operand, Output, PartitionView, view_of
from braces.ir.walk import all_bodies, names_bound_by
from braces.ops.control.construct.build import append_construct
from braces.ops.control.partition.residuals import find_linear_values
from braces.passes.batching.batching_rule_rows import keeps_elements_in_place
from braces.passes.batching.iteration_space import IterationSpace
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite
from braces.passes.rows.fission_parts import Part, StepFission

REASONS = {Part.PROLOGUE: "no carry is read", Part.EPILOGUE: "no carry depends on it"}
"""Reasons for a separate branch of the operators of a part."""


def split_ragged_steps(program: ProgramDef) -> ProgramDef:
    """Return a program with the partitioned steps of its loops split by loop fission."""
    inner = (op for body, around in all_bodies(program.main) if around for op in body.ops)
    if not any(isinstance(view_of(op), PartitionView) for op in inner if op.bodies()):
        return program  # the common case; the walk is slower
    return rewrite(program, _split_step)


def _split_step(op: Op, place: InsertionPoint) -> Replacement:
    view, owner = view_of(op), place.owner
    if not isinstance(view, PartitionView) or not keeps_elements_in_place(view):
        return op
    loop = view_of(owner) if owner else None
    if owner is None or place.outer is None or not isinstance(loop, LoopView):
        return op
    (before,) = (body_op for body_op in place.body.ops if body_op.name == op.name)
    is_unchanged = {*op.reads()} == {*before.reads()}  # so the analysis of the loop is valid
    trips = IterationSpace.of(loop, owner, place.outer) if is_unchanged else None
    if trips is None:
        return op
    step = StepFission(view, trips)
    if step.waiting:
        why = "the active batch elements are unknown before the loop"
        names = _format_names(step.waiting)
        note(place.where(op), f"prologue not split off ({names}): {why}", "missed")
    parts = {part: step.ops_of(part) for part in Part if part is not Part.SHARED}
    if sum(map(bool, parts.values())) < 2:
        return op
    for part, why in REASONS.items():
        if parts[part]:
            names = _format_names(parts[part])
            note(place.where(op), f"{part.name.lower()} split off ({names}): {why}")
    with place.building():
        return _build_parts(place, step, parts)


def _format_names(ops: Iterable[Op]) -> str:
    return ", ".join(f"`{op.name}`" for op in ops)


def _build_parts(
    place: InsertionPoint, step: StepFission, parts: Mapping[Part, Sequence[Op]]
) -> dict[str, str]:
    """Append a branch for each part; return the outputs of the branch, by name."""
    view, body, new_names = step.view, step.body, dict[str, str]()
    remaining = list(parts.values())
    unbound_results = {*body.results} - names_bound_by(chain.from_iterable(remaining))
    for part, ops in parts.items():
        del remaining[0]
        later = {name for op in chain.from_iterable(remaining) for name in op.reads()}
        own = names_bound_by(ops) | (unbound_results if part is Part.CORE else set[str]())
        outs = [n for n in body.vars if n in own and n in later | _result_names(view.outs)]
        sums = [n for n in body.vars if n in own and n in _result_names(view.sums)]
        if outs or sums:
            new_names |= _append_part(place, step, ops, outs, sums, new_names)
    return {out.name: new_names[out.results[0]] for out in view.outputs}


def _append_part(
    place: InsertionPoint,
    step: StepFission,
    ops: Sequence[Op],
    outs: Sequence[str],
    sums: Sequence[str],
    earlier_outputs: Mapping[str, str],
) -> dict[str, str]:
    """Append a branch for one part; return its outputs, by their names in the case.

    Args:
        place: Insertion point of the branch.
        step: All parts.
        ops: The operators of this one.
        outs: Its results with the batch axis.
        sums: Its results that are sums over the batch axis.
        earlier_outputs: The outputs of the parts before.
    """
    view, linear = step.view, find_linear_values(step.view, 0)
    content = _part_content(step, ops, (*outs, *sums))
    operands = {row.params[0]: row for row in view.rows}
    params = [name for name, info in content.vars.items() if info.kind == ARGUMENT]
    operand_names = (name for name in params if name != step.case.valid)
    op = replace(
        view,
        cases=(replace(step.case, content=content),),
        rows=tuple(
            operands.get(name) or Operand(earlier_outputs[name], (name,), name in linear)
            for name in operand_names
        ),
        outs=tuple(Output("", (name,)) for name in outs),
        sums=tuple(Output("", (name,)) for name in sums),
        origin=Op(view.origin.type, "", {}, {}, source=view.origin.source),
    ).to_op()
    new_op, _ = append_construct(place.program, op)
    names = (out.name for out in PartitionView.of(new_op).outputs)
    return dict(zip((*outs, *sums), names, strict=True))


def _part_content(step: StepFission, ops: Sequence[Op], results: Iterable[str]) -> Body:
    """Return the case of one part, with the operators without batch axis that it reads."""
    body, part_names, needed = step.body, {op.name for op in ops}, {step.case.valid, *results}
    case_ops = list[Op]()
    for op in reversed(body.ops):
        is_shared = step.labels[op.name] is Part.SHARED
        if op.name in part_names or (is_shared and not needed.isdisjoint(op.binds())):
            case_ops.append(op)
            needed.update(op.reads())
    own = names_bound_by(case_ops)
    infos = {n: info for n, info in body.vars.items() if n in needed | own}
    infos |= {n: infos[n].with_(kind=ARGUMENT) for n in infos.keys() - own}
    return body.with_(vars=infos, ops=tuple(reversed(case_ops)))


def _result_names(outputs: Iterable[Output]) -> set[str]:
    return {out.results[0] for out in outputs}


FISSION = Pass(
    "fission",
    split_ragged_steps,
    "Split ragged steps of loops into prologue, recurrent core and epilogue.",
    trusted=True,
)
