"""Which outputs of loops and branches depend on given names, output by output.

What does not depend has no tangent and no cotangent, not one that is zero: nothing of it enters
a gradient, where zero times an infinite slope would be NaN.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from braces.ir.records import Body, Op
from braces.ir.views import LoopView, Output
from braces.ops.control.core.block_op import Follow


def loop_reached(op: Op, active: Set[str], follow: Follow) -> set[str]:
    """The memories and rows of a loop: a fixpoint over its trips, from the inputs on."""
    view = LoopView.of(op)
    inner = {name for name in op.captures() if name in active}
    inner |= {memory.param for memory in view.memories if memory.init in active}
    inner |= {slice_.param for slice_ in view.slices if slice_.source in active}
    body = view.body
    while True:
        found = follow(body, inner)
        more = {memory.param for memory in view.memories if memory.next in found} - inner
        if not more:
            break
        inner |= more
    finals = {memory.final for memory in view.memories if memory.param in inner}
    return finals | {row.stacked for row in view.rows if row.result in found}


def cases_reached(
    cases: Sequence[Body],
    actives: Sequence[Set[str]],
    outputs: Sequence[Output],
    follow: Follow,
) -> set[str]:
    """The outputs of a branch: what depends on what is active within a case, in any case."""
    found = [follow(body, active) for body, active in zip(cases, actives, strict=True)]
    return {
        out.name
        for out in outputs
        if any(name in these for name, these in zip(out.results, found, strict=True))
    }
