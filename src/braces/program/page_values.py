"""What a page shows of the values of a program: those of a scope, and gradients of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.builder.builder import Builder
from braces.errors import ProgramError
from braces.ir.records import PARAMETER
from braces.passes.autodiff.common import Named
from braces.passes.autodiff.passes import gradients
from braces.runtime.executor import Executor
from braces.scope import Scope


def shown_values(
    program: Builder, scope: Scope | None, feed: Mapping[str, Any] | None, loss: Named | None
) -> dict[str, dict[str, Any]]:
    """The parameters, other states and gradients of a program, each by name.

    Raises:
        ProgramError: There is a feed but no scope, or nothing to take gradients of.
    """
    if scope is None:
        if feed is None and loss is None:
            return {}
        raise ProgramError("Gradients need values.", fix="Say scope=, too.")
    held = [info for info in program.persistable_infos if _is_set(scope, info.name)]
    parameters = {one.name: scope[one.name] for one in held if one.kind == PARAMETER}
    states = {one.name: scope[one.name] for one in held if one.kind != PARAMETER}
    slopes = {} if feed is None and loss is None else _slopes(program, scope, feed or {}, loss)
    return {"Parameters": parameters, "Gradients": slopes, "Other states": states}


def _is_set(scope: Scope, name: str) -> bool:
    variable = scope.find_var(name)
    return variable is not None and variable.initialized


def _slopes(
    program: Builder, scope: Scope, feed: Mapping[str, Any], loss: Named | None
) -> dict[str, Any]:
    """The gradients of a loss by trainable parameters, in a run that changes no state."""
    targets = program.definition.main.results if loss is None else (loss,)
    if not targets:
        fix = "Say loss=, a variable or its name."
        raise ProgramError("Nothing says what the gradients are of.", fix=fix)
    names = [info.name for info in program.persistable_infos if info.trainable]
    if not names:
        return {}
    still = type(program)(program.definition.with_(updates={}))
    sloped = gradients(targets, names)(still)
    found = sloped.definition.main.results[-len(names) :]
    return dict(zip(names, Executor().run(sloped, scope, feed, found), strict=True))
