"""Inverse of GEMM fusion: split products of concatenated operands if a part can leave a loop.

    …, … = loop(init=h0, sliced=rows)         w0, w1 = split(x=w) {sections=[3, 4], axis=0}
      captures [w] as l                       …, … = loop(…) captures [w0, w1] as l
      body (t, h: f32[b,4], r: f32[b,3]) {      body (t, h: f32[b,4], r: f32[b,3]) {
        k: f32[b,7] = concat(xs=[r, h])  ->       p: f32[b,4] = matmul(x=r, y=w0)
          {axis=1}                                q: f32[b,4] = matmul(x=h, y=w1)
        y: f32[b,4] = matmul(x=k, y=w)            y: f32[b,4] = add(x=p, y=q)
        …                                         …

Many cells are written like this. The product of scanned inputs can then be computed before the
loop (`vectorize_before`). The gradient slices a product, and the next iteration needs only a
part of it. `vectorize_after` moves the other part, and unread parts are not computed.

    y: f32[b,7] = matmul(x=d, y=v)            p: f32[b,3] = matmul(x=d, y=v0)
    p: f32[b,3] = getitem(x=y) {…}       ->   q: f32[b,4] = matmul(x=d, y=v1)
    q: f32[b,4] = getitem(x=y) {…}

In a partitioned branch of the step, `fission` then gives movable parts a separate branch.

The other operand of a product must be loop-invariant. If no part could leave the loop, nothing
is split. Results are the same up to the order of additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from braces.builder.append import apply, call, emit
from braces.builder.var import Var
from braces.define.axes.axis_map import normalize_axis, shape_of
from braces.define.decorator import OPS
from braces.dims import Size
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView
from braces.ops.control.batch_axis.axis_kinds import axis_map_of
from braces.passes.batching.iteration_space import reason_not_vectorizable
from braces.passes.core.context import current_context, exceeds_limit, format_total_bytes
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops
from braces.passes.matmul.operand_axes import FusionAxis, resize_axis, total_size
from braces.passes.rows.iteration_blocks import IterationBlock

INVARIANT, LEAVES, STAYS = range(3)
"""Availability of parts, in the order in which they are added."""


def split_concat_matmuls(program: ProgramDef) -> ProgramDef:
    """Return a program whose loops have products split if a part can leave them."""
    return rewrite_loops(program, None, _split_loop)


def _split_loop(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
    if reason_not_vectorizable(view) is not None:
        return op
    rules = {block.path: _SplitRule(block) for block in IterationBlock.of(view, op, place)}
    if not any(block_rule.at for block_rule in rules.values()):
        return op

    def rule(inner_op: Op, inner: InsertionPoint) -> Replacement:
        return rules[inner.path](inner_op, inner) if inner.path in rules else inner_op

    return place.within(op, rule)


@dataclass(frozen=True)
class _ConcatProduct:
    """A product of a concatenated operand.

    Attributes:
        joint: The fusion axes of the product.
        varying: Position of the concatenated operand.
        runs: Consecutive pieces with the same availability.
    """

    joint: FusionAxis
    varying: int
    runs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class _ProductSlice:
    """A slice of a product.

    Attributes:
        product: The product.
        joint: The fusion axis of the sliced axis.
    """

    product: Op
    joint: FusionAxis


class _SplitRule:
    """Rewriting rule that splits the products of one block.

    Attributes:
        block: The block.
        trips: The loop around it, or whose body it is.
        at: Replacements of operators, by their names.
        gone: The products that are read by slices only.
    """

    def __init__(self, block: IterationBlock) -> None:
        self.block = block
        self.trips = trips = block.trips
        self.at: dict[str, _ConcatProduct | _ProductSlice] = {}
        self.gone = set[str]()
        for product in trips.body.ops:
            for joint in (
                FusionAxis.all_of(product, trips.type_of) if trips.varying(product) else ()
            ):
                names = [operand.name(product) for operand in joint.operands]
                invariant_names = [name for name in names if not trips.varies(name)]
                if len(invariant_names) != 1 or product.name in {*self.at, *self.gone}:
                    continue
                parts = dict(self._split_candidates(product, joint))
                if parts and self._is_worth_splitting(
                    product, joint, invariant_names[0], parts
                ):
                    self.at |= parts

    def __call__(self, op: Op, inner: InsertionPoint) -> Replacement:
        """Return the replacement of an operator of the block."""
        part = self.at.get(op.name)
        if op.name in self.gone:
            return None
        if part is None:
            return op
        with inner.building():
            new_var = (
                self._build_sum(part, op, inner)
                if isinstance(part, _ConcatProduct)
                else self._build_slice(part, op, inner)
            )
        return {name: new_var.name for name in op.binds()}

    # ---- candidates --------------------------------------------------------------------------

    def _split_candidates(
        self, op: Op, joint: FusionAxis
    ) -> Iterator[tuple[str, _ConcatProduct | _ProductSlice]]:
        """Yield the replacements of a product, or of all its slices, if one can leave."""
        if joint.out is not None:
            cuts = self._slices_of(op, joint)
            movable = [cut for cut in cuts if cut.name in self.block.after]
            if 0 < len(movable) < len(cuts) or self._is_read_in_part(op, cuts, joint.out):
                yield from ((cut.name, _ProductSlice(op, joint)) for cut in cuts)
            return
        varying = [self.trips.varies(operand_.name(op)) for operand_ in joint.operands].index(
            True
        )
        operand = joint.operands[varying]
        names = self._concat_pieces(operand.name(op), operand.axis)
        stays = [self._availability(name) == STAYS for name in names]
        if any(stays) and not all(stays) and op.name not in self.block.after:
            runs = groupby(names, key=self._availability)
            yield op.name, _ConcatProduct(joint, varying, tuple(tuple(run) for _, run in runs))

    def _availability(self, name: str) -> int:
        """Return where a value is available: outside, before the loop, or in its iteration."""
        if not self.trips.varies(name):
            return INVARIANT
        return LEAVES if name in self.block.available else STAYS

    def _is_worth_splitting(
        self,
        op: Op,
        joint: FusionAxis,
        invariant_name: str,
        parts: dict[str, _ConcatProduct | _ProductSlice],
    ) -> bool:
        """Return whether the split products are valid and fit into memory."""
        where, byte_sizes = (
            f"{self.block.path}/{op.name}",
            self.trips.sizes_of([invariant_name]),
        )
        trips, machine = self.trips.length, current_context().target
        if exceeds_limit(byte_sizes, machine.stacked_bytes):
            added = format_total_bytes(byte_sizes)
            what = f"not split: the parts of `{invariant_name}` would take {added} more"
            note(where, what, "missed")
            return False
        if isinstance(trips, int) and trips < machine.few_trips:
            note(where, f"not split: the loop has only {trips} iterations", "missed")
            return False
        sizes = [size for name, part in parts.items() for size in self._sizes(name, part)]
        many = len(joint.operands)
        if not all(joint.holds(op, [size] * many, self.trips.type_of) for size in sizes):
            return False
        is_movable = joint.out is None or any(name in self.block.after for name in parts)
        reason = "one part can leave the loop" if is_movable else "a part is not read"
        note(where, f"split into products of its parts: {reason}")
        self.gone.update([op.name] if joint.out is not None else [])
        return True

    def _sizes(self, name: str, part: _ConcatProduct | _ProductSlice) -> Iterator[Size]:
        type_of = self.trips.type_of
        if isinstance(part, _ConcatProduct):
            axis = part.joint.operands[part.varying].axis
            yield from (total_size(run, axis, type_of) for run in part.runs)
        else:
            assert part.joint.out is not None
            (cut,) = (op for op in self.trips.body.ops if op.name == name)
            yield shape_of(type_of(next(cut.binds())))[part.joint.out]

    def _concat_pieces(self, name: str, axis: int) -> tuple[str, ...]:
        """Return the concatenated pieces of a value along an axis; empty if unknown."""
        maker, type_of = self.trips.producer_of.get(name), self.trips.type_of
        if maker is None or not OPS.get(maker.type).joins:
            return ()
        along = normalize_axis(
            maker.attrs[OPS.get(maker.type).joins], len(shape_of(type_of(name)))
        )
        names = tuple(maker.reads())
        empty_type, *piece_types = (
            resize_axis(type_of(piece), axis, 0) for piece in (name, *names)
        )
        return (
            names if along == axis and all(part == empty_type for part in piece_types) else ()
        )

    def _slices_of(self, op: Op, joint: FusionAxis) -> list[Op]:
        """Return the consumers of a product if all are slices of it; else none."""
        (result,), (operand,) = op.binds(), joint.operands
        rank = [len(shape_of(self.trips.type_of(name))) for name in (result, operand.name(op))]
        slices = self.trips.readers.get(result, [])
        if result in self.trips.body.results or operand.axis != joint.out or rank[0] != rank[1]:
            return []
        return slices if all(self._is_slice(reader, operand.axis) for reader in slices) else []

    def _is_read_in_part(self, op: Op, cuts: list[Op], axis: int) -> bool:
        """Return whether the slices of a product leave a part of it unread."""
        sizes = (shape_of(self.trips.type_of(next(op_.binds())))[axis] for op_ in (op, *cuts))
        full_size, *slice_sizes = (size if isinstance(size, int) else None for size in sizes)
        total_read = sum(part or 0 for part in slice_sizes)
        return full_size is not None and None not in slice_sizes and 0 < total_read < full_size

    def _is_slice(self, op: Op, axis: int) -> bool:
        """Return whether an operator only slices along an axis."""
        definition, outputs = OPS.get(op.type), [*op.binds()]
        if definition.operations != 0 or definition.picks != tuple(op.inputs):
            return False
        if len([*op.reads()]) != 1 or len(outputs) != 1 or definition.axes_rule is None:
            return False
        axes, (slot,), (out,) = axis_map_of(op, self.trips.type_of), op.inputs, op.outputs
        before, after = axes.of(slot), axes.of_output(out)
        others = [i for i in range(len(before)) if i != axis]
        return len(before) == len(after) and all(
            before[i] == after[i] and before[i] not in axes.mixed for i in others
        )

    # ---- building ----------------------------------------------------------------------------

    def _build_sum(self, part: _ConcatProduct, op: Op, inner: InsertionPoint) -> Var:
        """Add the products of the parts, with those that stay in the loop last."""
        joint, which, type_of = part.joint, part.varying, self.trips.type_of
        axis, other = joint.operands[which].axis, joint.operands[1 - which]
        sizes = tuple(total_size(run, axis, type_of) for run in part.runs)
        with self.trips.place.building():
            full_operand = self.trips.value(other.name(op))
            pieces = call("split", full_operand, sections=sizes, axis=other.axis)
        terms = list[tuple[int, Var]]()
        for run, piece in zip(part.runs, pieces, strict=True):
            piece_vars = [inner.var(inner.names.get(name, name)) for name in run]
            varying_operand = (
                emit("concat", *piece_vars, axis=axis) if len(piece_vars) > 1 else piece_vars[0]
            )
            new_operands = [varying_operand, piece] if which == 0 else [piece, varying_operand]
            terms.append((self._availability(run[0]), joint.build(op, new_operands, inner.var)))
        first, *others = (term for _, term in sorted(terms, key=lambda term: term[0]))
        for term in others:
            first = first + term
        return first

    def _build_slice(self, cut_part: _ProductSlice, op: Op, inner: InsertionPoint) -> Var:
        """Multiply by a slice of the operand instead of slicing the product."""
        (operand,), (slot,), (out,) = cut_part.joint.operands, op.inputs, op.outputs
        with self.trips.place.building():
            full_operand = self.trips.value(operand.name(cut_part.product))
            operand_slice = apply(op.type, {slot: [full_operand]}, op.attrs)[out][0]
        names = inner.names
        return cut_part.joint.build(
            cut_part.product, [operand_slice], lambda n: inner.var(names.get(n, n))
        )


SPLIT_CONCAT_MATMUL = Pass(
    "split_concat_matmul",
    split_concat_matmuls,
    "Split matmuls of concatenated operands where a part can leave the loop.",
    trusted=True,
)
