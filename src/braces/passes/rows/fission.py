"""Split the row-wise branch of a step into what no other trip needs, and what recurs.

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

So are steps with `lengths`, and their gradients. The first branch reads slices alone, so
`batch` computes it before the loop for all trips at once; no trip needs the last one, so
`defer` computes it after the loop, what it adds up included. All rows run the same operators
on the same numbers as before, and rows that do not run still run none.

Where a row stops by itself, which rows run is not known before its trip: what needs slices
alone waits for that, since no row that does not run is computed. Its gradient knows.

A branch is split where that takes something costly out of what recurs. Nothing is handed on
that is not one a row; what is the same for all rows is computed where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from braces.ir.records import ARGUMENT, Body, Op, ProgramDef
from braces.ir.views import LoopView, Operand, Output, PartitionView, view_of
from braces.ir.walk import all_bodies
from braces.ops.control.construct.build import append_construct
from braces.ops.control.partition.residuals import from_linear
from braces.passes.batching.batching_rule_rows import in_place
from braces.passes.batching.trip_space import Trips
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite
from braces.passes.rows.fission_parts import Parts, bound_by


def split_steps(program: ProgramDef) -> ProgramDef:
    """A program whose row-wise steps are split by what other trips need of them."""
    inner = (op for body, around in all_bodies(program.main) if around for op in body.ops)
    if not any(isinstance(view_of(op), PartitionView) for op in inner if op.bodies()):
        return program  # as most are, and the walk would take longer
    return rewrite(program, _split)


def _split(op: Op, place: Place) -> Change:
    view, owner = view_of(op), place.owner
    if not isinstance(view, PartitionView) or not in_place(view):
        return op
    loop = view_of(owner) if owner else None
    if owner is None or place.outer is None or not isinstance(loop, LoopView):
        return op
    (before,) = (one for one in place.body.ops if one.name == op.name)
    as_it_was = {*op.reads()} == {*before.reads()}  # so what the trips know of it is right
    trips = Trips.of(loop, owner, place.outer) if as_it_was else None
    if trips is None:
        return op
    parts = Parts(view, trips)
    if parts.waiting:
        why = "though it needs slices alone: which rows run is not known before"
        note(place.where(op), f"computes {_named(parts.waiting)} in each trip, {why}")
    each = (parts.before, parts.others(), parts.after)
    if sum(map(bool, each)) < 2:
        return op
    _say(place.where(op), parts)
    with place.building():
        return _built(place, parts, each)


def _say(where: str, parts: Parts) -> None:
    for ops, why in (
        (parts.before, "needs slices alone"),
        (parts.after, "no later trip needs"),
    ):
        if ops:
            note(where, f"has what {why} in a branch of its own: {_named(ops)}")


def _named(ops: Iterable[Op]) -> str:
    return ", ".join(f"`{op.name}`" for op in ops)


def _built(place: Place, parts: Parts, each: Sequence[Sequence[Op]]) -> dict[str, str]:
    """Append a branch for each part; what stands for the outputs of the branch."""
    view, body, made = parts.view, parts.body, dict[str, str]()
    rest = {*body.results} - bound_by(op for ops in each for op in ops)
    for i, ops in enumerate(each):
        later = {name for others in each[i + 1 :] for op in others for name in op.reads()}
        own = bound_by(ops) | (rest if i == 1 else set[str]())
        outs = [n for n in body.vars if n in own and n in later | _results(view.outs)]
        sums = [n for n in body.vars if n in own and n in _results(view.sums)]
        if outs or sums:
            made |= _appended(place, parts, ops, outs, sums, made)
    return {out.name: made[out.results[0]] for out in view.outputs}


def _appended(
    place: Place,
    parts: Parts,
    ops: Sequence[Op],
    outs: Sequence[str],
    sums: Sequence[str],
    made: Mapping[str, str],
) -> dict[str, str]:
    """Append a branch for one part; what it gives, by what the case called it.

    Args:
        place: Where the branch stands.
        parts: All parts.
        ops: The operators of this one.
        outs: What it gives row by row.
        sums: What it adds up.
        made: What the parts before give.
    """
    view, linear = parts.view, from_linear(parts.view, 0)
    content = _content(parts, ops, (*outs, *sums))
    given = {row.params[0]: row for row in view.rows}
    params = [name for name, info in content.vars.items() if info.kind == ARGUMENT]
    handed = (name for name in params if name != parts.case.valid)
    op = replace(
        view,
        cases=(replace(parts.case, content=content),),
        rows=tuple(
            given.get(name) or Operand(made[name], (name,), name in linear) for name in handed
        ),
        outs=tuple(Output("", (name,)) for name in outs),
        sums=tuple(Output("", (name,)) for name in sums),
        origin=Op(view.origin.type, "", {}, {}, source=view.origin.source),
    ).to_op()
    built, _ = append_construct(place.program, op)
    names = (out.name for out in PartitionView.of(built).outputs)
    return dict(zip((*outs, *sums), names, strict=True))


def _content(parts: Parts, ops: Sequence[Op], results: Iterable[str]) -> Body:
    """The case of one part, with what it reads that is the same for all rows."""
    body, chosen, needed = parts.body, {op.name for op in ops}, {parts.case.valid, *results}
    kept = list[Op]()
    for op in reversed(body.ops):
        shared = parts.is_shared(op) and not needed.isdisjoint(op.binds())
        if op.name in chosen or shared:
            kept.append(op)
            needed.update(op.reads())
    own = bound_by(kept)
    infos = {n: info for n, info in body.vars.items() if n in needed | own}
    infos |= {n: infos[n].with_(kind=ARGUMENT) for n in infos.keys() - own}
    return body.with_(vars=infos, ops=tuple(reversed(kept)))


def _results(outputs: Iterable[Output]) -> set[str]:
    return {out.results[0] for out in outputs}


FISSION = Pass(
    "fission",
    split_steps,
    "Split ragged steps of loops into prologue, recurrent core and epilogue.",
    trusted=True,
)
