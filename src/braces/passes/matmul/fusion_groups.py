"""Fusion groups: sets of matrix products in the body of a loop that become one product.

The kinds of groups are in `fusion_candidates.py`, each with a worked example. `fuse.py`
rewrites the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import TypeVar

from braces.define.decorator import OPS
from braces.ir.records import Op
from braces.ir.views import MemoryView, names_read
from braces.ir.walk import names_bound_by, producers, rename_op
from braces.passes.batching.iteration_space import reason_not_vectorizable
from braces.passes.cleanup.cse import cse_key, equal_attributes
from braces.passes.core.context import current_context, exceeds_limit, format_total_bytes
from braces.passes.core.pipeline import is_collecting_notes, note
from braces.passes.core.random_effects import is_random
from braces.passes.matmul.fusion_candidates import (
    AccumulatorGroup,
    Candidate,
    InvariantCandidate,
    ResultGroup,
    SharedOperandGroup,
    SumOfProducts,
)
from braces.passes.matmul.operand_axes import FusionAxis, Key, total_size
from braces.passes.rows.iteration_blocks import IterationBlock

T = TypeVar("T")

BEFORE, WITHIN, AFTER = "before", "within", "after"
"""Final place of a product: before the loop, in each iteration, or after the loop."""


class FusionGroups:
    """Fusion groups of a body, with the operators that they replace.

    Attributes:
        block: The block; of one iteration if the loop is not vectorizable.
        trips: The loop around it, or whose body it is.
        at: The group that is built at an operator, by its name.
        gone: Names of removed operators.
    """

    def __init__(self, block: IterationBlock) -> None:
        self.block = block
        self.trips = block.trips
        self.ops = _rename_duplicates(self.trips.body.ops)
        self.at: dict[str, Candidate] = {}
        self.gone = set[str]()

    def choose(self) -> bool:
        """Choose the groups, the largest first; return whether there are any."""
        place, used = self.block.where, set[str]()
        self._note_different_shapes(place)
        candidates = [*self._shared_groups(), *self._sum_groups()]
        for candidate in sorted(candidates, key=lambda group: -len(group.ops)):
            remaining = candidate.without(used)
            if remaining is not None and self._is_worth_fusing(remaining, place):
                used.update(op.name for op in (*remaining.ops, *remaining.anchors))
                self._add_group(remaining, place)
        for group in (
            self._accumulator_groups() if self.block.is_body else self._result_groups()
        ):
            self._add_group(group, place)
        return bool(self.at)

    # ---- candidates --------------------------------------------------------------------------

    def _final_place(self, op: Op) -> str:
        """Return the final place of a product after the vectorization passes."""
        if op.name in self.block.before:
            return BEFORE
        return AFTER if op.name in self.block.after else WITHIN

    @cached_property
    def _fusion_axes(self) -> list[tuple[Op, FusionAxis]]:
        """Fusion axes of products with loop-variant operands."""
        return [
            (op, joint)
            for op in self.ops
            if self.trips.varying(op)
            for joint in FusionAxis.all_of(op, self.trips.type_of)
        ]

    def _varies(self, op: Op, joint: FusionAxis) -> list[bool]:
        return [self.trips.varies(operand.name(op)) for operand in joint.operands]

    def _shared_groups(self) -> Iterator[SharedOperandGroup]:
        """Yield groups of products that differ in one loop-invariant operand."""
        ops_by_key: dict[tuple[Key, FusionAxis], list[Op]] = {}
        for op, joint in self._fusion_axes:
            if joint.out is not None and not any(self._varies(op, joint)):
                ops_by_key.setdefault((joint.alike(op, self.trips.type_of), joint), []).append(
                    op
                )
        for (_, joint), ops in ops_by_key.items():
            for place in (BEFORE, WITHIN):
                members = tuple(op for op in ops if self._final_place(op) == place)
                yield SharedOperandGroup(members, joint, stays=place == WITHIN)

    def _note_different_shapes(self, place: str) -> None:
        """Note the products that share an operand and differ in the shape of the other."""
        if not is_collecting_notes():
            return
        names_by_shared: dict[Key, dict[Key, set[str]]] = {}
        for op, joint in self._fusion_axes:
            if joint.out is not None and not any(self._varies(op, joint)):
                *shared, kinds = joint.alike(op, self.trips.type_of)
                names_by_kind = names_by_shared.setdefault(tuple(shared), {})
                names_by_kind.setdefault((joint.operands, kinds), set()).add(op.name)
        for names_by_kind in names_by_shared.values():
            names = sorted(set[str]().union(*names_by_kind.values()))
            if len(names) > 1 and all(len(alike) == 1 for alike in names_by_kind.values()):
                what = f"not fused ({_format_names(names)}): shapes or dtypes differ"
                note(place, what, "missed")

    def _sum_groups(self) -> Iterator[SumOfProducts]:
        """Yield groups of added products with one loop-variant operand each."""
        joints: dict[str, list[FusionAxis]] = {}
        for op, joint in self._fusion_axes:
            if joint.out is None and sum(self._varies(op, joint)) == 1:
                joints.setdefault(op.name, []).append(joint)
        for root, adding, leaves in self._addition_chains():
            ops_by_key: dict[tuple[Key, FusionAxis, int], list[Op]] = {}
            for name in leaves:
                op = self._makers.get(name)
                for joint in joints.get(op.name, ()) if op and self._is_read_once(name) else ():
                    assert op is not None
                    varying = self._varies(op, joint).index(True)
                    key = joint.alike(op, self.trips.type_of), joint, varying
                    ops_by_key.setdefault(key, []).append(op)
            for (_, joint, varying), ops in ops_by_key.items():
                yield self._sum_group(root, adding, leaves, ops, joint, varying)

    def _sum_group(
        self,
        root: Op,
        adding: list[Op],
        leaves: list[str],
        ops: list[Op],
        joint: FusionAxis,
        varying: int,
    ) -> SumOfProducts:
        operand, product_names = joint.operands[varying], names_bound_by(ops)
        fused = [op for op in ops if self._final_place(op) != BEFORE] if len(ops) > 1 else []
        rest = tuple(n for n in leaves if n not in product_names)
        rest += tuple(n for op in ops if op not in fused for n in op.binds())
        ordered = sorted(fused, key=lambda op: self._order[operand.name(op)])
        return SumOfProducts(tuple(ordered), joint, root, tuple(adding), varying, rest)

    def _addition_chains(self) -> Iterator[tuple[Op, list[Op], list[str]]]:
        """Yield sums: the last addition, all additions, and the addends."""
        inner = set[str]()
        for op in reversed(self.ops):
            if op.name in inner or not self._is_plain_addition(op):
                continue
            adding, leaves = [op], [*op.reads()]
            for name in leaves:
                maker = self._makers.get(name)
                if (
                    maker is not None
                    and self._is_plain_addition(maker)
                    and self._is_read_once(name)
                ):
                    adding.append(maker)
                    leaves += maker.reads()
            inner.update(addition.name for addition in adding)
            within = names_bound_by(adding)
            yield op, adding, [name for name in leaves if name not in within]

    def _accumulator_groups(self) -> Iterator[AccumulatorGroup]:
        """Yield accumulators of products whose operands other groups concatenate."""
        items_by_key: dict[tuple[Key, FusionAxis], list[tuple[MemoryView, Op, Op]]] = {}
        for memory, link, op in self._accumulations():
            for joint in FusionAxis.all_of(op, self.trips.type_of):
                if joint.out is not None and all(self._varies(op, joint)):
                    key = joint.alike(op, self.trips.type_of), joint
                    items_by_key.setdefault(key, []).append((memory, link, op))
        for joint, ordered in self._match_factors(items_by_key, itemgetter(2)):
            memories, links, ops = zip(*ordered, strict=True)
            last = max(links, key=self.ops.index)
            yield AccumulatorGroup(ops, joint, last, memories, links)

    def _result_groups(self) -> Iterator[ResultGroup]:
        """Yield unread results of a block that are products of concatenated operands."""
        ops_by_key: dict[tuple[Key, FusionAxis], list[Op]] = {}
        for op, joint in self._fusion_axes:
            ends = all(map(self._is_unread_result, op.binds()))
            if ends and joint.out is not None and all(self._varies(op, joint)):
                key = joint.alike(op, self.trips.type_of), joint
                ops_by_key.setdefault(key, []).append(op)
        for joint, ordered in self._match_factors(ops_by_key, lambda op: op):
            yield ResultGroup(tuple(ordered), joint, max(ordered, key=self.ops.index))

    def _match_factors(
        self,
        items_by_key: Mapping[tuple[Key, FusionAxis], Sequence[T]],
        op_of: Callable[[T], Op],
    ) -> Iterator[tuple[FusionAxis, list[T]]]:
        """Yield the products of all operands that a sum concatenates, in that order."""
        factors = {item.factor for item in self.at.values() if isinstance(item, SumOfProducts)}
        largest = sorted(factors, key=lambda factor: -len(factor[0]))
        used = set[str]()
        for ((_, joint), group), (names, axis) in product(items_by_key.items(), largest):
            (operand,) = joint.operands
            unused = (item for item in group if op_of(item).name not in used)
            by_name = {operand.name(op_of(item)): item for item in unused}
            if operand.axis == axis and names <= by_name.keys():
                ordered = [by_name[name] for name in sorted(names, key=self._order.__getitem__)]
                used.update(op_of(item).name for item in ordered)
                yield joint, ordered

    def _accumulations(self) -> Iterator[tuple[MemoryView, Op, Op]]:
        """Yield memories that only accumulate products: memory, addition and product."""
        view = self.trips.view
        condition_names = names_read(view.condition) if view.condition else set[str]()
        for memory in view.memories:
            link = self._makers.get(memory.next)
            if (
                link is None
                or not self._is_plain_addition(link)
                or memory.param in condition_names
            ):
                continue
            others = [name for name in link.reads() if name != memory.param]
            op = self._makers.get(others[0]) if len(others) == 1 else None
            are_read_once = all(map(self._is_read_once, (memory.param, *others)))
            if op and are_read_once and self._is_unread_result(memory.next):
                yield memory, link, op

    # ---- selection ---------------------------------------------------------------------------

    def _is_worth_fusing(self, group: InvariantCandidate, place: str) -> bool:
        """Return whether a fused product is valid and pays; note the reason if not."""
        type_of, joint = self.trips.type_of, group.joint
        pairs = zip(joint.operands, group.operands, strict=True)
        sizes = [total_size(names, operand.axis, type_of) for operand, names in pairs]
        if not joint.holds(group.ops[0], sizes, type_of):
            return False
        reason = self._reason_not_fused(group)
        if reason is not None:
            products = _format_names(member.name for member in group.ops)
            note(place, f"not fused ({products}): {reason}", "missed")
        return reason is None

    def _reason_not_fused(self, group: InvariantCandidate) -> str | None:
        """Return the reason not to fuse products although it is possible."""
        sizes, names = self.trips.sizes_of(group.invariant), _format_names(group.invariant)
        trips, machine = self.trips.length, current_context().target
        if len(group.ops) < group.min_products:
            return f"the sum has only {len(group.ops)} products"
        if exceeds_limit(sizes, machine.stacked_bytes):
            return f"concatenating {names} would take {format_total_bytes(sizes)}"
        if not self.block.together:
            return reason_not_vectorizable(self.trips.view)
        if isinstance(trips, int) and trips < machine.few_trips:
            return f"the loop has only {trips} iterations"
        stays = isinstance(group, SharedOperandGroup) and group.stays
        large = stays and exceeds_limit(sizes, machine.joined_bytes)
        return f"{names} are large" if large else None

    def _add_group(self, group: Candidate, place: str) -> None:
        names = _format_names(op.name for op in group.ops)
        note(place, f"fused {len(group.ops)} {group.ops[0].type}s {group.relation}: {names}")
        self.at |= dict.fromkeys((op.name for op in group.anchors), group)
        self.gone.update(op.name for op in group.replaced if op not in group.anchors)

    # ---- uses --------------------------------------------------------------------------------

    @cached_property
    def _makers(self) -> Mapping[str, Op]:
        return producers(self.ops)

    @cached_property
    def _reads(self) -> dict[str, int]:
        """Number of reads of each name in the body."""
        counts: dict[str, int] = {}
        for op in self.ops:
            for name in op.reads():
                counts[name] = counts.get(name, 0) + 1
        return counts

    def _is_read_once(self, name: str) -> bool:
        """Return whether a value has a single use, and is no result."""
        return self._reads.get(name) == 1 and name not in self.trips.body.results

    def _is_unread_result(self, name: str) -> bool:
        """Return whether a value is a result, once, and has no use."""
        return self._reads.get(name, 0) == 0 and self.trips.body.results.count(name) == 1

    def _is_plain_addition(self, op: Op) -> bool:
        """Return whether an operator only adds two values of its own type."""
        operands = [*op.reads()]
        if len(operands) != 2 or {*OPS.get(op.type).adds_to} != {*op.inputs}:
            return False
        return len({self.trips.type_of(name) for name in (*operands, *op.binds())}) == 1

    @cached_property
    def _order(self) -> dict[str, int]:
        """Position at which each value is bound in the body."""
        bound = (name for op in self.ops for name in op.binds())
        return {name: i for i, name in enumerate((*self.trips.body.params, *bound))}


def _rename_duplicates(ops: Iterable[Op]) -> list[Op]:
    """Return the operators with reads of common subexpressions renamed to the first."""
    names, first_ops = dict[str, str](), dict[object, Op]()
    renamed = list[Op]()
    for op in ops:
        renamed.append(rename_op(op, names) if names else op)
        key = None if op.bodies() else cse_key(renamed[-1])
        original = renamed[-1] if key is None else first_ops.setdefault(key, renamed[-1])
        if (
            original is not renamed[-1]
            and equal_attributes(original, renamed[-1])
            and not is_random(op)
        ):
            names |= zip(op.binds(), original.binds(), strict=True)
    return renamed


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
