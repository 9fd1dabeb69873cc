"""Frozen states: values of persistable variables as constants of compiled code.

An executor with `frozen=True` compiles the values of variables that a program only reads. Code
is valid for these arrays alone, so it is found by their identity: values of a scope are never
changed in place.

Values that depend on these alone are computed once, before the code is compiled; see
`partial_evaluation`. Small results are constants of the code, which XLA simplifies further.
Large ones are its arguments: they would make compiling slow and the persistent cache large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import is_, not_
from typing import Any

import numpy as np

from braces.dims.human_units import format_bytes
from braces.ir.records import PARAMETER
from braces.lazy import extend, jax
from braces.lower.cache.persistent_cache import compile_or_read
from braces.lower.partial_evaluation import split_function
from braces.report import count_text
from braces.runtime.plan.plan import Plan

MOST_CHANGES = 2
"""The number of times that code is compiled again because a value changed."""
ARRAY_BYTES, TOTAL_BYTES = 2 << 20, 16 << 20
"""The size of one constant of the code, and that of all."""


class FrozenStates:
    """The states of a plan that are constants.

    Args:
        plan: The plan.
        wanted: Whether the executor freezes states.

    Attributes:
        start: The number of states that are always arguments; they come first.
        active: Whether the others are constants of the next compilation. A training step has
            none, and a plan whose values changed several times has none anymore.
        computed: Values that depend on constants alone, by the text of the computation: code
            for other sizes shares them.
    """

    def __init__(self, plan: Plan, wanted: bool) -> None:
        self.start = len(plan.replaced)
        self._values, self._changes = list[Any](), 0
        self.computed = dict[str, Sequence[Any]]()
        names = list(plan.states)[self.start :]
        trains = any(plan.states[name].kind == PARAMETER for name in plan.replaced)
        varying = plan.random_states | plan.narrow.keys()
        self.active = bool(wanted and names) and not trains and varying.isdisjoint(names)

    def find_changes(self, states: Sequence[Any]) -> bool:
        """Return whether values differ from those of the last compilation, and keep these."""
        values, before = list(states[self.start :]), self._values
        self._values = values
        if not before or all(map(is_, values, before)):
            return False
        self.computed = {}
        self._changes += 1
        self.active = self._changes <= MOST_CHANGES
        return True

    def facts(self) -> dict[str, str]:
        """Return the assumption of code about the values, in words."""
        if not self.active:
            return {"the value of parameters": "an argument"} if self._changes else {}
        times = count_text(self._changes, "change")
        return {"the value of parameters": f"a constant, after {times}"}

    def constants(self, states: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values that are constants of code for these states."""
        return tuple(states[self.start :]) if self.active else ()


@dataclass(frozen=True)
class FrozenFunction:
    """A function without its known arguments.

    Attributes:
        call: The function of the other arguments, and then of those of `more`.
        arguments: The other arguments.
        more: Values that were computed of the known arguments, and are arguments themselves.
        about: Its constants, in words.
    """

    call: Callable[..., Any]
    arguments: list[Any]
    more: tuple[Any, ...] = ()
    about: str = ""


def freeze_function(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    places: range,
    shared: dict[str, Sequence[Any]],
) -> FrozenFunction:
    """Compute the values of known arguments alone, and make the results constants.

    Args:
        function: The function, which has a name.
        arguments: The arguments.
        places: The positions of the known arguments.
        shared: The values that were computed for other types of the other arguments.
    """
    known = [at in places for at in range(len(arguments))]
    split = split_function(jax.make_jaxpr(function)(*arguments), known)
    known_values, others = (
        list(compress(arguments, known)),
        list(compress(arguments, map(not_, known))),
    )
    key = "" if split.early.consts else str(split.early)
    if key not in shared:
        shared[key] = compute_early(split.early, known_values, f"{function.__name__}_constants")
    computed = iter(shared[key] if key else shared.pop(key))
    values = [next(computed) if at is None else known_values[at] for at in split.passed]
    constants = _select_constants(values)
    finish = extend.jaxpr_as_fun(split.late)

    def call(*inputs: Any) -> tuple[Any, ...]:
        rest = iter(inputs[len(others) :])
        read = [next(rest) if value is None else value for value in constants]
        return tuple(finish(*inputs[: len(others)], *read))

    call.__name__ = function.__name__
    more = tuple(value for value, at in zip(values, constants, strict=True) if at is None)
    size = sum(value.nbytes for value in constants if value is not None)
    about = (
        f"{count_text(len(known_values), 'variable')} frozen, {format_bytes(size)} in the code"
    )
    return FrozenFunction(call, others, more, about)


def compute_early(early: Any, arguments: list[Any], name: str) -> Sequence[Any]:
    """Compute the values that the late equations read."""
    if not early.jaxpr.outvars:
        return ()
    function = extend.jaxpr_as_fun(early)

    def prepare(*inputs: Any) -> Any:
        return function(*inputs)

    prepare.__name__ = name
    code = compile_or_read(jax.jit(prepare, keep_unused=True).lower(*arguments), name)
    return code(*arguments)


def _select_constants(values: Sequence[Any]) -> list[Any]:
    """Return the values that become constants, as NumPy arrays; `None` for the others."""
    chosen: list[Any] = [None] * len(values)
    room = TOTAL_BYTES
    for at in sorted(range(len(values)), key=lambda at: values[at].nbytes):
        size = values[at].nbytes
        if size > min(ARRAY_BYTES, room):
            break
        chosen[at], room = np.asarray(values[at]), room - size
    return chosen
