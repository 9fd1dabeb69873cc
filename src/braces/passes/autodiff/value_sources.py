"""Sources of values: all reads, whether or not the operators are differentiable.

    s = sign(w); loss = sum(u * s)          value_sources(ops, ["loss"]) = {loss, s, u, w, …}

Derivatives follow differentiable operators only. A variable that this search reaches and they
do not has no gradient, although the user did not declare it so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from braces.define.decorator import OPS
from braces.ir.records import CAPTURES, CUSTOM_GRADIENT, Op
from braces.ir.views import CustomGradientView
from braces.ops.control.core.value_flow import control_operands, value_edges

_STOPS = "stop_gradient"
"""The operator that declares its operand to have no gradient."""


def value_sources(ops: Iterable[Op], names: Iterable[str]) -> set[str]:
    """Return all variables that influence the values of `names`, themselves included.

    The search enters the blocks of operators. Conditions and indices count. It stops at
    `stop_gradient`, and at inputs to which a custom gradient declares no gradient.

    Args:
        ops: The operators.
        names: Variables of any block.
    """
    sources = defaultdict[str, list[str]](list)
    for op in ops:
        _add_edges(op, sources)
    reached, new = set[str](), list(names)
    while new:
        name = new.pop()
        if name not in reached:
            reached.add(name)
            new.extend(sources[name])
    return reached


def _add_edges(op: Op, sources: dict[str, list[str]]) -> None:
    for source, target in _edges(op):
        sources[target].append(source)
    for inner in _inner_ops(op):
        _add_edges(inner, sources)


def _inner_ops(op: Op) -> Iterator[Op]:
    if op.type != CUSTOM_GRADIENT:
        for body in op.bodies().values():
            yield from body.ops


def _edges(op: Op) -> Iterator[tuple[str, str]]:
    """Yield source and target of each dependence, those into and out of blocks included."""
    if op.type == CUSTOM_GRADIENT:
        read = [way.source for way in CustomGradientView.of(op).ways]
    elif not op.bodies():
        read = [] if _reads_no_values(op) else list(op.reads())
    else:
        edges = value_edges(op)
        yield from ((edge.source, edge.target) for edge in edges)
        read = _controls(op, {edge.source for edge in edges})
    yield from ((source, target) for target in op.binds() for source in read)


def _reads_no_values(op: Op) -> bool:
    return op.type == _STOPS or OPS.get(op.type).uniform is not None


def _controls(op: Op, passed: set[str]) -> list[str]:
    """Return conditions, indices and trip counts: operands that do not enter a block."""
    operands = (n for slot, names in op.inputs.items() if slot != CAPTURES for n in names)
    return [
        *(name for name in operands if name not in passed),
        *(name for _, name in control_operands(op)),
    ]
