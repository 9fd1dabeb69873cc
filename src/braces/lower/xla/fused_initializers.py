"""Draws that a main block hands out as they are, made by one loop for all of a kind.

So is the startup program of a model compiled in a time that hardly grows with its parameters.
What else is drawn, a mask of dropout say, is computed where it is used, and nowhere kept.

    a = random_uniform(state, shape=(128, 512), salt=1)       a, b = pieces drawn by one loop
    b = random_uniform(state, shape=(512, 10), salt=2)   ->
    return a, b                                               return a, b
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from braces.define.definition import Values
from braces.ir.records import Body, Op
from braces.ops.random.samplers import DRAWINGS, piece_starts

LARGEST_IN_A_LOOP = 16
"""How many of the largest arrays one loop draws at most: all are there once more meanwhile."""


@dataclass(eq=False)
class Group:
    """Operators of one kind that read the same.

    Attributes:
        ops: The operators.
        first: Which of all the `starts` is that of the first one.
    """

    ops: list[Op]
    first: int = 0

    @property
    def attrs(self) -> list[Mapping[str, Any]]:
        """What each operator has."""
        return [op.attrs for op in self.ops]


@dataclass(eq=False)
class ManyDraws:
    """What is drawn together in one main block, while that is lowered.

    Attributes:
        groups: By the names of operators.
        starts: Numbers that the code is called with, beside all else.
        given: These numbers, as the computation that is being made has them.
        drawn: What was drawn so far, by the names of operators.
    """

    groups: Mapping[str, Group] = field(default_factory=dict[str, Group])
    starts: tuple[Any, ...] = ()
    given: Sequence[Any] = ()
    drawn: dict[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(body: Body, kept: Collection[str], most: int) -> ManyDraws:
        """Find what may be drawn together.

        Args:
            body: The main block.
            kept: The variables that it hands out.
            most: How many numbers an array has that is not drawn alone.
        """
        kinds, numbers = dict[Any, Group](), Counter[Any]()
        for op in body.ops:
            size = _handed_out(op, kept) if op.type in DRAWINGS else 0
            if 0 < size <= most:
                kind = op.type, tuple(op.reads()), DRAWINGS[op.type].kind(op.attrs)
                part = kind, numbers[kind] // (most * LARGEST_IN_A_LOOP)
                kinds.setdefault(part, Group([])).ops.append(op)
                numbers[kind] += size
        return ManyDraws._of([group for group in kinds.values() if len(group.ops) > 1])

    @staticmethod
    def _of(groups: Iterable[Group]) -> ManyDraws:
        starts, found = list[Any](), dict[str, Group]()
        for group in groups:
            own = piece_starts(group.attrs)
            group.first = len(starts)
            starts += own
            found |= dict.fromkeys((op.name for op in group.ops), group)
        return ManyDraws(found, tuple(starts))

    def begin(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Begin to make a computation; the arguments that are not of these draws."""
        rest = len(given) - len(self.starts)
        self.given, self.drawn = given[rest:], {}
        return given[:rest]

    def get(self, path: str, op: Op, values: Values) -> Any:
        """What the operator at this place draws; `None` where it is on its own."""
        group = self.groups.get(op.name)
        if group is None or path != op.name or all(op is not one for one in group.ops):
            return None  # an operator of a sub-block may have the same name, or the same path
        if path not in self.drawn:
            ((state,),) = (given for given in values.values() if given)
            starts = self.given[group.first : group.first + len(group.ops)]
            every = DRAWINGS[op.type].many(state, group.attrs, starts)
            self.drawn |= {op.name: x for op, x in zip(group.ops, every, strict=True)}
        return self.drawn[path]


def _handed_out(op: Op, kept: Collection[str]) -> int:
    """How many numbers it hands out as it draws them; 0 where none, or not known."""
    alone = len(list(op.reads())) == 1  # in no loop, whose trips it would read
    whole = alone and all(name in kept for name in op.binds())
    return DRAWINGS[op.type].count(op.attrs) if whole else 0
