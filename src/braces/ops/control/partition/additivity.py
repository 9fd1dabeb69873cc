"""Additivity of operators: results for shards of the rows add up to the whole result."""

from __future__ import annotations

from collections.abc import Mapping, Set

from braces.define.decorator import OPS
from braces.ir.records import Op
from braces.ops.common.rules import is_zeros


def is_additive(op: Op, totals: Set[str], own: Set[str], makers: Mapping[str, Op]) -> bool:
    """Return whether the sum of an operator's results over shards is its result for all rows.

    Args:
        op: An operator that reduces over rows, or that reads totals.
        totals: The values of the block known to be such sums.
        own: The names that the block binds, parameters included.
        makers: The operator that binds each name.
    """
    definition, totals_read = OPS.get(op.type), totals & {*op.reads()}
    if not totals_read:
        sums = [name for slot in definition.adds_to for name in op.inputs[slot]]
        zeros = all(is_zeros(makers.get(name)) for name in sums)
        return definition.additive or (bool(sums) and zeros)
    picks = definition.operations == 0 and definition.picks == tuple(op.inputs)
    moves = picks or definition.changes_only in ("shape", "axes")
    others = (makers.get(name) for name in own & {*op.reads()} - totals_read)
    linear = moves or {*definition.adds_to} == {*op.inputs}
    return linear and all(map(is_zeros, others))
