"""Rematerialization: recompute in a gradient the residuals that are too large to stack.

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

A residual that one loop stacks and another scans is recomputed if it exceeds the memory limit
for all iterations. Its operands must be scanned inputs or stacked outputs of the first loop.
Otherwise, or if another operator reads the stack, it is saved: products that fit into memory
never run twice. `strip_mine` then ensures that neither loop holds all of it.
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
from braces.passes.batching.iteration_space import trip_count
from braces.passes.cleanup.dead_code import eliminate_dead_code
from braces.passes.core.context import exceeds_memory, format_total_bytes, surely_fit
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops


def rematerialize(program: ProgramDef) -> ProgramDef:
    """Return a program whose loops rematerialize residuals that are too large."""
    new_program = rewrite_loops(
        program, None, partial(_rematerialize, {*program.updates.values()})
    )
    return new_program if new_program is program else eliminate_dead_code(new_program)


def _rematerialize(
    updates: Set[str], view: LoopView, op: Op, place: InsertionPoint
) -> Replacement:
    if not view.counted or surely_fit(_scanned_bytes(view), trip_count(view, place)):
        return op
    required_names, hidden = updates | {*place.body.results}, view.content.vars
    candidates = (
        _Recomputable.of(candidate, place)
        for candidate in view.slices
        if candidate.source not in required_names
    )
    recomputable = [
        candidate
        for candidate in candidates
        if candidate is not None and candidate.names.isdisjoint(hidden)
    ]
    return _Rematerialization(recomputable, view, place).build_loop(op) if recomputable else op


def _scanned_bytes(view: LoopView) -> list[Size]:
    return [bytes_of(view.content.vars[scanned.param].type) for scanned in view.slices]


# ---- candidates ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Recomputable:
    """A scanned input that can be rematerialized.

    Attributes:
        cut: The scanned input.
        maker: The loop that stacks its source.
        result: Its name in that loop.
        ops: The operators that compute it, in order.
        names: Captures of these operators.
    """

    cut: Slice
    maker: LoopView
    result: str
    ops: tuple[Op, ...]
    names: frozenset[str]

    @classmethod
    def of(cls, cut: Slice, place: InsertionPoint) -> _Recomputable | None:
        """Return the candidate of a scanned input; `None` if small or not recomputable."""
        maker_op = place.maker(cut.source) if cut.source in place.table.vars else None
        maker = view_of(maker_op) if maker_op is not None else None
        if not isinstance(maker, LoopView) or not maker.counted or maker.max_trips is not None:
            return None
        (result,) = (row.result for row in maker.rows if row.stacked == cut.source)
        if not _too_large(maker, result, place) or not all(_reads_by_scan(cut.source, place)):
            return None
        ops = _ops_computing(maker, result, _available_values(maker, place))
        if not ops:
            return None
        read_names = (name for op in ops for name in op.reads())
        outside = frozenset(name for name in read_names if name not in maker.content.vars)
        return cls(cut, maker, result, ops, outside)


def _too_large(maker: LoopView, name: str, place: InsertionPoint) -> bool:
    info = maker.content.vars.get(name) or place.info(name)
    return exceeds_memory([bytes_of(info.type)], trip_count(maker, place))


def _reads_by_scan(source: str, place: InsertionPoint) -> Iterator[bool]:
    """Yield for each reader of a value whether it is a loop that only scans it."""
    for op in place.body.ops:
        times, view = [*op.reads()].count(source), view_of(op)
        if times and isinstance(view, LoopView) and view.counted:
            yield [scanned.source for scanned in view.slices].count(source) == times
        elif times:
            yield False


def _available_values(maker: LoopView, place: InsertionPoint) -> dict[str, str]:
    """Return the sources of scanned inputs and small stacked outputs, by name in the loop."""
    rows = (
        row
        for row in maker.rows
        if row.result in maker.content.vars and not _too_large(maker, row.result, place)
    )
    return {row.result: row.stacked for row in rows} | {
        scanned.param: scanned.source for scanned in maker.slices
    }


def _ops_computing(maker: LoopView, name: str, available: Collection[str]) -> tuple[Op, ...]:
    """Return the operators that compute a value from available ones; none if not possible."""
    body, needed, needed_ops = maker.body, {name}, list[Op]()
    for op in reversed(body.ops):
        if needed.isdisjoint(op.binds()):
            continue
        if op.bodies():
            return ()
        needed_ops.append(op)
        needed.difference_update(op.binds())
        needed.update(n for n in op.reads() if n in body.vars and n not in available)
    return () if needed - {maker.index} else tuple(reversed(needed_ops))


# ---- rewriting -------------------------------------------------------------------------------


class _Rematerialization:
    """Rewriting rule of a loop that rematerializes some of its scanned inputs.

    Attributes:
        recomputable: The scanned inputs.
        view: The loop, with the operands of the recomputation as further scanned inputs.
        place: Insertion point of the loop.
        values: New names of values, by the loops that stacked them and their names there.
        names: New names of the scanned inputs.
    """

    def __init__(
        self, recomputable: list[_Recomputable], view: LoopView, place: InsertionPoint
    ) -> None:
        self.recomputable = recomputable
        self.view = view
        self.place = place
        self.values: dict[str, dict[str, str]] = {}
        self.names: dict[str, str] = {}

    def build_loop(self, op: Op) -> Op:
        """Return the loop."""
        param_names = "`, `".join(item.cut.param for item in self.recomputable)
        sizes = [
            bytes_of(self.view.content.vars[item.cut.param].type) for item in self.recomputable
        ]
        size = format_total_bytes(sizes, trip_count(self.view, self.place))
        note(
            self.place.where(op),
            f"rematerialized `{param_names}`: saving would take {size}",
        )
        for item in self.recomputable:
            self.values.setdefault(item.maker.origin.name, self._available_values(item.maker))
        new_view = LoopView.of(self.place.within(self.view.to_op(), self))
        remaining = (item for item in new_view.slices if item.param not in self.names)
        return replace(new_view, slices=tuple(remaining)).to_op()

    def _available_values(self, maker: LoopView) -> dict[str, str]:
        """Return names here for scanned inputs and stacked outputs of the other loop."""
        values, read_names = (
            {maker.index: self.view.index},
            {name for item in self.recomputable for op in item.ops for name in op.reads()},
        )
        for name, source in _available_values(maker, self.place).items():
            if name in read_names:
                values[name] = self._scanned_param(source, name, maker)
        return values

    def _scanned_param(self, source: str, stem: str, maker: LoopView) -> str:
        """Return the scanned input for a source; add one if there is none."""
        for scanned in self.view.slices:
            if scanned.source == source:
                return scanned.param
        content = self.view.content
        info = maker.content.vars[stem]
        name = self.place.table.names.unique(stem)
        content = content.with_(
            vars={**content.vars, name: info.with_(name=name, kind=ARGUMENT)}
        )
        slices = (*self.view.slices, Slice(source, name))
        self.view = replace(self.view, content=content, slices=slices)
        return name

    def __call__(self, op: Op, inner: InsertionPoint) -> Replacement:
        """Return the replacement of an operator; the recomputation precedes the first one."""
        if inner.outer is not self.place:
            return op
        if not self.names:
            with inner.building():
                for item in self.recomputable:
                    self._build_recomputation(item, inner)
            inner.stand_for(self.names)
            return rename_op(op, self.names)
        return op

    def _build_recomputation(self, item: _Recomputable, inner: InsertionPoint) -> None:
        values = self.values[item.maker.origin.name]

        def value(name: str) -> Var:
            return inner.var(values.get(name, name))

        for op in item.ops:
            if values.keys() >= {*op.binds()}:
                continue
            inputs = {slot: [*map(value, names)] for slot, names in op.inputs.items()}
            with inner.program.at(op.source):
                results = apply(op.type, inputs, op.attrs, wanted=tuple(op.outputs))
            for slot, names in op.outputs.items():
                pairs = zip(names, results[slot], strict=True)
                values |= {name: var.name for name, var in pairs}
        self.names[item.cut.param] = values[item.result]


REMATERIALIZE = Pass(
    "rematerialize",
    rematerialize,
    "Recompute residuals in a gradient where storing them takes too much memory.",
    trusted=True,
)
