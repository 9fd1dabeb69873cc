"""Which outputs of loops and branches depend on given names, output by output.

What does not depend has no tangent and no cotangent, not one that is zero: nothing of it enters
a gradient, where zero times an infinite slope would be NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from braces.ir.records import Op
from braces.ops.control.base import Follow
from braces.ops.control.loop_parts import Parts
from braces.ops.control.switch_gradient import cases_of


def loop_reached(op: Op, active: Set[str], follow: Follow) -> set[str]:
    """The memories and rows of a loop: a fixpoint over its trips, from the inputs on."""
    parts = Parts.of(op)
    given = (*op.inputs.get("init", ()), *op.inputs.get("sliced", ()))
    inner = _inside(op, active, given, (*parts.memory_params, *parts.slice_params))
    while True:
        found = follow(parts.body, inner)
        more = _at(parts.next_memories, found, parts.memory_params) - inner
        if not more:
            break
        inner |= more
    finals = _at(parts.memory_params, inner, op.outputs.get("final", ()))
    return finals | _at(parts.rows, found, op.outputs.get("stacked", ()))


def cases_reached(
    op: Op, active: Set[str], follow: Follow, rows: Sequence[str], outputs: Sequence[str]
) -> set[str]:
    """The outputs of a branch: what depends in any case. `rows` are the cases' last inputs."""
    reached: set[str] = set()
    for case in cases_of(op):
        params = case.params[len(case.params) - len(rows) :]
        found = follow(case, _inside(op, active, rows, params))
        reached |= _at(case.results, found, outputs)
    return reached


def _inside(op: Op, active: Set[str], given: Sequence[str], params: Sequence[str]) -> set[str]:
    """What is active within a block: captures, and parameters whose inputs are."""
    return {name for name in op.captures() if name in active} | _at(given, active, params)


def _at(names: Sequence[str], among: Set[str], others: Iterable[str]) -> set[str]:
    """Those of `others` whose counterparts in `names` are among these."""
    return {other for name, other in zip(names, others, strict=False) if name in among}
