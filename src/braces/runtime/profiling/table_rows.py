"""Profile rows: times by operator, and sums by type, block and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from braces.errors import ProgramError
from braces.ir.records import Op
from braces.lower.interpret.operator_timing import OpLocation, OpTime
from braces.report import first_names

Key: TypeAlias = tuple[OpLocation, ...]
"""Operators that are computed together, and share one time; mostly one."""

OP, TYPE, BLOCK, LINE = GROUPINGS = "op", "type", "block", "line"
NO_OPERATOR = "(no operator)"
SECOND = 1e9


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Cost of one item, in all measured runs.

    Attributes:
        name: The item: operators, as `add_3 + tanh_1 (+4)` for a fusion; or a type, a block, a
            line.
        paths: All operators in it, as `loop_0/body/add_3`.
        type: Their types; `""` where rows are for blocks or lines.
        block: The block that contains all of them; `""` is block 0. For types and lines it is
            `""`, too.
        source: The lines of the user's program that made them, as `train.py:41`.
        calls: The number of executions.
        total_s: The time of these, in seconds, including nested blocks.
        self_s: The time of these, in seconds, without nested blocks.
        share: The fraction of `self_s` in the time of all operators.
    """

    name: str
    paths: tuple[str, ...]
    type: str
    block: str
    source: str
    calls: int
    total_s: float
    self_s: float
    share: float


@dataclass(frozen=True)
class OpCosts:
    """Costs of operators, with facts about them.

    Attributes:
        works: By operators that are computed together.
        ops: Each operator, by its location.
    """

    works: Mapping[Key, OpTime]
    ops: Mapping[OpLocation, Op]

    @cached_property
    def self_ns(self) -> int:
        """The sum of all times."""
        return sum(work.self_ns for work in self.works.values())

    def rows(self, by: str = OP) -> tuple[ProfileRow, ...]:
        """Return the cost of each item, the largest own time first.

        Raises:
            ProgramError: If the grouping is unknown.
        """
        if by not in GROUPINGS:
            raise ProgramError(
                f"unknown grouping by={by!r:.40}.",
                fix=f"Use by={OP!r}, {TYPE!r}, {BLOCK!r} or {LINE!r}.",
            )
        label = {OP: self._name, TYPE: self._type, BLOCK: self._block, LINE: self._source}[by]
        groups, totals = dict[str, list[Key]](), dict[str, int]()
        for key, work in self.works.items():
            groups.setdefault(label(key), []).append(key)
            within = {label(key), *(label((owner,)) for owner in self._owners(key))}
            for name in within:
                totals[name] = totals.get(name, 0) + work.self_ns
        rows = (self._row(by, name, keys, totals[name]) for name, keys in groups.items())
        return tuple(sorted(rows, key=lambda row: -row.self_s))

    def _row(self, by: str, name: str, keys: Sequence[Key], total_ns: int) -> ProfileRow:
        own = sum(self.works[key].self_ns for key in keys)
        merged = tuple(dict.fromkeys(place for key in keys for place in key))
        return ProfileRow(
            name=label_of(keys[0], self.ops) if by == OP else name,
            paths=tuple(place.path for place in merged),
            type=self._type(keys[0]) if by in (OP, TYPE) else "",
            block=self._block(keys[0]) if by in (OP, BLOCK) else "",
            source=self._source(keys[0]) if by in (OP, LINE) else "",
            calls=self._trips(keys) if by == BLOCK else sum(self.works[k].calls for k in keys),
            total_s=total_ns / SECOND,
            self_s=own / SECOND,
            share=own / (self.self_ns or 1),
        )

    def _trips(self, keys: Sequence[Key]) -> int:
        """Return the number of iterations of a block: the largest number of calls in it."""
        plain = [key for key in keys if key and not any(self.ops[p].bodies() for p in key)]
        return max(self.works[key].calls for key in plain or keys)

    # ---- labels ------------------------------------------------------------------------------

    def _name(self, key: Key) -> str:
        """Return a unique name, unlike the displayed one."""
        return "\n".join(place.path for place in key)

    def _type(self, key: Key) -> str:
        return join_first_two(self.ops[place].type for place in self._main(key))

    def _source(self, key: Key) -> str:
        sources = (self.ops[place].source for place in self._main(key))
        return join_first_two(str(source) for source in sources if source)

    def _block(self, key: Key) -> str:
        """Return the innermost block that contains all of these."""
        chains = [self._blocks_around(place) for place in self._main(key)]
        common = (
            (block for block in chains[0] if all(block in c for c in chains)) if chains else ()
        )
        return next(iter(common), "")

    def _main(self, key: Key) -> Key:
        """Return the operators that represent a key: a fused loop alone, otherwise all others.

        The own cost of a loop besides its blocks is mostly small, such as a status check.
        """
        if is_fused_block_op(key, self.ops):
            return key[:1]
        return tuple(place for place in key if not self.ops[place].bodies()) or key

    # ---- nesting -----------------------------------------------------------------------------

    @cached_property
    def _owner(self) -> dict[str, OpLocation]:
        """The operator that owns each block."""
        return {
            f"{place.path}/{label}": place
            for place, op in self.ops.items()
            for label in op.bodies()
        }

    def _above(self, place: OpLocation) -> Iterator[OpLocation]:
        """Yield the operators around one, innermost first."""
        owner = self._owner.get(place.block)
        while owner is not None:
            yield owner
            owner = self._owner.get(owner.block)

    def _blocks_around(self, place: OpLocation) -> list[str]:
        return [place.block, *(owner.block for owner in self._above(place))]

    def _owners(self, key: Key) -> set[OpLocation]:
        """Return the operators that contain all of these."""
        several = [set(self._above(place)) for place in self._main(key)]
        return set[OpLocation].intersection(*several) if several else set()


def label_of(key: Key, ops: Mapping[OpLocation, Op]) -> str:
    """Return the label of operators that are computed together.

    A loop compiled as one instruction has its own name, with the number of nested operators.
    """
    if not key:
        return NO_OPERATOR
    if is_fused_block_op(key, ops):
        return f"{key[0].name} with {len(key) - 1} inside"
    return join_first_two(place.name for place in key)


def is_fused_block_op(key: Key, ops: Mapping[OpLocation, Op]) -> bool:
    """Return whether these are an operator that owns blocks, and operators of its blocks."""
    owner, others = key[:1], key[1:]
    return bool(others and ops[owner[0]].bodies()) and all(_is_in(owner[0], o) for o in others)


def _is_in(owner: OpLocation, place: OpLocation) -> bool:
    return f"{place.block}/".startswith(f"{owner.path}/")


def join_first_two(names: Iterable[str]) -> str:
    """Return the first two different names, and the number of the others."""
    return first_names(list(dict.fromkeys(names)), " + ")
