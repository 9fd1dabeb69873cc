"""Dataflow over the operators of a block: reachability, selection by cost, and fixpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from braces.define.decorator import OPS
from braces.ir.records import Op
from braces.ir.walk import names_bound_by

T = TypeVar("T")


def fixpoint(update: Callable[[T], T], state: T) -> T:
    """Apply an update until the state no longer changes; return the last state."""
    while (updated := update(state)) != state:
        state = updated
    return state


def needed_values(
    ops: Sequence[Op], values: Iterable[str], may_leave: Callable[[Op], bool]
) -> set[str]:
    """Return the values that must stay: these, and all operands of operators that stay.

    An operator stays if it may not leave, or if it computes a needed value (backward
    reachability).
    """
    needed = set(values)
    for op in reversed(ops):
        if not needed.isdisjoint(op.binds()) or not may_leave(op):
            needed.update(op.reads())
    return needed


def select_with_producers(
    candidates: Sequence[Op],
    is_worth_moving: Callable[[Op], bool],
    may_follow: Callable[[Op, set[str]], bool],
) -> list[Op]:
    """Return the operators worth moving, their producers, and consumers that may follow.

    Args:
        candidates: The operators that can move, in order.
        is_worth_moving: Returns whether an operator is worth moving for itself.
        may_follow: Returns whether a consumer follows, given the values that move.
    """
    selected, needed = set[str](), set[str]()
    for op in reversed(candidates):
        if not needed.isdisjoint(op.binds()) or is_worth_moving(op):
            selected.add(op.name)
            needed.update(op.reads())
    moved_values = names_bound_by(op for op in candidates if op.name in selected)
    for op in candidates:
        if may_follow(op, moved_values):
            selected.add(op.name)
            moved_values.update(op.binds())
    return [op for op in candidates if op.name in selected]


def adds_no_bytes(op: Op, further: set[str], bytes_of: Callable[[Iterable[str]], int]) -> bool:
    """Return whether an operator can move with its consumers without more stacked bytes.

    Args:
        op: The operator.
        further: Its operands that must be stacked if it moves; its results need not be then.
        bytes_of: Returns the bytes of values in one iteration.
    """
    is_exchange = OPS.get(op.type).cheap and len(further) == 1
    return not further or (is_exchange and bytes_of(further) <= bytes_of(op.binds()))
