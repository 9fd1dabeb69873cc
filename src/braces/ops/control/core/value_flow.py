"""Which variable outside of a sub-block is which inside, to follow values through blocks."""

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
class Link:
    """A value that goes into a sub-block, out of it, or around in it.

    Attributes:
        origin: The label of the block that it comes from; empty outside.
        source: What it is called there.
        block: The label of the block that it goes to; empty outside.
        target: What it is called there.
        shift: How many axes come in front; negative ones go.
        first: The first axis that it keeps.
    """

    origin: str
    source: str
    block: str
    target: str
    shift: int = 0
    first: int = 0


def links_of(op: Op) -> tuple[Link, ...]:
    """The values that the operator hands to its sub-blocks and gets from them."""
    match view_of(op):
        case LoopView() as view:
            return tuple(_of_loop(view))
        case SwitchView() | BlockView() as view:
            return tuple(
                Link(label, result, "", out.name)
                for out in view.outputs
                for label, result in zip(op.bodies(), out.results, strict=True)
            )
        case PartitionView() as view:
            return tuple(_of_partition(view, op))
        case CustomGradientView() as view:
            return tuple(_of_custom_gradient(view))
        case None:
            return ()


def deciders_of(op: Op) -> tuple[tuple[str, str], ...]:
    """What says which way an operator goes or how often: labels of blocks, and names there."""
    match view_of(op):
        case LoopView() as view:
            count = () if view.count is None else (("", view.count),)
            results = () if view.cond is None else view.cond.results
            return (*count, *(("cond", name) for name in results))
        case SwitchView() as view:
            return (("", view.index),)
        case _:
            return ()


def _of_loop(view: LoopView) -> Iterator[Link]:
    cond = None if view.condition is None else view.condition.params
    for i, memory in enumerate(view.memories):
        for block, param in (("body", memory.param), *((("cond", cond[i]),) if cond else ())):
            yield Link("", memory.init, block, param)
            yield Link("body", memory.next, block, param)
        yield Link("", memory.init, "", memory.final)
        yield Link("body", memory.next, "", memory.final)
    for slice_ in view.slices:
        yield Link("", slice_.source, "body", slice_.param, shift=-1, first=1)
    for row in view.rows:
        yield Link("body", row.result, "", row.stacked, shift=1)


def _of_custom_gradient(view: CustomGradientView) -> Iterator[Link]:
    for one in view.passed:
        yield Link("", one.value, "", one.name)
        for param in (one.param, one.cotangent):
            yield Link("", one.value, "backward", param)


def _of_partition(view: PartitionView, op: Op) -> Iterator[Link]:
    for row in view.rows:
        for label, param in zip(op.bodies(), row.params, strict=True):
            yield Link("", row.source, label, param, first=1)
    for outs, first in ((view.outs, 1), (view.sums, 0)):
        for out in outs:
            for label, result in zip(op.bodies(), out.results, strict=True):
                yield Link(label, result, "", out.name, first=first)
