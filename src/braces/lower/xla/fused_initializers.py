"""Batched initializers: random values that a main block returns, drawn by one loop per kind.

So the compile time of a startup program hardly grows with the number of parameters. Other
random values, such as a dropout mask, are computed where they are used and are not stored.

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
from braces.ops.random.samplers import SAMPLERS, piece_starts

MAX_LARGE_PER_LOOP = 16
"""The most arrays of the largest size in one loop, which holds all of them twice."""


@dataclass(eq=False)
class InitializerGroup:
    """Random operators of one kind with the same inputs.

    Attributes:
        ops: The operators.
        first: The index of the first of their entries in `starts`.
    """

    ops: list[Op]
    first: int = 0

    @property
    def attrs(self) -> list[Mapping[str, Any]]:
        """The attributes of each operator."""
        return [op.attrs for op in self.ops]


@dataclass(eq=False)
class BatchedInitializers:
    """Groups of random operators of one main block, during lowering.

    Attributes:
        groups: The groups, by the names of their operators.
        starts: Numbers that the code takes as additional arguments.
        arguments: These arguments in the computation being built.
        drawn: The values drawn so far, by the names of operators.
    """

    groups: Mapping[str, InitializerGroup] = field(default_factory=dict[str, InitializerGroup])
    starts: tuple[Any, ...] = ()
    arguments: Sequence[Any] = ()
    drawn: dict[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(body: Body, returned_names: Collection[str], most: int) -> BatchedInitializers:
        """Find the operators that can be drawn in one loop.

        Args:
            body: The main block.
            returned_names: The variables that it returns.
            most: The largest number of elements of an array that is not drawn alone.
        """
        kinds, numbers = dict[Any, InitializerGroup](), Counter[Any]()
        for op in body.ops:
            size = _count_returned(op, returned_names) if op.type in SAMPLERS else 0
            if 0 < size <= most:
                kind = op.type, tuple(op.reads()), SAMPLERS[op.type].kind(op.attrs)
                part = kind, numbers[kind] // (most * MAX_LARGE_PER_LOOP)
                kinds.setdefault(part, InitializerGroup([])).ops.append(op)
                numbers[kind] += size
        return BatchedInitializers._of(
            [group for group in kinds.values() if len(group.ops) > 1]
        )

    @staticmethod
    def _of(groups: Iterable[InitializerGroup]) -> BatchedInitializers:
        starts, groups_by_name = list[Any](), dict[str, InitializerGroup]()
        for group in groups:
            own = piece_starts(group.attrs)
            group.first = len(starts)
            starts += own
            groups_by_name |= dict.fromkeys((op.name for op in group.ops), group)
        return BatchedInitializers(groups_by_name, tuple(starts))

    def begin(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Start a computation; return the arguments that do not belong to these groups."""
        own_count = len(arguments) - len(self.starts)
        self.arguments, self.drawn = arguments[own_count:], {}
        return arguments[:own_count]

    def get(self, path: str, op: Op, values: Values) -> Any:
        """Return the values of this operator; `None` if it is not in a group."""
        group = self.groups.get(op.name)
        if group is None or path != op.name or all(op is not member for member in group.ops):
            return None  # an operator of a sub-block may have the same name, or the same path
        if path not in self.drawn:
            ((state,),) = (operands for operands in values.values() if operands)
            starts = self.arguments[group.first : group.first + len(group.ops)]
            every = SAMPLERS[op.type].many(state, group.attrs, starts)
            self.drawn |= {op.name: x for op, x in zip(group.ops, every, strict=True)}
        return self.drawn[path]


def _count_returned(op: Op, returned_names: Collection[str]) -> int:
    """Return the number of elements that it draws for the block to return, or 0."""
    single_input = len(list(op.reads())) == 1  # in no loop, whose iteration it would read
    returned = single_input and all(name in returned_names for name in op.binds())
    return SAMPLERS[op.type].count(op.attrs) if returned else 0
