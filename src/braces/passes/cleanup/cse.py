"""Compute once what is computed several times.

    data x: f32[3]                            data x: f32[3]
    a: f32[3] = tanh(x=x)                     a: f32[3] = tanh(x=x)
    b: f32[3] = add(x=x, y=a)                 b: f32[3] = add(x=x, y=a)
    …, stacked=[s: f32[2,3]], … =             …, stacked=[s: f32[2,3]], … =
      loop() {length=2} captures [x]    ->      loop() {length=2} captures [b]
      body (t: i64[]) {                         body (t: i64[]) {
        c: f32[3] = tanh(x=x)                     y: f32[3] = exp(x=b)
        d: f32[3] = add(x=c, y=x)                 return y
        y: f32[3] = exp(x=d)                    }
        return y
      }

Two operators are one where they are of one type, read the same and have the same attributes;
those of a draw are its salt and the trips. Which input is which makes no difference where the
definition says so (`@op(commutative=True)`). A block reads what is there before it; nothing
moves out of a block, whose operators may never run. What may fail does so at the first of
several. What lists hold stays, and what owns blocks. Variables that go have no name of their
own any more; results stay, under the names of those that stand for them.

No executor does it by itself: see ARCHITECTURE.md for what it costs and where it pays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import TypeAlias

from braces.define.decorator import OPS
from braces.dtypes import ListType
from braces.ir.records import Attr, Literal, Op, ProgramDef
from braces.ir.walk import names_bound_again
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite

Key: TypeAlias = "tuple[object, ...]"
"""What operators have in common that compute the same."""


def shared(program: ProgramDef) -> ProgramDef:
    """A program that computes nothing again that is there."""
    return rewrite(program, _Sharing(program))


class _Sharing:
    """The rule: an operator like one that is there goes, and that one stands for it.

    Attributes:
        program: The program as it was.
        there: The operators of each block, by what they compute.
    """

    def __init__(self, program: ProgramDef) -> None:
        self.program = program
        self.there: dict[Place, dict[Key, Op]] = {}

    def __call__(self, op: Op, place: Place) -> Change:
        key = key_of(op)
        if key is None:
            return op
        known = self.there.setdefault(place, {})
        first = known.get(key) or self.outside(op, key, place.outer)
        if first is None:
            known[key] = op
            return op
        names = dict(zip(op.binds(), first.binds(), strict=True))
        if not (alike(op, first) and self.stand(names, place)):
            return op
        note(place.where(op), f"computes what `{first.name}` does")
        return names

    def outside(self, op: Op, key: Key, place: Place | None) -> Op | None:
        """The like of an operator in the blocks around, where all that it reads is the same."""
        while place is not None:
            first = self.there.get(place, {}).get(key)
            if first is not None:
                return first if self.unambiguous(op.reads()) else None
            place = place.outer
        return None

    def stand(self, names: dict[str, str], place: Place) -> bool:
        """Whether these can stand for those: arrays of the same type, that have one meaning."""
        types = [(place.info(old).type, place.info(new).type) for old, new in names.items()]
        arrays = not any(isinstance(old, ListType) or old != new for old, new in types)
        return arrays and self.unambiguous(names.values())

    def unambiguous(self, names: Iterable[str]) -> bool:
        """Whether each of these names has one meaning, in inner blocks too."""
        return self._ambiguous.isdisjoint(names)

    @cached_property
    def _ambiguous(self) -> set[str]:
        return names_bound_again(self.program.main)


def key_of(op: Op) -> Key | None:
    """What operators have in common that compute the same; `None` where none does."""
    definition = OPS.get(op.type)
    if definition.owns_blocks or definition.lists or definition.learn_rule is not None:
        return None
    reads: Collection[object] = op.inputs.items()
    if definition.commutative:
        reads = sorted(op.inputs.values())
    outputs = tuple([(slot, len(names)) for slot, names in op.outputs.items()])
    return op.type, tuple(reads), tuple(op.attrs.items()), outputs


def alike(left: Op, right: Op) -> bool:
    """Whether attributes that are equal are so to the bit, as 0.0 and -0.0 are not."""

    def exact(value: Attr) -> object:
        return None if isinstance(value, Literal) else repr(value)

    pairs = zip(left.attrs.values(), right.attrs.values(), strict=True)
    return all(exact(one) == exact(other) for one, other in pairs)


CSE = Pass("cse", shared, "Compute common subexpressions once.", trusted=True)
