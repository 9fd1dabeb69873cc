"""GEMM fusion: one product for several in a loop that share an operand or are added.

    final=[…], … = loop(init=h0, …)           j: f32[4,8] = concat(xs=[u, v]) {axis=1}
      captures [u, v] as l                    final=[…], … = loop(…) captures [j] as l
      body (t: i64[], h: f32[b,4], …) {         body (t: i64[], h: f32[b,4], …) {
        p: f32[b,4] = matmul(x=h, y=u)            r: f32[b,8] = matmul(x=h, y=j)
        q: f32[b,4] = matmul(x=h, y=v)   ->       p, q = split(x=r) {sections=[4, 4], axis=1}
        …                                         …

One large product is faster than several small ones, so the gates of a cell cost the same if
written separately. The operands that the products do not share are loop-invariant, and are
concatenated once, before the loop. For few iterations, or for large operands, that does not
pay. The gradient of such a cell adds products:

    a: f32[b,4] = matmul(x=d, y=u)            k: f32[b,8] = concat(xs=[d, e]) {axis=1}
    c: f32[b,4] = matmul(x=e, y=v)            g: f32[b,4] = matmul(x=k, y=j)
    g: f32[b,4] = add(x=a, y=c)          ->

The accumulators of the products of the same `d` and `e` with a shared operand become one
accumulator, which is split after the loop:

    final=[us: f32[3,4], vs: f32[3,4]] =      zero: f32[3,8] = concat(xs=[z, z]) {axis=1}
      loop(init=[z, z], …) as l               final=[s: f32[3,8]] = loop(init=zero, …) as l
      body (…, m: f32[3,4], n: f32[3,4]) {      body (…, o: f32[3,8]) {
        x: f32[3,4] = matmul(x=w, y=d)            y: f32[3,8] = matmul(x=w, y=k)
        y: f32[3,4] = matmul(x=w, y=e)            o2: f32[3,8] = add(x=o, y=y)
        m2: f32[3,4] = add(x=m, y=x)   ->         return o2
        n2: f32[3,4] = add(x=n, y=y)            }
        return m2, n2                         us, vs = split(x=s) {sections=[4, 4], axis=1}
      }

Products that `vectorize_before` and `vectorize_after` move out of the loop are not fused with
products that stay. Products in a partitioned branch of the step are fused like those outside of
it. Results are the same up to the order of additions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from braces.builder.append import apply, call, emit
from braces.builder.var import Var
from braces.define.axes.axis_map import shape_of
from braces.ir.records import ARGUMENT, Op, ProgramDef, VarInfo
from braces.ir.views import LoopView, MemoryView
from braces.passes.batching.batching_rule import is_transpose
from braces.passes.core.pipeline import Pass, collect_notes, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops
from braces.passes.matmul.fusion_candidates import (
    AccumulatorGroup,
    ResultGroup,
    SharedOperandGroup,
    SumOfProducts,
)
from braces.passes.matmul.fusion_groups import FusionGroups
from braces.passes.matmul.operand_axes import FusionAxis, source_axis
from braces.passes.rows.iteration_blocks import IterationBlock


def fuse_matmuls(program: ProgramDef) -> ProgramDef:
    """Return a program with the matrix products in its loops fused."""
    all_notes, before = dict[tuple[str, str], None](), None
    while before is not program:  # a fused product may share an operand with others
        before = program
        with collect_notes() as notes:
            program = rewrite_loops(program, None, _fuse_loop)
        all_notes |= dict.fromkeys((entry.where, entry.what) for entry in notes)
    for where, what in all_notes:
        note(where, what)
    return program


def _fuse_loop(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
    for groups in map(FusionGroups, IterationBlock.of(view, op, place)):
        if groups.choose():
            return _Fusion(groups, op).fuse()  # other groups follow in the next round
    return op


class _Fusion:
    """Rewriting rule that fuses the products in the body of one loop.

    Attributes:
        groups: The fusion groups.
        op: The loop.
        place: Insertion point of the loop.
        memories: New memories, by the accumulators that they replace.
        parts: Split results of fused products, by group.
        joined: Concatenated values of an iteration, by their names and the axis.
    """

    def __init__(self, groups: FusionGroups, op: Op) -> None:
        self.groups = groups
        self.op = op
        self.place = groups.trips.place
        self.path = groups.block.path
        self.memories: dict[AccumulatorGroup, MemoryView] = {}
        self.joined: dict[tuple[tuple[str, ...], int], Var] = {}
        self.parts: dict[SharedOperandGroup, dict[str, Var]] = {}

    def fuse(self) -> Replacement:
        """Return the loop, or the new names of its outputs."""
        op = self.place.within(self.op, self)
        if not self.memories:
            return op
        view = LoopView.of(op)
        replaced_params = {memory.param for group in self.memories for memory in group.memories}
        remaining = [memory for memory in view.memories if memory.param not in replaced_params]
        loop = replace(view, memories=(*remaining, *self.memories.values()), origin=op)
        finals = [
            VarInfo(memory.final, loop.content.vars[memory.param].type)
            for memory in self.memories.values()
        ]
        self.place.keep(loop.to_op(), finals)
        names = dict[str, str]()
        for group, memory in self.memories.items():
            with self.place.building():
                parts = self._split_result(self.place.var(memory.final), group.joint, group.ops)
            names |= {
                old.final: new.name for old, new in zip(group.memories, parts, strict=True)
            }
        return names

    def __call__(self, op: Op, inner: InsertionPoint) -> Replacement:
        """Return the replacement of an operator of the body."""
        if inner.path != self.path:
            return op
        if op.name in self.groups.gone:
            return None
        match self.groups.at.get(op.name):
            case SharedOperandGroup() as group:
                return self._fuse_shared(group, op, inner)
            case SumOfProducts() as group:
                return self._fuse_sum(group, inner)
            case AccumulatorGroup() as group:
                return self._fuse_accumulators(group, inner)
            case ResultGroup() as group:
                return self._fuse_results(group, op, inner)
            case _:
                return op

    # ---- each of them ------------------------------------------------------------------------

    def _fuse_shared(
        self, group: SharedOperandGroup, op: Op, inner: InsertionPoint
    ) -> Replacement:
        """Fuse products with a shared operand; each is a part of the result."""
        (operand,), (names,) = group.joint.operands, group.operands
        joined_names = {product.name: operand.name(product) for product in group.ops}
        if op.name == group.ops[0].name:
            new_operands = [self._concat_invariant(names, operand.axis, inner)]
            ops = {joined_names[product.name]: product for product in reversed(group.ops)}
            with inner.building():
                product = group.joint.build(
                    group.ops[0], new_operands, self._current_var(inner)
                )
                ordered = [ops[name] for name in names]
                parts = self._split_result(product, group.joint, ordered)
            self.parts[group] = dict(zip(names, parts, strict=True))
        return {name: self.parts[group][joined_names[op.name]].name for name in op.binds()}

    def _fuse_sum(self, group: SumOfProducts, inner: InsertionPoint) -> Replacement:
        """Fuse added products, and add the other addends."""
        joint, which = group.joint, group.varying
        fixed = self._concat_invariant(group.invariant, joint.operands[1 - which].axis, inner)
        varying = self._concat_varying(group.operands[which], joint.operands[which].axis, inner)
        new_operands = [varying, fixed] if which == 0 else [fixed, varying]
        read = self._current_var(inner)
        with inner.building():
            sum_ = joint.build(group.ops[0], new_operands, read)
            for name in group.rest:
                sum_ = call(group.root.type, read(name), sum_)
        return {name: sum_.name for name in group.root.binds()}

    def _fuse_accumulators(self, group: AccumulatorGroup, inner: InsertionPoint) -> Replacement:
        """Fuse accumulators into one memory to which one product is added."""
        first = group.memories[0]
        out, link = group.joint.out, group.links[0]
        assert out is not None
        with self.place.building():
            inits = [self.place.var(memory.init) for memory in group.memories]
            init = emit("concat", *inits, axis=out)
        operand_var = self._concat_factor(group, inner)
        param = inner.table.new_var(type=init.type, kind=ARGUMENT, stem=first.param)
        with inner.building():
            product = group.joint.build(group.ops[0], [operand_var], self._current_var(inner))
            after = call(link.type, inner.var(param.name), product)
        final = self.place.table.names.unique(first.final)
        self.memories[group] = MemoryView(init.name, param.name, after.name, final)
        return None

    def _fuse_results(self, group: ResultGroup, op: Op, inner: InsertionPoint) -> Replacement:
        """Fuse products that are results of the block; each is a part of the fused product."""
        operand_var = self._concat_factor(group, inner)
        with inner.building():
            product = group.joint.build(group.ops[0], [operand_var], self._current_var(inner))
            parts = self._split_result(product, group.joint, group.ops)
        pairs = zip(group.ops, parts, strict=True)
        names = {name: part.name for product_op, part in pairs for name in product_op.binds()}
        inner.stand_for(names)
        return {name: names[name] for name in op.binds()}

    # ---- concatenating and splitting ---------------------------------------------------------

    def _concat_invariant(self, names: Sequence[str], axis: int, inner: InsertionPoint) -> Var:
        """Concatenate loop-invariant values before the loop.

        Transposes of them are applied to the concatenation inside the loop, since a product
        reads its operand through the transpose.
        """
        trips = self.groups.trips
        turns = [
            op for name in names if (op := trips.producer_of.get(name)) and is_transpose(op)
        ]
        signatures = {(op.type, tuple(op.attrs.items())) for op in turns}
        if len(turns) != len(names) or len(signatures) != 1:
            with self.place.building():
                return emit("concat", *map(trips.value, names), axis=axis)
        axis = source_axis(turns[0], axis, trips.type_of)
        operand_var = self._concat_invariant(
            [name for op in turns for name in op.reads()], axis, inner
        )
        with inner.building():
            slots = {slot: (operand_var,) for slot in turns[0].inputs}
            return apply(turns[0].type, slots, turns[0].attrs)[next(iter(turns[0].outputs))][0]

    def _concat_varying(self, names: tuple[str, ...], axis: int, inner: InsertionPoint) -> Var:
        """Concatenate loop-variant values, once in each iteration."""
        if (names, axis) not in self.joined:
            with inner.building():
                concatenated = emit("concat", *map(self._current_var(inner), names), axis=axis)
            self.joined[names, axis] = concatenated
        return self.joined[names, axis]

    def _concat_factor(self, group: ResultGroup, inner: InsertionPoint) -> Var:
        """Concatenate the operands that products do not share."""
        (operand,), (names,) = group.joint.operands, group.operands
        return self._concat_varying(names, operand.axis, inner)

    def _split_result(self, fused: Var, joint: FusionAxis, ops: Sequence[Op]) -> Sequence[Var]:
        """Split a fused product into the results of the original products."""
        (operand,) = joint.operands
        type_of, axis = self.groups.trips.type_of, operand.axis
        sizes = tuple(shape_of(type_of(operand.name(op)))[axis] for op in ops)
        return call("split", fused, sections=sizes, axis=joint.out)

    def _current_var(self, inner: InsertionPoint) -> Callable[[str], Var]:
        """Return the current variable for an original name of the body."""
        return lambda name: inner.var(inner.names.get(name, name))


FUSE_MATMULS = Pass(
    "fuse_matmuls",
    fuse_matmuls,
    "Fuse matmuls of an iteration that share an operand or are added.",
    trusted=True,
)
