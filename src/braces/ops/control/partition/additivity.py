"""Whether what an operator makes of parts of the rows adds up to what it makes of all."""

from __future__ import annotations

from collections.abc import Mapping, Set

from braces.define.decorator import OPS
from braces.ir.records import Op
from braces.ops.common.rules import gives_zeros


def adds(op: Op, totals: Set[str], own: Set[str], makers: Mapping[str, Op]) -> bool:
    """Whether the sum of what an operator gives of parts is what it gives for all rows.

    Args:
        op: One that rows end in, or that reads totals.
        totals: What of a block is such a sum already.
        own: What is computed in the block, and its parameters.
        makers: What makes each.
    """
    definition, read = OPS.get(op.type), totals & {*op.reads()}
    if not read:
        sums = [name for slot in definition.adds_to for name in op.inputs[slot]]
        zeros = all(gives_zeros(makers.get(name)) for name in sums)
        return definition.additive or (bool(sums) and zeros)
    picks = definition.operations == 0 and definition.picks == tuple(op.inputs)
    moves = picks or definition.changes_only in ("shape", "axes")
    others = (makers.get(name) for name in own & {*op.reads()} - read)
    linear = moves or {*definition.adds_to} == {*op.inputs}
    return linear and all(map(gives_zeros, others))
