"""Make one product of several in each trip of a loop, where they share an operand or are added.

    final=[…], … = loop(init=h0, …)           j: f32[4,8] = concat(xs=[u, v]) {axis=1}
      captures [u, v] as l                    final=[…], … = loop(…) captures [j] as l
      body (t: i64[], h: f32[b,4], …) {         body (t: i64[], h: f32[b,4], …) {
        p: f32[b,4] = matmul(x=h, y=u)            r: f32[b,8] = matmul(x=h, y=j)
        q: f32[b,4] = matmul(x=h, y=v)   ->       p, q = split(x=r) {sections=[4, 4], axis=1}
        …                                         …

One small product takes less time than several, so a cell costs the same whether its gates are
written one by one or together. What the products do not share is the same on each trip and is
put together once, before the loop; for few trips, or where it is large, that does not pay. The
gradient of such a cell adds up products:

    a: f32[b,4] = matmul(x=d, y=u)            k: f32[b,8] = concat(xs=[d, e]) {axis=1}
    c: f32[b,4] = matmul(x=e, y=v)            g: f32[b,4] = matmul(x=k, y=j)
    g: f32[b,4] = add(x=a, y=c)          ->

and the memories that sum up the products of the same `d` and `e` with something that they
share become one, which is taken apart after the loop:

    final=[us: f32[3,4], vs: f32[3,4]] =      zero: f32[3,8] = concat(xs=[z, z]) {axis=1}
      loop(init=[z, z], …) as l               final=[s: f32[3,8]] = loop(init=zero, …) as l
      body (…, m: f32[3,4], n: f32[3,4]) {      body (…, o: f32[3,8]) {
        x: f32[3,4] = matmul(x=w, y=d)            y: f32[3,8] = matmul(x=w, y=k)
        y: f32[3,4] = matmul(x=w, y=e)            o2: f32[3,8] = add(x=o, y=y)
        m2: f32[3,4] = add(x=m, y=x)   ->         return o2
        n2: f32[3,4] = add(x=n, y=y)            }
        return m2, n2                         us, vs = split(x=s) {sections=[4, 4], axis=1}
      }

What `batch` and `defer` take out of the loop is joined with nothing that stays. Products in a
row-wise branch of the step are joined like those beside it. Results are the
same up to the order of additions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from braces.builder.append import apply, call, one
from braces.builder.var import Var
from braces.define.axes.axis_map import shape_of
from braces.ir.records import ARGUMENT, Op, ProgramDef, VarInfo
from braces.ir.views import LoopView, Memory
from braces.passes.batching.batching_rule import turns_axes
from braces.passes.core.pipeline import Pass, note, noting
from braces.passes.core.rewrite import Change, Place, rewrite_loops
from braces.passes.matmul.fusion_groups import Groups, Shared, Sum, Totals
from braces.passes.matmul.operand_axes import Joint, axis_before
from braces.passes.rows.trip_bodies import EachTrip


def merged(program: ProgramDef) -> ProgramDef:
    """A program whose loops make one product of several in each trip."""
    said, before = dict[tuple[str, str], None](), None
    while before is not program:  # what is joined may share an operand with others
        before = program
        with noting() as notes:
            program = rewrite_loops(program, None, _merge)
        said |= dict.fromkeys((one.where, one.what) for one in notes)
    for where, what in said:
        note(where, what)
    return program


def _merge(view: LoopView, op: Op, place: Place) -> Change:
    for groups in map(Groups, EachTrip.of(view, op, place)):
        if groups.choose():
            return _Merging(groups, op).built()  # and the next time what else there is
    return op


class _Merging:
    """The rule by which the body of one loop is written anew.

    Attributes:
        groups: What is joined there.
        op: The loop.
        place: Where it stands.
        memories: The memories that take the place of others.
        parts: The parts of a product, by what was joined for them.
        joined: What stands for several variables of a trip, one after another on an axis.
    """

    def __init__(self, groups: Groups, op: Op) -> None:
        self.groups = groups
        self.op = op
        self.place = groups.trips.place
        self.path = groups.block.path
        self.memories: dict[Totals, Memory] = {}
        self.joined: dict[tuple[tuple[str, ...], int], Var] = {}
        self.parts: dict[Shared, dict[str, Var]] = {}

    def built(self) -> Change:
        """The loop, and what its outputs are called from then on."""
        op = self.place.within(self.op, self)
        if not self.memories:
            return op
        view = LoopView.of(op)
        gone = {memory.param for found in self.memories for memory in found.memories}
        kept = [memory for memory in view.memories if memory.param not in gone]
        loop = replace(view, memories=(*kept, *self.memories.values()), origin=op)
        finals = [
            VarInfo(memory.final, loop.content.vars[memory.param].type)
            for memory in self.memories.values()
        ]
        self.place.keep(loop.to_op(), finals)
        names = dict[str, str]()
        for found, memory in self.memories.items():
            with self.place.building():
                parts = self._apart(self.place.var(memory.final), found.joint, found.ops)
            names |= {
                old.final: new.name for old, new in zip(found.memories, parts, strict=True)
            }
        return names

    def __call__(self, op: Op, inner: Place) -> Change:
        """What becomes of an operator of the body."""
        if inner.path != self.path:
            return op
        if op.name in self.groups.gone:
            return None
        match self.groups.at.get(op.name):
            case Shared() as found:
                return self._beside(found, op, inner)
            case Sum() as found:
                return self._added(found, inner)
            case Totals(memories=()) as found:
                return self._given(found, op, inner)
            case Totals() as found:
                return self._summed(found, inner)
            case None:
                return op

    # ---- each of them ------------------------------------------------------------------------

    def _beside(self, found: Shared, op: Op, inner: Place) -> Change:
        """One product; what each of them was is a part of it."""
        (operand,) = found.joint.operands
        joined = {product.name: operand.name(product) for product in found.ops}
        if op.name == found.ops[0].name:
            given = [self._before(found.names, operand.axis, inner)]
            ops = {joined[product.name]: product for product in reversed(found.ops)}
            with inner.building():
                product = found.joint.build(found.ops[0], given, self._reader(inner))
                ordered = [ops[name] for name in found.names]
                parts = self._apart(product, found.joint, ordered)
            self.parts[found] = dict(zip(found.names, parts, strict=True))
        return {name: self.parts[found][joined[op.name]].name for name in op.binds()}

    def _added(self, found: Sum, inner: Place) -> Change:
        """One product, and what else is added to it."""
        joint, which = found.joint, found.varying
        fixed = self._before(found.names(1 - which), joint.operands[1 - which].axis, inner)
        varying = self._together(found.names(which), joint.operands[which].axis, inner)
        given = [varying, fixed] if which == 0 else [fixed, varying]
        read = self._reader(inner)
        with inner.building():
            sum_ = joint.build(found.ops[0], given, read)
            for name in found.rest:
                sum_ = call(found.root.type, read(name), sum_)
        return {name: sum_.name for name in found.root.binds()}

    def _summed(self, found: Totals, inner: Place) -> Change:
        """One memory to which one product is added."""
        (operand,), first = found.joint.operands, found.memories[0]
        out, link = found.joint.out, found.links[0]
        assert out is not None
        with self.place.building():
            inits = [self.place.var(memory.init) for memory in found.memories]
            init = one("concat", *inits, axis=out)
        joined = self._together(found.names, operand.axis, inner)
        param = inner.table.new_var(type=init.type, kind=ARGUMENT, stem=first.param)
        with inner.building():
            product = found.joint.build(found.ops[0], [joined], self._reader(inner))
            after = call(link.type, inner.var(param.name), product)
        final = self.place.table.names.unique(first.final)
        self.memories[found] = Memory(init.name, param.name, after.name, final)
        return None

    def _given(self, found: Totals, op: Op, inner: Place) -> Change:
        """One product, of which each that the block gives is a part."""
        (operand,) = found.joint.operands
        joined = self._together(found.names, operand.axis, inner)
        with inner.building():
            product = found.joint.build(found.ops[0], [joined], self._reader(inner))
            parts = self._apart(product, found.joint, found.ops)
        pairs = zip(found.ops, parts, strict=True)
        names = {name: part.name for one, part in pairs for name in one.binds()}
        inner.stand_for(names)
        return {name: names[name] for name in op.binds()}

    # ---- joining and taking apart ------------------------------------------------------------

    def _before(self, names: Sequence[str], axis: int, inner: Place) -> Var:
        """What is the same on each trip, one after another, put together before the loop.

        What changes the order of axes alone does so behind that, in the trip, for a product
        reads it as it lies.
        """
        trips = self.groups.trips
        turns = [op for name in names if (op := trips.makers.get(name)) and turns_axes(op)]
        alike = {(op.type, tuple(op.attrs.items())) for op in turns}
        if len(turns) != len(names) or len(alike) != 1:
            with self.place.building():
                return one("concat", *map(trips.value, names), axis=axis)
        axis = axis_before(turns[0], axis, trips.type_of)
        joined = self._before([name for op in turns for name in op.reads()], axis, inner)
        with inner.building():
            slots = {slot: (joined,) for slot in turns[0].inputs}
            return apply(turns[0].type, slots, turns[0].attrs)[next(iter(turns[0].outputs))][0]

    def _together(self, names: tuple[str, ...], axis: int, inner: Place) -> Var:
        """What varies, one after another, put together once in each trip."""
        if (names, axis) not in self.joined:
            with inner.building():
                made = one("concat", *map(self._reader(inner), names), axis=axis)
            self.joined[names, axis] = made
        return self.joined[names, axis]

    def _apart(self, joined: Var, joint: Joint, ops: Sequence[Op]) -> Sequence[Var]:
        """What belongs to each of the products."""
        (operand,) = joint.operands
        type_of, axis = self.groups.trips.type_of, operand.axis
        sizes = tuple(shape_of(type_of(operand.name(op)))[axis] for op in ops)
        return call("split", joined, sections=sizes, axis=joint.out)

    def _reader(self, inner: Place) -> Callable[[str], Var]:
        """What stands for a name of the body as it was."""
        return lambda name: inner.var(inner.names.get(name, name))


FUSE_MATMULS = Pass(
    "fuse_matmuls",
    merged,
    "Fuse matmuls of an iteration that share an operand or are added.",
    trusted=True,
)
