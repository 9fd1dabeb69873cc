"""Value flow through sub-blocks: edges between outer and inner variables of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from braces.ir.records import Op
from braces.ir.views import (
    BlockView,
    CustomGradientView,
    LoopView,
    PartitionView,
    SwitchView,
    view_of,
)


@dataclass(frozen=True)
class ValueEdge:
    """An edge of the value flow into a sub-block, out of it, or around in it.

    Attributes:
        origin: The label of the source block; empty for the enclosing block.
        source: The name of the value there.
        block: The label of the target block; empty for the enclosing block.
        target: The name of the value there.
        shift: The number of leading axes added; negative if axes are removed.
        first: The first axis of the source that the target has.
    """

    origin: str
    source: str
    block: str
    target: str
    shift: int = 0
    first: int = 0


def value_edges(op: Op) -> tuple[ValueEdge, ...]:
    """Return the edges between an operator and its sub-blocks."""
    match view_of(op):
        case LoopView() as view:
            return tuple(_loop_edges(view))
        case SwitchView() | BlockView() as view:
            return tuple(
                ValueEdge(label, result, "", out.name)
                for out in view.outputs
                for label, result in zip(op.bodies(), out.results, strict=True)
            )
        case PartitionView() as view:
            return tuple(_partition_edges(view, op))
        case CustomGradientView() as view:
            return tuple(_custom_gradient_edges(view))
        case None:
            return ()


def control_operands(op: Op) -> tuple[tuple[str, str], ...]:
    """Return the control operands (index, trip count, condition): block labels and names."""
    match view_of(op):
        case LoopView() as view:
            count = () if view.count is None else (("", view.count),)
            results = () if view.cond is None else view.cond.results
            return (*count, *(("cond", name) for name in results))
        case SwitchView() as view:
            return (("", view.index),)
        case _:
            return ()


def _loop_edges(view: LoopView) -> Iterator[ValueEdge]:
    cond = None if view.condition is None else view.condition.params
    for i, memory in enumerate(view.memories):
        for block, param in (("body", memory.param), *((("cond", cond[i]),) if cond else ())):
            yield ValueEdge("", memory.init, block, param)
            yield ValueEdge("body", memory.next, block, param)
        yield ValueEdge("", memory.init, "", memory.final)
        yield ValueEdge("body", memory.next, "", memory.final)
    for slice_ in view.slices:
        yield ValueEdge("", slice_.source, "body", slice_.param, shift=-1, first=1)
    for row in view.rows:
        yield ValueEdge("body", row.result, "", row.stacked, shift=1)


def _custom_gradient_edges(view: CustomGradientView) -> Iterator[ValueEdge]:
    for operand in view.passed:
        yield ValueEdge("", operand.value, "", operand.name)
        for param in (operand.param, operand.cotangent):
            yield ValueEdge("", operand.value, "backward", param)


def _partition_edges(view: PartitionView, op: Op) -> Iterator[ValueEdge]:
    for row in view.rows:
        for label, param in zip(op.bodies(), row.params, strict=True):
            yield ValueEdge("", row.source, label, param, first=1)
    for outs, first in ((view.outs, 1), (view.sums, 0)):
        for out in outs:
            for label, result in zip(op.bodies(), out.results, strict=True):
                yield ValueEdge(label, result, "", out.name, first=first)
