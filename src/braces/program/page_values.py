"""Values on the HTML page of a program: those of a scope, and the gradients of a run."""

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


def collect_page_values(
    program: Builder, scope: Scope | None, feed: Mapping[str, Any] | None, loss: Named | None
) -> dict[str, dict[str, Any]]:
    """Collect the parameters, other states and gradients of a program, each by name.

    Raises:
        ProgramError: If `feed` or `loss` is given without `scope`, or the loss is missing.
    """
    if scope is None:
        if feed is None and loss is None:
            return {}
        raise ProgramError("feed= and loss= require scope=.", fix="Pass scope=.")
    set_infos = [info for info in program.persistable_infos if _is_set(scope, info.name)]
    parameters = {var.name: scope[var.name] for var in set_infos if var.kind == PARAMETER}
    states = {var.name: scope[var.name] for var in set_infos if var.kind != PARAMETER}
    grads = (
        {}
        if feed is None and loss is None
        else _compute_grads(program, scope, feed or {}, loss)
    )
    return {"Parameters": parameters, "Gradients": grads, "Other states": states}


def _is_set(scope: Scope, name: str) -> bool:
    variable = scope.find_var(name)
    return variable is not None and variable.initialized


def _compute_grads(
    program: Builder, scope: Scope, feed: Mapping[str, Any], loss: Named | None
) -> dict[str, Any]:
    """Compute the gradients of a loss by trainable parameters, in a run without updates."""
    targets = program.definition.main.results if loss is None else (loss,)
    if not targets:
        fix = "Pass loss=, a variable or its name."
        raise ProgramError("missing loss for the gradients.", fix=fix)
    names = [info.name for info in program.persistable_infos if info.trainable]
    if not names:
        return {}
    without_updates = type(program)(program.definition.with_(updates={}))
    differentiated = gradients(targets, names)(without_updates)
    grad_names = differentiated.definition.main.results[-len(names) :]
    return dict(
        zip(names, Executor().run(differentiated, scope, feed, grad_names), strict=True)
    )
