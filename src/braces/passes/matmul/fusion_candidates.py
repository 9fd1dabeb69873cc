"""Candidates of GEMM fusion: sets of matrix products in a block that can become one product.

Each kind has a worked example. `fusion_groups.py` finds the candidates and chooses among them;
`fuse.py` builds the fused products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from braces.ir.records import Op
from braces.ir.views import MemoryView
from braces.passes.matmul.operand_axes import FusionAxis


@dataclass(frozen=True, eq=False)
class Candidate(ABC):
    """Products that can become one product.

    Attributes:
        ops: The products, in the order in which their operands are concatenated.
        joint: The fusion axis.
    """

    ops: tuple[Op, ...]
    joint: FusionAxis

    @property
    def operands(self) -> tuple[tuple[str, ...], ...]:
        """The concatenated names, for each operand of the fusion axis."""
        return tuple(tuple(map(operand.name, self.ops)) for operand in self.joint.operands)

    @property
    @abstractmethod
    def anchors(self) -> tuple[Op, ...]:
        """The operators in whose place parts of the fused product are bound."""

    @property
    def replaced(self) -> tuple[Op, ...]:
        """All operators that the fused product replaces."""
        return self.ops

    @property
    def relation(self) -> str:
        """Relation of the products, for notes."""
        separate = {operand.name(self.ops[0]) for operand in self.joint.operands}
        shared = [name for name in self.ops[0].reads() if name not in separate]
        return f"that share `{'`, `'.join(shared)}`"


@dataclass(frozen=True, eq=False)
class InvariantCandidate(Candidate):
    """Products with loop-invariant operands, which are concatenated before the loop.

    Attributes:
        min_products: The smallest number of products for which fusion pays.
    """

    min_products: ClassVar[int] = 2

    @property
    @abstractmethod
    def invariant(self) -> tuple[str, ...]:
        """The loop-invariant operands."""

    @abstractmethod
    def without(self, used: Collection[str]) -> InvariantCandidate | None:
        """Return the candidate without used operators; `None` if it is none any more."""


@dataclass(frozen=True, eq=False)
class SharedOperandGroup(InvariantCandidate):
    """Products that share an operand; the others are loop-invariant. Results are concatenated.

        p: f32[b,4] = matmul(x=h, y=u)            r: f32[b,8] = matmul(x=h, y=uv)
        q: f32[b,4] = matmul(x=h, y=v)       ->   p, q = split(x=r) {sections=[4, 4], axis=1}

    Attributes:
        stays: Whether the products stay in the loop.
    """

    stays: bool

    @property
    def operands(self) -> tuple[tuple[str, ...], ...]:
        """The concatenated names, without duplicates."""
        (names,) = super().operands
        return (tuple(dict.fromkeys(names)),)

    @property
    def invariant(self) -> tuple[str, ...]:
        """The operands that are not shared."""
        return self.operands[0]

    @property
    def anchors(self) -> tuple[Op, ...]:
        """The products: each is a part of the fused product."""
        return self.ops

    def without(self, used: Collection[str]) -> SharedOperandGroup | None:
        """Return the group without used products; `None` if too few are left."""
        remaining = replace(self, ops=tuple(op for op in self.ops if op.name not in used))
        return remaining if len(remaining.invariant) > 1 else None


@dataclass(frozen=True, eq=False)
class SumOfProducts(InvariantCandidate):
    """Products that are added; one operand of each varies, one is loop-invariant.

    Both operands are concatenated along the contracted axis. The loop-variant ones are
    concatenated in each iteration.

        a: f32[b,4] = matmul(x=d, y=u)            k: f32[b,9] = concat(xs=[d, e, f]) {axis=1}
        c: f32[b,4] = matmul(x=e, y=v)            g: f32[b,4] = matmul(x=k, y=uvw)
        m: f32[b,4] = matmul(x=f, y=w)
        n: f32[b,4] = add(x=a, y=c)
        g: f32[b,4] = add(x=n, y=m)          ->

    Attributes:
        root: The last addition.
        adding: All additions, the last included.
        varying: Position of the loop-variant operand.
        rest: The other addends.
    """

    root: Op
    adding: tuple[Op, ...]
    varying: int
    rest: tuple[str, ...]
    min_products: ClassVar[int] = 3

    @property
    def invariant(self) -> tuple[str, ...]:
        """The loop-invariant operands."""
        return self.operands[1 - self.varying]

    @property
    def factor(self) -> tuple[frozenset[str], int]:
        """The loop-variant operands, and the axis on which they are concatenated."""
        operand = self.joint.operands[self.varying]
        return frozenset(self.operands[self.varying]), operand.axis

    @property
    def relation(self) -> str:
        """Relation of the products, for notes."""
        return "that are added"

    @property
    def anchors(self) -> tuple[Op, ...]:
        """The last addition."""
        return (self.root,)

    @property
    def replaced(self) -> tuple[Op, ...]:
        """The additions and the products."""
        return *self.adding, *self.ops

    def without(self, used: Collection[str]) -> SumOfProducts | None:
        """Return the group without used products, which are then among the other addends."""
        if self.root.name in used:
            return None
        ops = tuple(op for op in self.ops if op.name not in used)
        others = (n for op in self.ops if op.name in used for n in op.binds())
        return replace(self, ops=ops, rest=(*self.rest, *others)) if len(ops) > 1 else None


@dataclass(frozen=True, eq=False)
class ResultGroup(Candidate):
    """Results of a block that are products with a shared operand; all operands vary.

    The other operands are those that a `SumOfProducts` has concatenated already, here `k`. The
    enclosing loop accumulates the results of a case of a partitioned branch.

        x: f32[3,3] = matmul(x=z, y=d)            w: f32[3,6] = matmul(x=z, y=k)
        y: f32[3,3] = matmul(x=z, y=e)            x, y = split(x=w) {sections=[3, 3], axis=1}
        return x, y                          ->   return x, y

    Attributes:
        last: The last operator that is replaced.
    """

    last: Op

    @property
    def anchors(self) -> tuple[Op, ...]:
        """The last operator that is replaced, where all others are available."""
        return (self.last,)


@dataclass(frozen=True, eq=False)
class AccumulatorGroup(ResultGroup):
    """Accumulators of such products, which become one accumulator.

        x: f32[3,3] = matmul(x=z, y=d)            w: f32[3,6] = matmul(x=z, y=k)
        y: f32[3,3] = matmul(x=z, y=e)            o2: f32[3,6] = add(x=o, y=w)
        l2: f32[3,3] = add(x=l, y=x)              return o2
        m2: f32[3,3] = add(x=m, y=y)
        return l2, m2                        ->

    Attributes:
        memories: The memories.
        links: The addition of each.
    """

    memories: tuple[MemoryView, ...]
    links: tuple[Op, ...]

    @property
    def replaced(self) -> tuple[Op, ...]:
        """The additions and the products."""
        return *self.links, *self.ops
