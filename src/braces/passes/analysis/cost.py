"""What programs take, as values: operations and bytes; sizes that are not known are symbols."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from braces.dims import Dim, Size, amount, substitute, sum_of
from braces.ir.records import VarInfo
from braces.ir.text_table import columns
from braces.ir.views import LoopView

Sizes: TypeAlias = "Mapping[str, Size]"


@dataclass(frozen=True, slots=True)
class Cost:
    """What something takes; sizes that are not known are symbols.

    Attributes:
        operations: Sums, products, comparisons and functions of numbers: FLOPs. A product that
            is added to a sum is two.
        bytes_read: The bytes of all that operators read.
        bytes_written: The bytes of all that they bind.

    Example:
        >>> from braces.dims import Dim
        >>> cost = Cost(24 * Dim.named("b"), 8, 16)
        >>> print(cost + cost)
        48 FLOP·b, 48 B
        >>> cost.at({"b": 10}).operations
        240
    """

    operations: Size = 0
    bytes_read: Size = 0
    bytes_written: Size = 0

    @property
    def bytes(self) -> Size:
        """The bytes that are read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def parts(self) -> tuple[Size, Size, Size]:
        """Operations, bytes read, bytes written."""
        return self.operations, self.bytes_read, self.bytes_written

    def __add__(self, other: Cost) -> Cost:
        return Cost.of((self, other))

    @staticmethod
    def of(costs: Iterable[Cost]) -> Cost:
        """What all of these take together."""
        parts = [one.parts for one in costs]
        return Cost(*map(sum_of, zip(*parts, strict=True))) if parts else Cost()

    def times(self, count: Size) -> Cost:
        """What so many of it take."""
        return self if count == 1 else Cost(*(part * count for part in self.parts))

    def at(self, sizes: Sizes) -> Cost:
        """The same with sizes in place of symbols."""
        return Cost(*(substitute(part, sizes) for part in self.parts)) if sizes else self

    def __str__(self) -> str:
        return f"{amount(self.operations, 'FLOP')}, {amount(self.bytes, 'B')}"


@dataclass(frozen=True, slots=True)
class OpCost:
    """What one operator takes in a run of the program.

    Attributes:
        path: Of the operator, as `loop_0/body/matmul_0`.
        type: Its type.
        runs: How often it runs.
        cost: What all these runs take; of what owns blocks, all that is in them.
        owns_blocks: Whether it owns blocks.
        told: Whether its definition tells how many operations it takes; where it does not, one
            is counted for each number that it gives.
    """

    path: str
    type: str
    runs: Size
    cost: Cost
    owns_blocks: bool = False
    told: bool = True


@dataclass(frozen=True)
class ProgramCost:
    """What a program takes, and each operator in it; `print` shows it.

    Attributes:
        total: What a run of the program takes. ops: What each operator takes, those in blocks
        too, in program order. peak_bytes: How many bytes are alive at once, at most; estimated
        (`braces.passes.analysis.peak_memory`).
    """

    total: Cost
    ops: tuple[OpCost, ...]
    peak_bytes: Size = 0

    @property
    def operations(self) -> Size:
        """The FLOPs of a run."""
        return self.total.operations

    @property
    def bytes(self) -> Size:
        """The bytes that operators read and write in a run."""
        return self.total.bytes

    @property
    def by_type(self) -> dict[str, Cost]:
        """What all operators of a type take; all cases of a branch count here."""
        found: dict[str, list[Cost]] = {}
        for one in self.ops:
            if not one.owns_blocks:
                found.setdefault(one.type, []).append(one.cost)
        return {type_: Cost.of(costs) for type_, costs in found.items()}

    @property
    def untold(self) -> tuple[str, ...]:
        """The types of operators that do not tell how many operations they take."""
        return tuple(sorted({one.type for one in self.ops if not one.told}))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        total = self.total
        lines = [
            f"operations  {amount(total.operations, 'FLOP')}",
            f"read        {amount(total.bytes_read, 'B')}",
            f"written     {amount(total.bytes_written, 'B')}",
            f"peak        {amount(self.peak_bytes, 'B')}",
        ]
        counts, costs = Counter(one.type for one in self.ops), self.by_type
        ranked = sorted(costs, key=lambda name: _rank(costs[name]), reverse=True)
        cells = [
            [
                str(counts[type_]),
                type_,
                *map(amount, (one.operations, one.bytes), ("FLOP", "B")),
            ]
            for type_, one in ((type_, costs[type_]) for type_ in ranked)
            if one != Cost()
        ]
        lines += [f"  {line}" for line in columns(cells, right=(0,))]
        if self.untold:
            lines.append(f"  one operation for each number: {', '.join(self.untold)}")
        return "\n".join(lines)


def trips_of(view: LoopView, infos: Mapping[str, VarInfo]) -> Size:
    """How many trips a loop makes, at most; a symbol where only a run knows."""
    if view.length is not None:
        return view.length
    if view.slices:
        return infos[view.slices[0].source].shape[0]
    return Dim.named(re.sub(r"^(?=\d)|[^\w.]", "_", view.recorded) + ".trips")


def number_of(size: Size) -> int:
    """A size, as if all that is not known were 100; to compare by."""
    names = size.names() if isinstance(size, Dim) else ()
    found = substitute(size, dict.fromkeys(names, 100))
    assert isinstance(found, int)
    return found


def _rank(cost: Cost) -> tuple[int, int]:
    """In which order costs are listed."""
    return number_of(cost.operations), number_of(cost.bytes)
