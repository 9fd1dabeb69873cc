"""The operators of each metric of a block.

    equal_0: bool[n] = equal(x=argmax_0, y=labels)         accuracy_0
    sum_0: f64[] = sum(x=equal_0)                          accuracy_0
    total: f64[] = accumulate(total=accuracy_0/total, …)   accuracy_0
    divide_0: f64[] = divide(x=total, y=count)             accuracy_0

A metric accumulates sums in states by operators that count (`definition.counts`). All of its
operators are built at one line of the user. Those of the line belong to the metric if they lead
to its sums, or follow from these, and neither results nor parameters depend on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from braces.define.decorator import OPS
from braces.ir.records import PARAMETER, STATE, Op, VarInfo
from braces.ir.walk import ancestors, descendants, names_bound_by


def metric_parts(
    ops: Sequence[Op], infos: Mapping[str, VarInfo], results: Iterable[str]
) -> dict[str, str]:
    """Return the metric of each operator that belongs to one, by the name of the operator.

    Args:
        ops: The operators of a block.
        infos: The variables that are visible in the block.
        results: The results of the block.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     hits = br.metrics.mean(br.data("x", ["n"]), name="hits")
        >>> main = prog.definition.main
        >>> {*metric_parts(main.ops, main.vars, ()).values()}
        {'hits'}
    """
    counting = dict[str, list[Op]]()
    for op in ops:
        if name := _metric_of(op, infos):
            counting.setdefault(name, []).append(op)
    if not counting:
        return {}
    others = _needed_by_others(ops, infos, results)
    parts = dict[str, str]()
    for name, sums in counting.items():
        for op in _operators_of(sums, ops, others):
            parts.setdefault(op.name, name)
    return parts


def _metric_of(op: Op, infos: Mapping[str, VarInfo]) -> str:
    """Return the metric whose sum an operator accumulates; empty for others."""
    definition = OPS.find(op.type)
    if definition is None or not definition.counts:
        return ""
    states = (n for n in op.reads() if n in infos and infos[n].kind == STATE)
    state = next(states, "")
    return state.rpartition("/")[0] or state


def _needed_by_others(
    ops: Sequence[Op], infos: Mapping[str, VarInfo], results: Iterable[str]
) -> set[str]:
    """Return the names that results and layers depend on, apart from those of sums."""
    sums = names_bound_by(op for op in ops if _metric_of(op, infos))
    parameters = {name for name, info in infos.items() if info.kind == PARAMETER}
    layers = (op for op in ops if not parameters.isdisjoint(op.reads()))
    ends = {*results} - descendants(ops, sums)
    return ancestors(ops, ends | names_bound_by(layers))


def _operators_of(sums: Sequence[Op], ops: Sequence[Op], others: Collection[str]) -> list[Op]:
    """Return the operators of the metric with some accumulated sums."""
    sources = {op.source for op in sums}
    of_line = [op for op in ops if op.source in sources and _is_apart(op, others)]
    before = ancestors(of_line, {name for op in sums for name in op.reads()})
    leading = [op for op in of_line if not before.isdisjoint(op.binds())]
    after = descendants(of_line, names_bound_by([*leading, *sums]))
    following = [op for op in of_line if not after.isdisjoint(op.binds())]
    needed = ancestors(of_line, names_bound_by(following))
    return [op for op in of_line if not needed.isdisjoint(op.binds())]


def _is_apart(op: Op, others: Collection[str]) -> bool:
    return all(name not in others for name in op.binds())
