"""Costs of programs as values: operations and bytes; unknown sizes are symbols."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from braces.dims import Dim, Size, amount, substitute, sum_of
from braces.ir.records import VarInfo
from braces.ir.views import LoopView
from braces.report import columns

Sizes: TypeAlias = "Mapping[str, Size]"


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost in operations and bytes; unknown sizes are symbols.

    Attributes:
        operations: FLOPs: sums, products, comparisons and functions of numbers. A multiply-add
            is two.
        bytes_read: The bytes of all operands of operators.
        bytes_written: The bytes of all their results.

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
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def parts(self) -> tuple[Size, Size, Size]:
        """Operations, bytes read, bytes written."""
        return self.operations, self.bytes_read, self.bytes_written

    def __add__(self, other: Cost) -> Cost:
        return Cost.of((self, other))

    @staticmethod
    def of(costs: Iterable[Cost]) -> Cost:
        """Return the sum of several costs."""
        parts = [cost.parts for cost in costs]
        return Cost(*map(sum_of, zip(*parts, strict=True))) if parts else Cost()

    def times(self, count: Size) -> Cost:
        """Return the cost of several executions."""
        return self if count == 1 else Cost(*(part * count for part in self.parts))

    def at(self, sizes: Sizes) -> Cost:
        """Substitute sizes for symbols."""
        return Cost(*(substitute(part, sizes) for part in self.parts)) if sizes else self

    def __str__(self) -> str:
        return f"{amount(self.operations, 'FLOP')}, {amount(self.bytes, 'B')}"


@dataclass(frozen=True, slots=True)
class OpCost:
    """Cost of one operator in a run of the program.

    Attributes:
        path: Path of the operator, as `loop_0/body/matmul_0`.
        type: Its type.
        runs: Number of executions.
        cost: Cost of all executions; for an operator with blocks, of all operators in them.
        owns_blocks: Whether it owns blocks.
        told: Whether its definition has an operation count; if not, one is counted for each
            element of its results.
    """

    path: str
    type: str
    runs: Size
    cost: Cost
    owns_blocks: bool = False
    told: bool = True


@dataclass(frozen=True)
class ProgramCost:
    """Cost of a program, and of each operator in it; `print` shows it.

    Attributes:
        total: Cost of a run of the program. ops: Cost of each operator, those in blocks too, in
        program order. peak_bytes: Peak memory in bytes; estimated
        (`braces.passes.analysis.peak_memory`).
    """

    total: Cost
    ops: tuple[OpCost, ...]
    peak_bytes: Size = 0

    @property
    def operations(self) -> Size:
        """FLOPs of a run."""
        return self.total.operations

    @property
    def bytes(self) -> Size:
        """Bytes that operators read and write in a run."""
        return self.total.bytes

    @property
    def by_type(self) -> dict[str, Cost]:
        """Cost of all operators of each type; all cases of a branch count."""
        costs_by_type: dict[str, list[Cost]] = {}
        for op_cost in self.ops:
            if not op_cost.owns_blocks:
                costs_by_type.setdefault(op_cost.type, []).append(op_cost.cost)
        return {type_: Cost.of(costs) for type_, costs in costs_by_type.items()}

    @property
    def untold(self) -> tuple[str, ...]:
        """Types of operators that do not count their operations."""
        return tuple(sorted({op_cost.type for op_cost in self.ops if not op_cost.told}))

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
        counts, costs = Counter(item.type for item in self.ops), self.by_type
        ranked = sorted(costs, key=lambda name: _rank(costs[name]), reverse=True)
        cells = [
            [
                str(counts[type_]),
                type_,
                *map(amount, (item.operations, item.bytes), ("FLOP", "B")),
            ]
            for type_, item in ((type_, costs[type_]) for type_ in ranked)
            if item != Cost()
        ]
        lines += [f"  {line}" for line in columns(cells, right=(0,))]
        if self.untold:
            lines.append(f"  estimated as one operation per element: {', '.join(self.untold)}")
        return "\n".join(lines)


def trip_count_of(view: LoopView, infos: Mapping[str, VarInfo]) -> Size:
    """Return the trip count of a loop, at most; a symbol if it is data-dependent."""
    if view.length is not None:
        return view.length
    if view.slices:
        return infos[view.slices[0].source].shape[0]
    return Dim.named(re.sub(r"^(?=\d)|[^\w.]", "_", view.recorded) + ".trips")


def representative_number(size: Size) -> int:
    """Evaluate a size with 100 for each unknown dimension, for comparisons."""
    names = size.names() if isinstance(size, Dim) else ()
    value = substitute(size, dict.fromkeys(names, 100))
    assert isinstance(value, int)
    return value


def _rank(cost: Cost) -> tuple[int, int]:
    """Return the sort key of listed costs."""
    return representative_number(cost.operations), representative_number(cost.bytes)
