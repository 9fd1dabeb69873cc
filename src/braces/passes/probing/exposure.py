"""Exposure of an inner variable: each construct around it gets one more output.

    final=[], stacked=[] = loop(sliced=x)     stacked=[loop_0.h: f32[t,8]] = loop(sliced=x)
      body (t: i64[], r: f32[8]) {              body (t: i64[], r: f32[8]) {
        h: f32[8] = tanh(x=r)           ->        h: f32[8] = tanh(x=r)
      }                                           return h
                                                }

| construct | output | elsewhere |
|---|---|---|
| counted loop | one more stacked output | |
| data-dependent loop | a list that each iteration extends, stacked by the outermost loop | |
| row-wise branch | one more output with the batch axis, and its mask | zeros, false |
| switch | one more output, and a mask that is true if the case ran | zeros, false |
| plain block | one more output | |

An output that exists already is reused, so values that a gradient saves are not saved twice.
"""

from __future__ import annotations

from collections.abc import Callable

from braces.dtypes import TensorType
from braces.errors import ProgramError
from braces.ir.places import Place
from braces.ir.records import Op
from braces.ir.views import (
    BACKWARD,
    CONDITION,
    BlockView,
    LoopView,
    PartitionView,
    SwitchView,
    view_of,
)
from braces.passes.core.rewrite import InsertionPoint, Replacement
from braces.passes.probing.branch_exit import leave_block, leave_rows, leave_switch
from braces.passes.probing.exposed import Exposed
from braces.passes.probing.loop_exit import LoopExit, owners, trips_of

REFUSED = {
    CONDITION: "a condition runs once more than its loop",
    BACKWARD: "the block of a custom gradient has no outputs of its own",
}
"""The blocks out of which no value is given, by label, with the reason."""


class Exposure:
    """Rule that exposes one inner variable; see `braces.passes.core.rewrite`.

    Args:
        path: The path of the variable, for messages.
        block: The block of the variable.
        name: Its name in this block.

    Attributes:
        value: The variable, as exposed so far.
        ran: The mask of its leading axes, true where its block ran; `None` for everywhere.
        trips: The trip counts of data-dependent loops in other loops, innermost first.
    """

    def __init__(self, path: str, block: Place, name: str) -> None:
        type_ = block.body.vars[name].type
        check_owners("probe", path, block)
        if not isinstance(type_, TensorType):
            raise ProgramError(
                f"cannot probe the list `{path}`.",
                given=f"{name}: {type_}",
                fix="Probe a value of its elements.",
            )
        self.path = path
        self.value = Exposed(name, type_)
        self.ran: Exposed | None = None
        self.trips: tuple[Exposed, ...] = ()
        self._labels = {(outer.path, op.name): label for outer, op, label in block.around()}

    def __call__(self, op: Op, place: InsertionPoint) -> Replacement:
        """Give the value out of a construct around it."""
        label = self._labels.get((place.path, op.name))
        if label is None:
            return op
        try:
            self._leave(op, label, place)
        except ProgramError as error:
            raise error.located(f"`{self.path}`") from None
        return {}

    def _leave(self, op: Op, label: str, place: InsertionPoint) -> None:
        view = view_of(op)
        if isinstance(view, LoopView):
            self._leave_loop(view, place)
        elif isinstance(view, BlockView):
            self._each(lambda items: leave_block(view, items, place))
        elif isinstance(view, SwitchView):
            case = list(op.bodies()).index(label)
            self.value, self.ran = leave_switch(view, case, self.value, self.ran, place)
        else:
            assert isinstance(view, PartitionView)
            case = list(op.bodies()).index(label)
            self.value, self.ran = leave_rows(view, case, self.value, self.ran, place)

    def _leave_loop(self, view: LoopView, place: InsertionPoint) -> None:
        leaving = LoopExit(view, place)
        if not view.counted:
            self._check_around(view, place)
        self._each(lambda items: list(map(leaving.leave, items)))
        if not view.counted and leaving.nested:
            self.trips = (*self.trips, trips_of(view))
        leaving.finish()
        self._each(lambda items: list(map(leaving.stacked, items)))

    def _check_around(self, view: LoopView, place: InsertionPoint) -> None:
        """Refuse a data-dependent loop in a branch: no number of rows fits the other case."""
        around = (view_of(op) for op in owners(place))
        branch = next((v for v in around if isinstance(v, SwitchView | PartitionView)), None)
        if branch is not None:
            raise ProgramError(
                f"cannot probe `{self.path}`: the loop `{view.origin.name}` has a "
                f"data-dependent trip count, inside the branch `{branch.origin.name}`.",
                fix="Probe a final value of the loop.",
            )

    def _each(self, leave: Callable[[list[Exposed]], list[Exposed]]) -> None:
        """Give out the value, its mask and its trip counts."""
        masks = [] if self.ran is None else [self.ran]
        self.value, *rest = leave([self.value, *masks, *self.trips])
        if masks:
            self.ran, *rest = rest
        self.trips = tuple(rest)


def check_owners(verb: str, path: str, block: Place) -> None:
    """Refuse blocks that give out no values and take in none.

    Args:
        verb: The action, `probe` or `patch`.
        path: The path of the variable.
        block: Its block.

    Raises:
        ProgramError: If the block is a condition or a custom gradient, or in one.
    """
    for _, op, label in block.around():
        if label in REFUSED or view_of(op) is None:
            reason = REFUSED.get(label, "the operator has no further outputs")
            raise ProgramError(
                f"cannot {verb} `{path}`: {reason}.",
                given=f"`{op.name}` ({op.type}), block `{label}`",
                fix=f"{verb.capitalize()} a variable of a loop body, a branch, or the main "
                "block.",
            )
