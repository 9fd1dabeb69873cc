"""Optimizers of recorded steps, for another program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from braces.builder.builder import Builder
from braces.builder.var import Var, main_var
from braces.errors import ProgramError
from braces.frontend.optimizer import Optimizer
from braces.frontend.optimizer.core.recorded_call import RECORDED
from braces.frontend.optimizer.core.transforms import Transform
from braces.ir.records import Attr


def rebuilt_optimizer(stored: Attr, live: Any, program: Builder) -> Optimizer:
    """Return an optimizer for a program, from the original or from its stored form.

    Raises:
        ProgramError: If the optimizer has no stored form, or a malformed one.
    """
    if isinstance(live, Optimizer):
        return _moved_optimizer(live, program)
    if isinstance(stored, str):
        raise ProgramError(
            f"the file does not contain the optimizer: `{stored}` has no stored form.",
            fix="Create it in this process, and call minimize again.",
        )
    try:
        optimizer = _loaded(stored, program)
    except (TypeError, ValueError, IndexError) as error:
        raise ProgramError(f"invalid optimizer in the program: {error!s:.200}") from error
    if not isinstance(optimizer, Optimizer):
        raise ProgramError("the program contains no optimizer.")
    return optimizer


def _moved_optimizer(optimizer: Optimizer, program: Builder) -> Optimizer:
    if not any(
        isinstance(leaf.rate, Var) for part in optimizer.parts for leaf in part.leaves()
    ):
        return optimizer
    moved = replace(
        optimizer, parts=tuple(_with_rates_of(part, program) for part in optimizer.parts)
    )
    vars(moved).update(
        {key: vars(optimizer)[key] for key in ("_call",) if key in vars(optimizer)}
    )
    return moved


def _with_rates_of(part: Transform, program: Builder) -> Transform:
    """Return a transformation whose learning rate is a variable of this program."""
    inner = tuple(_with_rates_of(each, program) for each in part.inner)
    is_var = isinstance(part.rate, Var)
    rate = main_var(program, cast("Var", part.rate).name) if is_var else part.rate
    return replace(part, inner=inner, rate=rate)


def _loaded(stored: Any, program: Builder) -> Any:
    if not isinstance(stored, tuple):
        return stored
    kind, *content = cast("tuple[Any, ...]", stored)
    if kind == "var":
        return main_var(program, content[0])
    if kind == "list":
        return [_loaded(each, program) for each in content[0]]
    if kind == "dict":
        return {key: _loaded(each, program) for key, each in content[0]}
    name, args, kwargs = content
    function = RECORDED.get(name)
    if kind != "call" or function is None:
        raise ValueError(f"unknown function `{name}` of br.optimizer.")
    return function(
        *(_loaded(each, program) for each in args),
        **{key: _loaded(each, program) for key, each in kwargs},
    )
