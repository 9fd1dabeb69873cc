"""Structured views of operators that own blocks: `of` reads an operator, `to_op` builds it.

In a program such an operator has parallel lists: the third initial value of a loop belongs to
the fourth parameter and third result of its body, and to the third final value. Only the views
know that. All other code handles one memory, one slice, one stacked output, one output of a
case as a single record.
"""

from typing import TypeAlias

from braces.ir.records import BLOCK, CUSTOM_GRADIENT, Body, Op
from braces.ir.views.branches import CasesView
from braces.ir.views.common import (
    Output,
    cases_in,
    fit_interface,
    names_read,
    outputs_of,
    size_in,
)
from braces.ir.views.custom_gradient import (
    BACKWARD,
    CotangentTarget,
    CustomGradientView,
    PassedValue,
)
from braces.ir.views.loop import CONDITION, LoopView, MemoryView, Slice, StackedOutputView
from braces.ir.views.partition import Case, Operand, PartitionView
from braces.ir.views.plain_block import BlockView
from braces.ir.views.switch import SwitchView

__all__ = [
    "BACKWARD",
    "CONDITION",
    "VIEWS",
    "BlockView",
    "Case",
    "CasesView",
    "CotangentTarget",
    "CustomGradientView",
    "LoopView",
    "MemoryView",
    "Operand",
    "Output",
    "PartitionView",
    "PassedValue",
    "Slice",
    "StackedOutputView",
    "SwitchView",
    "View",
    "cases_in",
    "fit_interface",
    "loop_index",
    "names_read",
    "outputs_of",
    "size_in",
    "view_of",
]

View: TypeAlias = LoopView | SwitchView | PartitionView | BlockView | CustomGradientView
"""A view of any construct."""

VIEWS: dict[str, type[View]] = {
    BLOCK: BlockView,
    CUSTOM_GRADIENT: CustomGradientView,
    "loop": LoopView,
    "switch": SwitchView,
    "partition": PartitionView,
}
"""The view class of each construct, by the type of its operator."""


def view_of(op: Op) -> View | None:
    """Return the view of an operator that owns blocks; `None` for others."""
    view = VIEWS.get(op.type)
    return None if view is None else view.of(op)


def loop_index(owner: Op, body: Body) -> str | None:
    """Return the name of the iteration number in a block; `None` if it is no body of a loop."""
    if VIEWS.get(owner.type) is not LoopView:
        return None
    index = LoopView.of(owner).index
    return index if index in body.params else None
