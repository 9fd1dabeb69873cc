"""Carry dependence: the carries (memories) that values of an iteration depend on.

    body (t: i64[], h: f32[4], r: f32[3]) {
      z: f32[4] = matmul(x=r, y=w)        # no carry
      y: f32[4] = add(x=z, y=h)           # carry `h`
      a: f32[4] = matmul(x=y, y=u)        # carry `h`, through `y`
      return a
    }

An operator that depends on a carry cannot run for all iterations at once before the loop. If
the next value of a carry depends on it as well, it is part of the recurrence. Notes of passes
name the carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from braces.ir.records import Op
from braces.ir.views import LoopView


@dataclass(frozen=True)
class CarryDependence:
    """Carries that the operators of a loop body read, directly or through other operators.

    Attributes:
        carries: Names of the carries in the body.
        of: The carries that a value depends on, by its name; values without any are absent.
        maker: The operator of each such value, by name; carries have none.
    """

    carries: Sequence[str]
    of: dict[str, frozenset[str]]
    maker: dict[str, Op]

    @classmethod
    def in_loop(cls, view: LoopView) -> Self:
        """Return the carry dependence of a loop (forward dataflow)."""
        carries = tuple(memory.param for memory in view.memories)
        dependence = cls(carries, {name: frozenset([name]) for name in carries}, {})
        for op in view.content.ops:
            carries_read = dependence.read_by(op)
            if carries_read:
                dependence.of.update(dict.fromkeys(op.binds(), carries_read))
                dependence.maker.update(dict.fromkeys(op.binds(), op))
        return dependence

    def read_by(self, op: Op) -> frozenset[str]:
        """Return the carries that an operator depends on."""
        return frozenset[str]().union(*(self.of.get(name, ()) for name in op.reads()))

    def reason(self, op: Op) -> str | None:
        """Return the carries that an operator reads, as a reason; `None` if it reads none."""
        direct = [name for name in op.reads() if name in self.carries]
        if direct:
            return f"reads {self._listed(direct)}"
        through = next((name for name in op.reads() if name in self.of), None)
        if through is None:
            return None
        return f"reads {self._listed(self.read_by(op))} through `{self.maker[through].name}`"

    def _listed(self, names: Iterable[str]) -> str:
        known = set(names)
        listed = ", ".join(f"`{name}`" for name in self.carries if name in known)
        return f"carr{'y' if len(known) == 1 else 'ies'} {listed}"
