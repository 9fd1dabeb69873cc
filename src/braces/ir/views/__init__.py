"""Operators that own blocks as values: taken apart into named pieces, and put together again.

In a program such an operator has parallel lists: a loop's third initial value belongs to its
body's fourth parameter, third result and to its third final value. Only the views know that;
all other code handles one memory, one slice, one row, one output of a case as one thing.
"""

from typing import TypeAlias

from braces.ir.records import BLOCK, CUSTOM_GRADIENT, Op
from braces.ir.views.branches import CasesView
from braces.ir.views.common import Output, cases_in, fitted, names_read, outputs_of, size_in
from braces.ir.views.custom_gradient import CustomGradientView, Passed, Way
from braces.ir.views.loop import LoopView, Memory, Row, Slice
from braces.ir.views.partition import Case, Operand, PartitionView
from braces.ir.views.plain_block import BlockView
from braces.ir.views.switch import SwitchView

__all__ = [
    "VIEWS",
    "BlockView",
    "Case",
    "CasesView",
    "CustomGradientView",
    "LoopView",
    "Memory",
    "Operand",
    "Output",
    "PartitionView",
    "Passed",
    "Row",
    "Slice",
    "SwitchView",
    "View",
    "Way",
    "cases_in",
    "fitted",
    "names_read",
    "outputs_of",
    "size_in",
    "view_of",
]

View: TypeAlias = LoopView | SwitchView | PartitionView | BlockView | CustomGradientView
"""Any construct, taken apart."""

VIEWS: dict[str, type[View]] = {
    BLOCK: BlockView,
    CUSTOM_GRADIENT: CustomGradientView,
    "loop": LoopView,
    "switch": SwitchView,
    "partition": PartitionView,
}
"""The view of each construct, by the type of its operator."""


def view_of(op: Op) -> View | None:
    """An operator that owns blocks, taken apart; `None` where it owns none."""
    view = VIEWS.get(op.type)
    return None if view is None else view.of(op)
