"""Lengths of lists during lowering: compiled lists are buffers with a capacity.

A run that exceeds a capacity reports the lengths of all lists, and is repeated with larger
capacities. Pushes beyond the capacity are counted, so one run reports all lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from braces.define.decorator import OPS
from braces.ir.records import Op
from braces.lazy import jnp
from braces.lower.checks.check_codes import RunStatus
from braces.lower.xla.check_points import CheckPoint
from braces.lower.xla.lowering_hooks import LoweringHook, LoweringState
from braces.ops.lists.stack import ListBuffer


@dataclass
class ListLengthReports(LoweringHook):
    """Reports of list lengths, at the check points where the lists begin.

    Attributes:
        check_points: All check points, by path.
    """

    check_points: Mapping[str, CheckPoint]

    @cached_property
    def carried(self) -> frozenset[str]:
        """The check points of all list lengths, if an operator reads a list by index."""
        if not any(p.definition.looks_into_lists for p in self.check_points.values()):
            return frozenset()
        return frozenset(path for path, point in self.check_points.items() if point.history)

    def before(self, op: Op, path: str, block: LoweringState) -> None:
        """Stop a run before an operator looks into a list beyond its capacity."""
        definition = OPS.get(op.type)
        if definition.owns_blocks or definition.looks_into_lists:
            running, sites = block.record_checks()
            for _, buffer in self._buffers((block.env[name] for name in op.reads()), sites):
                running &= buffer.is_sufficient
            block.status = RunStatus(running, sites)

    def after(self, op: Op, path: str, block: LoweringState) -> None:
        """Record the lengths of lists that began in this block."""
        running, sites = block.status
        for site, buffer in self._buffers((block.env[name] for name in op.binds()), sites):
            sites = sites | {site: jnp.maximum(sites[site], buffer.highest)}
        block.status = RunStatus(running, sites)

    def _buffers(
        self, values: Iterable[Any], sites: Mapping[str, Any]
    ) -> Iterator[tuple[str, ListBuffer]]:
        """Yield the lists among values, each with its check point among these."""
        for value in values:
            if isinstance(value, ListBuffer):
                points = ((p, self.check_points[p]) for p in sites if p in self.check_points)
                owner = next((p for p, point in points if point.history == value.history), None)
                if owner is not None:
                    yield owner, value
