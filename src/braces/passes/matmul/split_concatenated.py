"""Take apart products of what is put together, where a part of them can leave the loop.

    …, … = loop(init=h0, sliced=rows)         w0, w1 = split(x=w) {sections=[3, 4], axis=0}
      captures [w] as l                       …, … = loop(…) captures [w0, w1] as l
      body (t, h: f32[b,4], r: f32[b,3]) {      body (t, h: f32[b,4], r: f32[b,3]) {
        k: f32[b,7] = concat(xs=[r, h])  ->       p: f32[b,4] = matmul(x=r, y=w0)
          {axis=1}                                q: f32[b,4] = matmul(x=h, y=w1)
        y: f32[b,4] = matmul(x=k, y=w)            y: f32[b,4] = add(x=p, y=q)
        …                                         …

So many people write a cell. The product of what only slices tell then goes before the loop:
`batch` takes it. The gradient of that cuts a product, of which only a part is what the next
trip needs; `defer` takes the rest, and what nobody reads is not computed.

    y: f32[b,7] = matmul(x=d, y=v)            p: f32[b,3] = matmul(x=d, y=v0)
    p: f32[b,3] = getitem(x=y) {…}       ->   q: f32[b,4] = matmul(x=d, y=v1)
    q: f32[b,4] = getitem(x=y) {…}

In a row-wise branch of the step, `split` then makes a branch of its own of what leaves.

What a product is multiplied by must be the same on each trip, and where nothing could leave the
loop, nothing is taken apart. Results are the same up to the order of additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from braces.builder.append import apply, call, one
from braces.builder.var import Var
from braces.define.axes.axis_map import axis_at, shape_of
from braces.define.decorator import OPS
from braces.dims import Size
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView
from braces.ops.control.batch_axis.analysis import axes_of
from braces.passes.batching.trip_space import apart
from braces.passes.core.context import gibibytes, larger, setting
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite_loops
from braces.passes.matmul.operand_axes import Joint, resized, total
from braces.passes.rows.trip_bodies import EachTrip

FIXED, LEAVES, STAYS = range(3)
"""Where parts are known, the first of which are added first."""


def separated(program: ProgramDef) -> ProgramDef:
    """A program whose loops keep nothing in a product that could leave them."""
    return rewrite_loops(program, None, _separate)


def _separate(view: LoopView, op: Op, place: Place) -> Change:
    if apart(view) is not None:
        return op
    found = {block.path: _Separating(block) for block in EachTrip.of(view, op, place)}
    if not any(each.at for each in found.values()):
        return op

    def rule(inside: Op, inner: Place) -> Change:
        return found[inner.path](inside, inner) if inner.path in found else inside

    return place.within(op, rule)


@dataclass(frozen=True)
class _Joined:
    """A product of several things that follow one another.

    Attributes:
        joint: Where the product has them.
        varying: At which of the two operands.
        runs: Those that are known in one place each, by turns.
    """

    joint: Joint
    varying: int
    runs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class _Cut:
    """A part of a product, as an operator cuts it.

    Attributes:
        product: The product.
        joint: Where what is cut lies side by side.
    """

    product: Op
    joint: Joint


class _Separating:
    """The rule by which the body of one loop is written anew.

    Attributes:
        block: The block.
        trips: The loop around it, or whose body it is.
        at: What becomes of operators, by their names.
        gone: The products of which all is cut.
    """

    def __init__(self, block: EachTrip) -> None:
        self.block = block
        self.trips = trips = block.trips
        self.at: dict[str, _Joined | _Cut] = {}
        self.gone = set[str]()
        for product in trips.body.ops:
            for joint in Joint.found(product, trips.type_of) if trips.varying(product) else ():
                names = [operand.name(product) for operand in joint.operands]
                fixed = [name for name in names if not trips.varies(name)]
                if len(fixed) != 1 or product.name in {*self.at, *self.gone}:
                    continue
                parts = dict(self._parts(product, joint))
                if parts and self._fits(product, joint, fixed[0], parts):
                    self.at |= parts

    def __call__(self, op: Op, inner: Place) -> Change:
        """What becomes of an operator of the block."""
        found = self.at.get(op.name)
        if op.name in self.gone:
            return None
        if found is None:
            return op
        with inner.building():
            made = (
                self._sum(found, op, inner)
                if isinstance(found, _Joined)
                else self._cut(found, op, inner)
            )
        return {name: made.name for name in op.binds()}

    # ---- what is taken apart -----------------------------------------------------------------

    def _parts(self, op: Op, joint: Joint) -> Iterator[tuple[str, _Joined | _Cut]]:
        """What becomes of a product, or of all that cuts it, where that frees some of it."""
        if joint.out is not None:
            cuts = self._cuts(op, joint)
            freed = [cut for cut in cuts if cut.name in self.block.after]
            if 0 < len(freed) < len(cuts) or self._is_read_in_part(op, cuts, joint.out):
                yield from ((cut.name, _Cut(op, joint)) for cut in cuts)
            return
        varying = [self.trips.varies(one.name(op)) for one in joint.operands].index(True)
        operand = joint.operands[varying]
        names = self._joined(operand.name(op), operand.axis)
        stays = [self._rank(name) == STAYS for name in names]
        if any(stays) and not all(stays) and op.name not in self.block.after:
            runs = groupby(names, key=self._rank)
            yield op.name, _Joined(joint, varying, tuple(tuple(run) for _, run in runs))

    def _rank(self, name: str) -> int:
        """Where something is known: outside, for all trips before the loop, or in its trip."""
        if not self.trips.varies(name):
            return FIXED
        return LEAVES if name in self.block.known else STAYS

    def _fits(
        self,
        op: Op,
        joint: Joint,
        fixed: str,
        parts: dict[str, _Joined | _Cut],
    ) -> bool:
        """Whether the parts are products like the whole, and there is room for them."""
        place, taken = self.block.where, self.trips.sizes_of([fixed])
        trips, machine = self.trips.length, setting().target
        if larger(taken, machine.stacked_bytes):
            size = f"the parts of `{fixed}` would take {gibibytes(taken)} more"
            note(place, f"keeps `{op.name}` whole: {size}")
            return False
        if isinstance(trips, int) and trips < machine.few_trips:
            note(place, f"keeps `{op.name}` whole: there are only {trips} trips")
            return False
        sizes = [size for name, part in parts.items() for size in self._sizes(name, part)]
        many = len(joint.operands)
        if not all(joint.holds(op, [size] * many, self.trips.type_of) for size in sizes):
            return False
        leaves = joint.out is None or any(name in self.block.after for name in parts)
        rest = "can leave it" if leaves else "is not read"
        note(place, f"takes `{op.name}` apart, of which some {rest}")
        self.gone.update([op.name] if joint.out is not None else [])
        return True

    def _sizes(self, name: str, part: _Joined | _Cut) -> Iterator[Size]:
        type_of = self.trips.type_of
        if isinstance(part, _Joined):
            axis = part.joint.operands[part.varying].axis
            yield from (total(run, axis, type_of) for run in part.runs)
        else:
            assert part.joint.out is not None
            (cut,) = (one for one in self.trips.body.ops if one.name == name)
            yield shape_of(type_of(next(cut.binds())))[part.joint.out]

    def _joined(self, name: str, axis: int) -> tuple[str, ...]:
        """What is put together along an axis, in its order; nothing where that is not known."""
        maker, type_of = self.trips.makers.get(name), self.trips.type_of
        if maker is None or not OPS.get(maker.type).joins:
            return ()
        along = axis_at(maker.attrs[OPS.get(maker.type).joins], len(shape_of(type_of(name))))
        names = tuple(maker.reads())
        whole, *parts = (resized(type_of(each), axis, 0) for each in (name, *names))
        return names if along == axis and all(part == whole for part in parts) else ()

    def _cuts(self, op: Op, joint: Joint) -> list[Op]:
        """All that reads a product, where each reader cuts a part of it; else nothing."""
        (result,), (operand,) = op.binds(), joint.operands
        rank = [len(shape_of(self.trips.type_of(name))) for name in (result, operand.name(op))]
        found = self.trips.readers.get(result, [])
        if result in self.trips.body.results or operand.axis != joint.out or rank[0] != rank[1]:
            return []
        return found if all(self._is_cut(reader, operand.axis) for reader in found) else []

    def _is_read_in_part(self, op: Op, cuts: list[Op], axis: int) -> bool:
        """Whether all that cuts a product leaves something of it out."""
        sizes = (shape_of(self.trips.type_of(next(one.binds())))[axis] for one in (op, *cuts))
        whole, *parts = (size if isinstance(size, int) else None for size in sizes)
        read = sum(part or 0 for part in parts)
        return whole is not None and None not in parts and 0 < read < whole

    def _is_cut(self, op: Op, axis: int) -> bool:
        """Whether an operator picks entries along an axis alone."""
        definition, outputs = OPS.get(op.type), [*op.binds()]
        if definition.operations != 0 or definition.picks != tuple(op.inputs):
            return False
        if len([*op.reads()]) != 1 or len(outputs) != 1 or definition.axes_rule is None:
            return False
        axes, (slot,), (out,) = axes_of(op, self.trips.type_of), op.inputs, op.outputs
        before, after = axes.of(slot), axes.of_output(out)
        others = [i for i in range(len(before)) if i != axis]
        return len(before) == len(after) and all(
            before[i] == after[i] and before[i] not in axes.mixed for i in others
        )

    # ---- building ----------------------------------------------------------------------------

    def _sum(self, found: _Joined, op: Op, inner: Place) -> Var:
        """The products of the parts, added, with those that stay last."""
        joint, which, type_of = found.joint, found.varying, self.trips.type_of
        axis, other = joint.operands[which].axis, joint.operands[1 - which]
        sizes = tuple(total(run, axis, type_of) for run in found.runs)
        with self.trips.place.building():
            whole = self.trips.value(other.name(op))
            pieces = call("split", whole, sections=sizes, axis=other.axis)
        terms = list[tuple[int, Var]]()
        for run, piece in zip(found.runs, pieces, strict=True):
            read = [inner.var(inner.names.get(name, name)) for name in run]
            joined = one("concat", *read, axis=axis) if len(read) > 1 else read[0]
            given = [joined, piece] if which == 0 else [piece, joined]
            terms.append((self._rank(run[0]), joint.build(op, given, inner.var)))
        first, *others = (term for _, term in sorted(terms, key=lambda term: term[0]))
        for term in others:
            first = first + term
        return first

    def _cut(self, found: _Cut, op: Op, inner: Place) -> Var:
        """The product with that part of what the whole was multiplied by."""
        (operand,), (slot,), (out,) = found.joint.operands, op.inputs, op.outputs
        with self.trips.place.building():
            whole = self.trips.value(operand.name(found.product))
            part = apply(op.type, {slot: [whole]}, op.attrs)[out][0]
        names = inner.names
        return found.joint.build(found.product, [part], lambda n: inner.var(names.get(n, n)))


SPLIT_CONCAT_MATMUL = Pass(
    "split_concat_matmul",
    separated,
    "Split matmuls of concatenated operands where a part can leave the loop.",
    trusted=True,
)
