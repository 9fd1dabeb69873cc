"""Common subexpression elimination (CSE): compute equal operators once.

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

Two operators are equal if type, operands and attributes are equal; for random operators, the
attributes include salt and trip counts. The order of operands does not matter for commutative
operators (`@op(commutative=True)`). A block reuses values computed before it in enclosing
blocks. Nothing moves out of a block, since its operators may never run. An operator that may
fail does so at its first occurrence. Operators on lists and operators with blocks stay. Removed
variables lose their names; results stay, under the names of their replacements.

No executor runs this pass by default: docs/decisions, 0034, has its cost and benefit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import TypeAlias

from braces.define.decorator import OPS
from braces.dtypes import ListType
from braces.ir.records import Attr, Literal, Op, ProgramDef
from braces.ir.walk import rebound_names
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite

Key: TypeAlias = "tuple[object, ...]"
"""A hashable key that is equal for equal operators."""


def eliminate_common_subexpressions(program: ProgramDef) -> ProgramDef:
    """Return a program after common subexpression elimination."""
    return rewrite(program, _CommonSubexpressions(program))


class _CommonSubexpressions:
    """Rewriting rule: replace an operator by an equal one that is available.

    Attributes:
        program: The original program.
        there: Available operators of each block, by key.
    """

    def __init__(self, program: ProgramDef) -> None:
        self.program = program
        self.there: dict[InsertionPoint, dict[Key, Op]] = {}

    def __call__(self, op: Op, place: InsertionPoint) -> Replacement:
        key = cse_key(op)
        if key is None:
            return op
        available = self.there.setdefault(place, {})
        first = available.get(key) or self.outside(op, key, place.outer)
        if first is None:
            available[key] = op
            return op
        names = dict(zip(op.binds(), first.binds(), strict=True))
        if not (equal_attributes(op, first) and self.stand(names, place)):
            return op
        note(place.where(op), f"replaced by `{first.name}`: equal operator and operands")
        return names

    def outside(self, op: Op, key: Key, place: InsertionPoint | None) -> Op | None:
        """Return an equal operator of an enclosing block, if operands are the same there."""
        while place is not None:
            first = self.there.get(place, {}).get(key)
            if first is not None:
                return first if self.unambiguous(op.reads()) else None
            place = place.outer
        return None

    def stand(self, names: dict[str, str], place: InsertionPoint) -> bool:
        """Return whether names can replace others: unambiguous arrays of the same type."""
        types = [(place.info(old).type, place.info(new).type) for old, new in names.items()]
        arrays = not any(isinstance(old, ListType) or old != new for old, new in types)
        return arrays and self.unambiguous(names.values())

    def unambiguous(self, names: Iterable[str]) -> bool:
        """Return whether each name refers to one variable, in inner blocks too."""
        return self._ambiguous.isdisjoint(names)

    @cached_property
    def _ambiguous(self) -> set[str]:
        return rebound_names(self.program.main)


def cse_key(op: Op) -> Key | None:
    """Return the key of an operator; `None` if it is excluded from CSE."""
    definition = OPS.get(op.type)
    if definition.owns_blocks or definition.lists or definition.learn_rule is not None:
        return None
    reads: Collection[object] = op.inputs.items()
    if definition.commutative:
        reads = sorted(op.inputs.values())
    outputs = tuple([(slot, len(names)) for slot, names in op.outputs.items()])
    return op.type, tuple(reads), tuple(op.attrs.items()), outputs


def equal_attributes(left: Op, right: Op) -> bool:
    """Return whether equal attributes are equal bit by bit, unlike 0.0 and -0.0."""

    def exact(value: Attr) -> object:
        return None if isinstance(value, Literal) else repr(value)

    pairs = zip(left.attrs.values(), right.attrs.values(), strict=True)
    return all(exact(left_value) == exact(right_value) for left_value, right_value in pairs)


CSE = Pass(
    "cse", eliminate_common_subexpressions, "Compute common subexpressions once.", trusted=True
)
