"""Which products in the body of a loop become one; see `braces.passes.matmul.fuse`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import TypeVar

from braces.define.decorator import OPS
from braces.ir.records import Op
from braces.ir.views import Memory, names_read
from braces.ir.walk import producers, rename_op
from braces.passes.batching.trip_space import apart
from braces.passes.cleanup.cse import alike, key_of
from braces.passes.core.context import gibibytes, larger, setting
from braces.passes.core.pipeline import note
from braces.passes.core.random_effects import is_random
from braces.passes.matmul.operand_axes import Joint, Key, total
from braces.passes.rows.trip_bodies import EachTrip

T = TypeVar("T")

FEWEST = 3
"""Fewer products that are added stay: what varies in them is put together in each trip."""

BEFORE, WITHIN, AFTER = "before", "within", "after"
"""Where a product is to be made: before the loop, in each trip, or after the loop."""


@dataclass(frozen=True, eq=False)
class Shared:
    """Products of one thing with others that are the same on each trip.

    Attributes:
        ops: The products.
        joint: Where they are joined.
    """

    ops: tuple[Op, ...]
    joint: Joint

    @property
    def names(self) -> tuple[str, ...]:
        """What is joined, each once."""
        (operand,) = self.joint.operands
        return tuple(dict.fromkeys(map(operand.name, self.ops)))

    def without(self, used: Collection[str]) -> Shared | None:
        """Those of the products that are not used; `None` where they are none to join."""
        left = replace(self, ops=tuple(op for op in self.ops if op.name not in used))
        return left if len(left.names) > 1 else None


@dataclass(frozen=True, eq=False)
class Sum:
    """Products that are added, each with something that is the same on each trip.

    Attributes:
        root: What adds the last of them.
        adding: All that adds, the root too.
        ops: The products, in the order of what varies in them.
        joint: Where they are joined.
        varying: Which of the two operands varies.
        rest: What else is added.
    """

    root: Op
    adding: tuple[Op, ...]
    ops: tuple[Op, ...]
    joint: Joint
    varying: int
    rest: tuple[str, ...]

    def names(self, which: int) -> tuple[str, ...]:
        """What is joined at one of the operands."""
        return tuple(map(self.joint.operands[which].name, self.ops))

    @property
    def factor(self) -> tuple[frozenset[str], int]:
        """What varies, and the axis on which it is joined."""
        return frozenset(self.names(self.varying)), self.joint.operands[self.varying].axis

    def without(self, used: Collection[str]) -> Sum | None:
        """Those of the products that are not used; `None` where they are none to join."""
        if self.root.name in used:
            return None
        ops = tuple(op for op in self.ops if op.name not in used)
        others = (n for op in self.ops if op.name in used for n in op.binds())
        return replace(self, ops=ops, rest=(*self.rest, *others)) if len(ops) > 1 else None


@dataclass(frozen=True, eq=False)
class Totals:
    """Memories to which products are added that share an operand.

    Rows of a step have none: they give the products, which the branch around them adds up.

    Attributes:
        memories: The memories.
        links: What adds to each.
        ops: The products, in the order of what they do not share.
        joint: Where they are joined.
    """

    memories: tuple[Memory, ...]
    links: tuple[Op, ...]
    ops: tuple[Op, ...]
    joint: Joint

    @property
    def names(self) -> tuple[str, ...]:
        """What is joined."""
        (operand,) = self.joint.operands
        return tuple(map(operand.name, self.ops))


class Groups:
    """The products of a body that become one, and what goes for them.

    Attributes:
        block: The block; where trips cannot be taken together, of one trip.
        trips: The loop around it, or whose body it is.
        at: What is built at an operator, by its name.
        gone: The operators that go.
    """

    def __init__(self, block: EachTrip) -> None:
        self.block = block
        self.trips = block.trips
        self.ops = _named_alike(self.trips.body.ops)
        self.at: dict[str, Shared | Sum | Totals] = {}
        self.gone = set[str]()

    def choose(self) -> bool:
        """Choose what is joined, the largest groups first; whether anything is."""
        place, used = self.block.where, set[str]()
        found = [*self._shared(), *self._sums()]
        for one in sorted(found, key=lambda group: -len(group.ops)):
            left = one.without(used)
            if left is not None and self._holds(left, place):
                used.update(product.name for product in left.ops)
                used.update([left.root.name] if isinstance(left, Sum) else [])
                self._take(left, place)
        for each in self._totals() if self.block.is_body else self._given():
            self._take(each, place)
        return bool(self.at)

    # ---- what could --------------------------------------------------------------------------

    def _fate(self, op: Op) -> str:
        """Where a product is made in the end, as far as other passes move it."""
        if op.name in self.block.before:
            return BEFORE
        return AFTER if op.name in self.block.after else WITHIN

    @cached_property
    def _joints(self) -> list[tuple[Op, Joint]]:
        """Where products of what varies can be joined."""
        return [
            (op, joint)
            for op in self.ops
            if self.trips.varying(op)
            for joint in Joint.found(op, self.trips.type_of)
        ]

    def _varies(self, op: Op, joint: Joint) -> list[bool]:
        return [self.trips.varies(one.name(op)) for one in joint.operands]

    def _shared(self) -> Iterator[Shared]:
        """What is like each other but for one operand that is the same on each trip."""
        found: dict[tuple[Key, Joint], list[Op]] = {}
        for op, joint in self._joints:
            if joint.out is not None and not any(self._varies(op, joint)):
                found.setdefault((joint.alike(op, self.trips.type_of), joint), []).append(op)
        for (_, joint), ops in found.items():
            for fate in (BEFORE, WITHIN):
                yield Shared(tuple(op for op in ops if self._fate(op) == fate), joint)

    def _sums(self) -> Iterator[Sum]:
        """What adds up products that are joined where one operand varies and one does not."""
        joints: dict[str, list[Joint]] = {}
        for op, joint in self._joints:
            if joint.out is None and sum(self._varies(op, joint)) == 1:
                joints.setdefault(op.name, []).append(joint)
        for root, adding, leaves in self._added():
            found: dict[tuple[Key, Joint, int], list[Op]] = {}
            for name in leaves:
                op = self._makers.get(name)
                for joint in joints.get(op.name, ()) if op and self._once(name) else ():
                    assert op is not None
                    varying = self._varies(op, joint).index(True)
                    key = joint.alike(op, self.trips.type_of), joint, varying
                    found.setdefault(key, []).append(op)
            for (_, joint, varying), ops in found.items():
                yield self._sum(root, adding, leaves, ops, joint, varying)

    def _sum(
        self,
        root: Op,
        adding: list[Op],
        leaves: list[str],
        ops: list[Op],
        joint: Joint,
        varying: int,
    ) -> Sum:
        operand, made = joint.operands[varying], {n for op in ops for n in op.binds()}
        kept = [op for op in ops if self._fate(op) != BEFORE] if len(ops) > 1 else []
        rest = tuple(n for n in leaves if n not in made)
        rest += tuple(n for op in ops if op not in kept for n in op.binds())
        ordered = sorted(kept, key=lambda op: self._order[operand.name(op)])
        return Sum(root, tuple(adding), tuple(ordered), joint, varying, rest)

    def _added(self) -> Iterator[tuple[Op, list[Op], list[str]]]:
        """Sums of more than one: what adds last, all that adds, and what is added."""
        inner = set[str]()
        for op in reversed(self.ops):
            if op.name in inner or not self._adds(op):
                continue
            adding, leaves = [op], [*op.reads()]
            for name in leaves:
                maker = self._makers.get(name)
                if maker is not None and self._adds(maker) and self._once(name):
                    adding.append(maker)
                    leaves += maker.reads()
            inner.update(one.name for one in adding)
            within = {n for one in adding for n in one.binds()}
            yield op, adding, [name for name in leaves if name not in within]

    def _totals(self) -> Iterator[Totals]:
        """Memories that add up products of what other sums have joined already."""
        found: dict[tuple[Key, Joint], list[tuple[Memory, Op, Op]]] = {}
        for memory, link, op in self._links():
            for joint in Joint.found(op, self.trips.type_of):
                if joint.out is not None and all(self._varies(op, joint)):
                    key = joint.alike(op, self.trips.type_of), joint
                    found.setdefault(key, []).append((memory, link, op))
        for joint, ordered in self._of_factors(found, itemgetter(2)):
            memories, links, ops = zip(*ordered, strict=True)
            yield Totals(memories, links, ops, joint)

    def _given(self) -> Iterator[Totals]:
        """Products that a block gives and does not read, of what sums have joined already."""
        found: dict[tuple[Key, Joint], list[Op]] = {}
        for op, joint in self._joints:
            ends = all(map(self._ends, op.binds()))
            if ends and joint.out is not None and all(self._varies(op, joint)):
                key = joint.alike(op, self.trips.type_of), joint
                found.setdefault(key, []).append(op)
        for joint, ordered in self._of_factors(found, lambda op: op):
            yield Totals((), (), tuple(ordered), joint)

    def _of_factors(
        self, found: Mapping[tuple[Key, Joint], Sequence[T]], op_of: Callable[[T], Op]
    ) -> Iterator[tuple[Joint, list[T]]]:
        """What has products of all that a sum has joined, in the order of that."""
        factors = {one.factor for one in self.at.values() if isinstance(one, Sum)}
        largest = sorted(factors, key=lambda factor: -len(factor[0]))
        used = set[str]()
        for ((_, joint), each), (names, axis) in product(found.items(), largest):
            (operand,) = joint.operands
            left = (one for one in each if op_of(one).name not in used)
            by_name = {operand.name(op_of(one)): one for one in left}
            if operand.axis == axis and names <= by_name.keys():
                ordered = [by_name[name] for name in sorted(names, key=self._order.__getitem__)]
                used.update(op_of(one).name for one in ordered)
                yield joint, ordered

    def _links(self) -> Iterator[tuple[Memory, Op, Op]]:
        """Memories that do nothing but sum up products: what adds, and the products."""
        view = self.trips.view
        asked = names_read(view.condition) if view.condition else set[str]()
        for memory in view.memories:
            link = self._makers.get(memory.next)
            if link is None or not self._adds(link) or memory.param in asked:
                continue
            others = [name for name in link.reads() if name != memory.param]
            op = self._makers.get(others[0]) if len(others) == 1 else None
            once = all(map(self._once, (memory.param, *others)))
            if op and once and self._ends(memory.next):
                yield memory, link, op

    # ---- what does ---------------------------------------------------------------------------

    def _holds(self, found: Shared | Sum, place: str) -> bool:
        """Whether it fits and pays as one; why it does not pay is noted."""
        type_of, op = self.trips.type_of, found.ops[0]
        rows = (found.names,) if isinstance(found, Shared) else (found.names(0), found.names(1))
        fixed = rows[0] if isinstance(found, Shared) else rows[1 - found.varying]
        pairs = zip(found.joint.operands, rows, strict=True)
        sizes = [total(names, operand.axis, type_of) for operand, names in pairs]
        if not found.joint.holds(op, sizes, type_of):
            return False
        reason = self._reason(found, fixed)
        if reason is not None:
            products = _listed(one.name for one in found.ops)
            note(place, f"makes {products} one by one: {reason}")
        return reason is None

    def _reason(self, found: Shared | Sum, fixed: tuple[str, ...]) -> str | None:
        """Why products stay as they are, though they could be one."""
        taken, trips, machine = self.trips.sizes_of(fixed), self.trips.length, setting().target
        if isinstance(found, Sum) and len(found.ops) < FEWEST:
            return f"there are only {len(found.ops)} to add"
        if larger(taken, machine.stacked_bytes):
            return f"together {_listed(fixed)} would take {gibibytes(taken)} more"
        if not self.block.together:
            return apart(self.trips.view)
        if isinstance(trips, int) and trips < machine.few_trips:
            return f"there are only {trips} trips"
        within = isinstance(found, Shared) and self._fate(found.ops[0]) == WITHIN
        large = within and larger(taken, machine.joined_bytes)
        return f"together {_listed(fixed)} are large" if large else None

    def _take(self, found: Shared | Sum | Totals, place: str) -> None:
        note(place, f"makes one product of {_listed(op.name for op in found.ops)}")
        match found:
            case Shared():
                self.at |= dict.fromkeys((op.name for op in found.ops), found)
                return
            case Sum():
                last, adding = found.root, found.adding
            case Totals():
                last = max(found.links or found.ops, key=self.ops.index)
                adding = found.links
        self.at[last.name] = found
        self.gone.update(op.name for op in (*adding, *found.ops) if op is not last)

    # ---- what is read ------------------------------------------------------------------------

    @cached_property
    def _makers(self) -> Mapping[str, Op]:
        return producers(self.ops)

    @cached_property
    def _reads(self) -> dict[str, int]:
        """How often each name is read in the body."""
        found: dict[str, int] = {}
        for op in self.ops:
            for name in op.reads():
                found[name] = found.get(name, 0) + 1
        return found

    def _once(self, name: str) -> bool:
        """Whether one operator reads something, once, and nothing else."""
        return self._reads.get(name) == 1 and name not in self.trips.body.results

    def _ends(self, name: str) -> bool:
        """Whether something is given, once, and not read."""
        return self._reads.get(name, 0) == 0 and self.trips.body.results.count(name) == 1

    def _adds(self, op: Op) -> bool:
        """Whether an operator does nothing but add two values of its own type."""
        both = [*op.reads()]
        if len(both) != 2 or {*OPS.get(op.type).adds_to} != {*op.inputs}:
            return False
        return len({self.trips.type_of(name) for name in (*both, *op.binds())}) == 1

    @cached_property
    def _order(self) -> dict[str, int]:
        """Where something varying is bound, in the order of the body."""
        bound = (name for op in self.ops for name in op.binds())
        return {name: i for i, name in enumerate((*self.trips.body.params, *bound))}


def _named_alike(ops: Iterable[Op]) -> list[Op]:
    """Operators that read by one name what several compute."""
    names, first = dict[str, str](), dict[object, Op]()
    renamed = list[Op]()
    for op in ops:
        renamed.append(rename_op(op, names) if names else op)
        key = None if op.bodies() else key_of(renamed[-1])
        there = renamed[-1] if key is None else first.setdefault(key, renamed[-1])
        if there is not renamed[-1] and alike(there, renamed[-1]) and not is_random(op):
            names |= zip(op.binds(), there.binds(), strict=True)
    return renamed


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
