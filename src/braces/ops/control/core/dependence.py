"""Activity analysis of loops and branches: outputs that depend on given names.

Outputs that do not depend have no tangent and no cotangent, not even one of zeros. So they
never enter a gradient, where zero times an infinite slope would be NaN.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from braces.ir.records import Body, Op
from braces.ir.views import LoopView, Output
from braces.ops.control.core.block_op import ForwardDependence


def find_dependent_loop_outputs(
    op: Op, active: Set[str], follow: ForwardDependence
) -> set[str]:
    """Return the dependent memories and stacked outputs of a loop, by fixpoint iteration."""
    view = LoopView.of(op)
    inner = {name for name in op.captures() if name in active}
    inner |= {memory.param for memory in view.memories if memory.init in active}
    inner |= {slice_.param for slice_ in view.slices if slice_.source in active}
    body = view.body
    while True:
        dependent = follow(body, inner)
        more = {memory.param for memory in view.memories if memory.next in dependent} - inner
        if not more:
            break
        inner |= more
    finals = {memory.final for memory in view.memories if memory.param in inner}
    return finals | {row.stacked for row in view.rows if row.result in dependent}


def find_dependent_case_outputs(
    cases: Sequence[Body],
    actives: Sequence[Set[str]],
    outputs: Sequence[Output],
    follow: ForwardDependence,
) -> set[str]:
    """Return the outputs of a branch that depend on active names in any of its cases."""
    dependents = [follow(body, active) for body, active in zip(cases, actives, strict=True)]
    return {
        out.name
        for out in outputs
        if any(name in names for name, names in zip(out.results, dependents, strict=True))
    }
