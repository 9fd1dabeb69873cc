"""Branches that raise an error: checks of values in compiled functions of libraries.

    cond(bad, raises, lambda: x)          a = error_if(x=x, failed=bad) {message="x is bad"}

Libraries check values by a branch with a Python callback that raises, as `equinox.error_if`
does. A callback whose code has no return instruction always raises. Its branch becomes a
run-time check of the results of the other branches.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.jaxpr.core.equation import Equation, Value
from braces.lazy import extend


@dataclass(frozen=True)
class RaisingBranch:
    """A branch that raises an error.

    Attributes:
        index: Its index.
        messages: The messages of the error.
        selector: The position of the operand that selects the message, or the index of the
            message.
    """

    index: int
    messages: tuple[str, ...]
    selector: RaisingOperand | int = 0


@dataclass(frozen=True)
class RaisingOperand:
    """The position of an operand of a branch."""

    at: int


def find_raising_branches(branches: Sequence[Any]) -> list[RaisingBranch]:
    """Return the branches of a conditional that raise an error; none if all of them do."""
    candidates = [_raising_branch(at, branch) for at, branch in enumerate(branches)]
    raising = [branch for branch in candidates if branch is not None]
    return raising if len(raising) < len(branches) else []


def check_results(
    e: Equation,
    raising: Sequence[RaisingBranch],
    index: Var,
    operands: Sequence[Value],
    results: Sequence[Value],
) -> list[Value]:
    """Return the results of the other branches, checked so that a raising branch is not taken.

    Args:
        e: The equation.
        raising: The branches that raise.
        index: The index of the branch to take.
        operands: The operands of the branches.
        results: The results of the other branches.
    """
    for branch in raising:
        taken = emit("equal", index, e.lift(np.asarray(branch.index, index.dtype)))
        for message, failed in _failures(e, branch, taken, operands):
            results = [
                emit("error_if", e.lift(result), failed, message=message) for result in results
            ]
    return list(results)


def _failures(
    e: Equation, branch: RaisingBranch, taken: Var, operands: Sequence[Value]
) -> Iterator[tuple[str, Var]]:
    """Yield the messages of a branch, each with its condition."""
    selector = branch.selector
    value = operands[selector.at] if isinstance(selector, RaisingOperand) else selector
    if not isinstance(value, Var):
        at = min(max(int(value), 0), len(branch.messages) - 1)
        yield branch.messages[at], taken
        return
    for at, message in enumerate(branch.messages):
        selected = emit("equal", value, e.lift(np.asarray(at, value.dtype)))
        yield message, emit("logical_and", taken, selected)


def _raising_branch(index: int, closed: Any) -> RaisingBranch | None:
    """Return the record of a branch if a callback in it always raises."""
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name != "pure_callback":
            continue
        function = _callback_function(eqn)
        if function is None or not always_raises(function):
            continue
        messages = _messages(function)
        selector = _selector(closed.jaxpr, eqn) if len(messages) > 1 else 0
        return RaisingBranch(index, messages, selector)
    return None


def _callback_function(eqn: Any) -> Callable[..., Any] | None:
    """Return the Python function of a callback."""
    function = getattr(eqn.params.get("callback"), "callback_func", None)
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function if inspect.isfunction(function) else None


def always_raises(function: Callable[..., Any]) -> bool:
    """Return whether a function cannot return: its code has no return instruction.

    Example:
        >>> def fail(x):
        ...     raise ValueError(x)
        >>> always_raises(fail), always_raises(lambda x: x)
        (True, False)
    """
    names = {instruction.opname for instruction in dis.get_instructions(function)}
    return not any("RETURN" in name or "YIELD" in name for name in names)


def _messages(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the messages that a function closes over, or a description of the function."""
    for name, value in inspect.getclosurevars(function).nonlocals.items():
        if "msg" not in name and "message" not in name:
            continue
        values: Any = (value,) if isinstance(value, str) else value
        if isinstance(values, tuple | list) and all(map(_is_text, cast("Any", values))):
            return tuple(cast("Sequence[str]", values)) or (f"`{function.__name__}` failed.",)
    return (f"`{function.__name__}` raised an error.",)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _selector(jaxpr: Any, eqn: Any) -> RaisingOperand | int:
    """Return what selects the message: the only operand of the callback."""
    if len(eqn.invars) != 1:
        return 0
    (atom,) = eqn.invars
    if isinstance(atom, extend.Literal):
        return int(cast("Any", atom).val)
    invars = list(jaxpr.invars)
    return RaisingOperand(invars.index(atom)) if atom in invars else 0
