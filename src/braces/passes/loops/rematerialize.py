"""Compute again in a gradient what would take too much to keep for all trips.

    zs: f32[4096,…,50000], es, hs, … =        es, hs, … = loop(…) captures [w]
      loop(…) captures [w]                      body (…) {
      body (…) {                                  …
        …                                         z: f32[…,50000] = matmul(x=h, y=w)
        z: f32[…,50000] = matmul(x=h, y=w)        e: f32[…] = softmax_cross_entropy(…)
        e: f32[…] = softmax_cross_entropy(…)      return …, e, h
        return …, z, e, h                  ->   }
      }                                       … = loop(sliced=[hs, …]) captures [w]
    … = loop(sliced=[zs, hs, …])                body (…, h: f32[…], …) {
      body (…, z: f32[…,50000], h: …, …) {        z: f32[…,50000] = matmul(x=h, y=w)
        …                                         …
      }                                         }

What a loop stacks for another to cut from, and what takes more than passes may compute for all
trips at once, is computed there from what the first loop is given or stacks anyway. Where it is
made of something else, or something else reads the rows, it is kept: products that fit into
memory never run twice. `chunk` then sees to it that the whole of it exists in neither loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass, replace
from functools import partial

from braces.builder.append import apply
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import bytes_of
from braces.ir.records import ARGUMENT, Op, ProgramDef
from braces.ir.views import LoopView, Slice, view_of
from braces.ir.walk import rename_op
from braces.passes.batching.trip_space import length_of
from braces.passes.cleanup.dead_code import eliminated
from braces.passes.core.context import gibibytes, surely_fit, too_many
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite_loops


def recomputed(program: ProgramDef) -> ProgramDef:
    """A program whose loops keep nothing for others that is too large and can be made again."""
    made = rewrite_loops(program, None, partial(_recompute, {*program.updates.values()}))
    return made if made is program else eliminated(made)


def _recompute(updates: Set[str], view: LoopView, op: Op, place: Place) -> Change:
    if not view.counted or surely_fit(_cut_bytes(view), length_of(view, place)):
        return op
    kept, hidden = updates | {*place.body.results}, view.content.vars
    found = (_Again.of(one, place) for one in view.slices if one.source not in kept)
    again = [one for one in found if one is not None and one.names.isdisjoint(hidden)]
    return _Making(again, view, place).built(op) if again else op


def _cut_bytes(view: LoopView) -> list[Size]:
    return [bytes_of(view.content.vars[one.param].type) for one in view.slices]


# ---- what can be made again ------------------------------------------------------------------


@dataclass(frozen=True)
class _Again:
    """A slice that can be made again.

    Attributes:
        cut: The slice.
        maker: The loop that stacks what it is cut from.
        result: What it is called there.
        ops: The operators that make it, in order.
        names: What those read that stands outside of the loop.
    """

    cut: Slice
    maker: LoopView
    result: str
    ops: tuple[Op, ...]
    names: frozenset[str]

    @classmethod
    def of(cls, cut: Slice, place: Place) -> _Again | None:
        """How it is made; `None` where it is not too large, or cannot be made again."""
        made = place.maker(cut.source) if cut.source in place.table.vars else None
        maker = view_of(made) if made is not None else None
        if not isinstance(maker, LoopView) or not maker.counted or maker.max_trips is not None:
            return None
        (result,) = (row.result for row in maker.rows if row.stacked == cut.source)
        if not _too_large(maker, result, place) or not all(_only_cuts(cut.source, place)):
            return None
        ops = _made_of(maker, result, _given(maker, place))
        if not ops:
            return None
        read = (name for op in ops for name in op.reads())
        outside = frozenset(name for name in read if name not in maker.content.vars)
        return cls(cut, maker, result, ops, outside)


def _too_large(maker: LoopView, name: str, place: Place) -> bool:
    info = maker.content.vars.get(name) or place.info(name)
    return too_many([bytes_of(info.type)], length_of(maker, place))


def _only_cuts(source: str, place: Place) -> Iterator[bool]:
    """For each operator that reads something, whether it is a loop that only cuts it."""
    for op in place.body.ops:
        times, view = [*op.reads()].count(source), view_of(op)
        if times and isinstance(view, LoopView) and view.counted:
            yield [one.source for one in view.slices].count(source) == times
        elif times:
            yield False


def _given(maker: LoopView, place: Place) -> dict[str, str]:
    """What a loop cuts, or stacks and is small, by the name in it: all of it outside."""
    rows = (
        row
        for row in maker.rows
        if row.result in maker.content.vars and not _too_large(maker, row.result, place)
    )
    return {row.result: row.stacked for row in rows} | {
        one.param: one.source for one in maker.slices
    }


def _made_of(maker: LoopView, name: str, given: Collection[str]) -> tuple[Op, ...]:
    """The operators that make something of what is given; none where others are needed."""
    body, needed, found = maker.body, {name}, list[Op]()
    for op in reversed(body.ops):
        if needed.isdisjoint(op.binds()):
            continue
        if op.bodies():
            return ()
        found.append(op)
        needed.difference_update(op.binds())
        needed.update(n for n in op.reads() if n in body.vars and n not in given)
    return () if needed - {maker.index} else tuple(reversed(found))


# ---- making it -------------------------------------------------------------------------------


class _Making:
    """The rule by which a loop computes again what it cut.

    Attributes:
        again: The slices.
        view: The loop, with what they are made of as further slices.
        place: Where it stands.
        values: What stands for names of the loops that stacked them, by those loops.
        names: What stands for the slices.
    """

    def __init__(self, again: list[_Again], view: LoopView, place: Place) -> None:
        self.again = again
        self.view = view
        self.place = place
        self.values: dict[str, dict[str, str]] = {}
        self.names: dict[str, str] = {}

    def built(self, op: Op) -> Op:
        """The loop."""
        said = "`, `".join(one.cut.param for one in self.again)
        sizes = [bytes_of(self.view.content.vars[one.cut.param].type) for one in self.again]
        size = gibibytes(sizes, length_of(self.view, self.place))
        note(self.place.where(op), f"computes `{said}` again: to keep it would take {size}")
        for one in self.again:
            self.values.setdefault(one.maker.origin.name, self._given(one.maker))
        made = LoopView.of(self.place.within(self.view.to_op(), self))
        left = (one for one in made.slices if one.param not in self.names)
        return replace(made, slices=tuple(left)).to_op()

    def _given(self, maker: LoopView) -> dict[str, str]:
        """What the other loop cuts or stacks, as it is called in this one."""
        values, read = (
            {maker.index: self.view.index},
            {name for one in self.again for op in one.ops for name in op.reads()},
        )
        for name, source in _given(maker, self.place).items():
            if name in read:
                values[name] = self._cut(source, name, maker)
        return values

    def _cut(self, source: str, stem: str, maker: LoopView) -> str:
        """The slice of something, a further one where there is none."""
        for one in self.view.slices:
            if one.source == source:
                return one.param
        content = self.view.content
        info = maker.content.vars[stem]
        name = self.place.table.names.unique(stem)
        content = content.with_(
            vars={**content.vars, name: info.with_(name=name, kind=ARGUMENT)}
        )
        slices = (*self.view.slices, Slice(source, name))
        self.view = replace(self.view, content=content, slices=slices)
        return name

    def __call__(self, op: Op, inner: Place) -> Change:
        """What becomes of an operator of the body: before the first all is made."""
        if inner.outer is not self.place:
            return op
        if not self.names:
            with inner.building():
                for one in self.again:
                    self._make(one, inner)
            inner.stand_for(self.names)
            return rename_op(op, self.names)
        return op

    def _make(self, again: _Again, inner: Place) -> None:
        values = self.values[again.maker.origin.name]

        def value(name: str) -> Var:
            return inner.var(values.get(name, name))

        for op in again.ops:
            if values.keys() >= {*op.binds()}:
                continue
            inputs = {slot: [*map(value, names)] for slot, names in op.inputs.items()}
            with inner.program.at(op.source):
                made = apply(op.type, inputs, op.attrs, wanted=tuple(op.outputs))
            for slot, names in op.outputs.items():
                pairs = zip(names, made[slot], strict=True)
                values |= {name: var.name for name, var in pairs}
        self.names[again.cut.param] = values[again.result]


REMATERIALIZE = Pass(
    "rematerialize",
    recomputed,
    "Recompute residuals in a gradient where storing them takes too much memory.",
    trusted=True,
)
